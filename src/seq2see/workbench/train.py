"""Training a recipe, from its corpus to a finished run folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import torch

import seq2see
from seq2see.core.batch import Batch
from seq2see.core.devices import describe_machine, pick_device
from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.core.waking import meanwhile, waking
from seq2see.models.build import fresh_model
from seq2see.models.counting import CountingSettings
from seq2see.sequences.buckets import Buckets
from seq2see.sequences.packs import Packs
from seq2see.sequences.pairs import even
from seq2see.sequences.pixels import PictureSet, Rounds
from seq2see.sequences.streams import Streams
from seq2see.sequences.views import Views
from seq2see.sequences.windows import TextSet, Windows
from seq2see.training.checkpoints import DiskFull, found
from seq2see.training.graphs import GraphedStep
from seq2see.training.journal import Journal
from seq2see.training.loop import NonFinite, Trainer, train
from seq2see.training.resume import final_weights, resume, save_trainer
from seq2see.training.signals import Interrupted
from seq2see.workbench.audience import Audience, Nobody
from seq2see.workbench.counting import check_countable, count_recipe
from seq2see.workbench.errands import measure, show
from seq2see.workbench.known_splits import remember_splits
from seq2see.workbench.model_folder import ModelConfig, StoredModel, write_model
from seq2see.workbench.picture_sheets import draw_batch
from seq2see.workbench.prepare import Prepared, prepare, recut
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder, folder_for
from seq2see.workbench.start import start_from

Watch = Callable[[int, dict[str, float]], None]
"""Is told the number and the figures of every step."""


def train_recipe(recipe: Recipe, out: Path | None = None, audience: Audience | None = None) -> RunFolder:
    """Train a recipe to its end, resuming its unfinished run if there is one."""
    audience = audience or Nobody()
    waking()
    run = folder_for(recipe, out)
    prepared = prepare(recipe, audience.say)
    check_length(recipe, prepared)
    _open_folder(run, recipe, prepared)
    learn = count_recipe if isinstance(recipe.decoder, CountingSettings) else take_steps
    try:
        learn(recipe, prepared, run, audience)
    except NonFinite as error:
        raise _name_batch(error, prepared, run) from None
    except Interrupted as stop:
        # A full disk may have cost the checkpoint of this very step.
        stop.folder, stop.saved = str(run), max((step for step, _ in found(run.checkpoints)), default=0)
        raise
    return run


def take_steps(recipe: Recipe, prepared: Prepared, run: RunFolder, audience: Audience) -> None:
    """Learn by gradients, step by step, and write the model that this ends with."""
    trainer = new_trainer(recipe, prepared)
    waking().join()  # whoever records a CUDA graph must be alone
    kinds = [part.kind for part in (recipe.encoder, recipe.decoder) if part is not None]
    shape, weights = " → ".join(kinds), count_weights(trainer.model)
    audience.say(f"model  {shape}, {weights:,} weights, on {trainer.device.type}")
    if resume(trainer, run.checkpoints, prepared.fingerprints, audience.say):
        audience.say(f"resume from step {trainer.step:,} of {run}")
    journal = Journal(run.path, trainer.step)
    errands = [measure(prepared, journal, audience.say), show(recipe, prepared, run)]
    batch_at = batches(recipe, prepared, full=trainer.device.type == "cuda")
    if isinstance(prepared.train, PictureSet):
        draw_batch(run, batch_at(1), prepared.train.examples)
    watch = _meanwhile_importing(audience.step) if trainer.device.type == "cuda" else audience.step
    train(trainer, batch_at, errands, _saver(run, prepared, audience), journal, watch)
    finish(trainer, recipe, prepared, run)


def new_trainer(recipe: Recipe, prepared: Prepared) -> Trainer:
    """A model with fresh weights, and what it takes to train it."""
    settings = recipe.training
    model = fresh_model(recipe.model, prepared.tokenisers.sizes, settings.initialise, settings.seed)
    if recipe.start is not None:
        start_from(model, recipe.start)
    return Trainer(model, recipe.objective, settings, pick_device())


def batches(recipe: Recipe, prepared: Prepared, *, full: bool = False) -> Callable[[int], Batch]:
    """The batch of every step (the first is step 1): a function of the recipe and the data alone.

    Batches that are `full` have one shape a bucket, filled up with padding: what a GPU wants.
    """
    if isinstance(prepared.train, TextSet):
        plan = Streams if recipe.training.batches == "streams" else Windows
        windows = plan(prepared.train, recipe.training.tokens, recipe.training.seed)
        return lambda number: windows.batch_at(number - 1)
    if isinstance(prepared.train, PictureSet):
        return picture_batches(recipe, prepared.train)
    pairs = recut(recipe, prepared.train)
    if recipe.training.batches == "packed":
        packs = Packs(pairs.lengths, recipe.training.tokens, recipe.training.seed)
        return lambda number: packs.batch(pairs.epoch(packs.epoch_of(number - 1)), packs.indices_at(number - 1))
    buckets = Buckets(pairs.lengths, recipe.training.tokens, recipe.training.seed)

    def batch_at(number: int) -> Batch:
        step = buckets.batch_at(number - 1)
        batch = pairs.epoch(step.epoch).batch(step.indices)
        return even(batch, step.rows, step.width) if full else batch

    return batch_at


def picture_batches(recipe: Recipe, pictures: PictureSet) -> Callable[[int], Batch]:
    """The batch of every step, in views of its own."""
    seed, viewer = recipe.training.seed, (recipe.views or Views()).viewer(recipe.training.seed)
    rounds = Rounds(len(pictures), max(1, recipe.training.tokens // viewer.showings), seed)
    # Hundreds of small kernels change a picture; on a GPU they are launched at once.
    look: Callable[..., Batch] = GraphedStep(viewer) if pictures.pixels.is_cuda else viewer

    def batch_at(number: int) -> Batch:
        indices = viewer.shown(rounds.indices_at(number - 1))
        batch = pictures.batch(indices, rounds.epoch_of(number - 1))
        return replace(look(batch, torch.tensor(number)), indices=batch.indices)

    return batch_at


def finish(trainer: Trainer, recipe: Recipe, prepared: Prepared, run: RunFolder) -> None:
    """Write the model that training ends with."""
    trainer.put(final_weights(trainer, run.checkpoints))
    write_model(run.model, StoredModel(ModelConfig.of(recipe, trainer.step), trainer.model, prepared.tokenisers))


def _meanwhile_importing(watch: Watch) -> Watch:
    """The same audience. While a GPU works, this process has time for what will draw the curves in the end.

    Not before the first steps are over: until they are recorded, Python has enough to do with them.
    """
    begin = cache(lambda: meanwhile(lambda: import_module("seq2see.inspection.curves")))

    def watching(step: int, figures: dict[str, float]) -> None:
        begin()
        watch(step, figures)

    return watching


def _saver(run: RunFolder, prepared: Prepared, audience: Audience) -> Callable[[Trainer], None]:
    """Saves checkpoints; a full disk costs a checkpoint, not the training, unless it is the last."""

    def save(trainer: Trainer) -> None:
        try:
            save_trainer(trainer, run.checkpoints, prepared.fingerprints)
        except DiskFull as full:
            if trainer.done:
                raise
            audience.say(f"WARNING {full} Training goes on without the checkpoint of step {trainer.step:,}.")

    return save


def _name_batch(error: NonFinite, prepared: Prepared, run: RunFolder) -> UserError:
    """The error, with the examples it happened on."""
    first = error.indices[:3]
    if isinstance(prepared.train, TextSet):
        unit, named = "windows", "; ".join(f"near {prepared.train.text_at(index)[:40]!r}" for index in first)
    else:
        examples = [prepared.splits["train"][index] for index in first]
        unit, named = "pairs", "; ".join(f"{each.place or 'example'} {each.source[:40]!r}" for each in examples)
    what = f"{error.what} The batch holds {len(error.indices)} {unit}, first {named}."
    return UserError(what, where=str(run), remedy=error.remedy)


def check_length(recipe: Recipe, prepared: Prepared) -> None:
    """Refuse a text that is too short to be learnt from, before there is a folder for it."""
    if isinstance(prepared.train, TextSet):
        if isinstance(recipe.decoder, CountingSettings):
            check_countable(prepared.train, recipe.decoder.order)
        else:
            batches(recipe, prepared)


def _open_folder(run: RunFolder, recipe: Recipe, prepared: Prepared) -> None:
    """Write down what the run is made from, before anything is computed."""
    write_text(run.recipe_file, recipe.toml())
    machine = {"seq2see": seq2see.__version__, **describe_machine(), "seed": recipe.training.seed}
    write_json(run.path / "env.json", {**machine, "command": sys.argv})
    remember_splits(run, prepared.stamps)
    if prepared.reports:
        write_json(run.path / "data_report.json", {"readings": prepared.reports})


def count_weights(model: torch.nn.Module) -> int:
    """How many numbers a model learns; a tied weight counts once."""
    return sum(weight.numel() for weight in model.parameters())
