"""Train a recipe: from its corpus to a finished run folder."""

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
from seq2see.core.cuda_warmup import cuda_warmup, run_in_background
from seq2see.core.devices import describe_machine, pick_device
from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.data.augmentation import Augmentation
from seq2see.data.buckets import BucketSampler
from seq2see.data.contiguous import ContiguousSampler
from seq2see.data.image_dataset import ImageDataset, ShuffledSampler
from seq2see.data.packed import PackedSampler
from seq2see.data.pair_dataset import pad_batch
from seq2see.data.windows import TextDataset, WindowSampler
from seq2see.models.build import fresh_model
from seq2see.models.ngram_lm import NgramSettings
from seq2see.runs.callbacks import sample_callback, validation_callback
from seq2see.runs.image_sheets import draw_batch
from seq2see.runs.listeners import NullListener, ProgressListener
from seq2see.runs.model_folder import ModelConfig, StoredModel, write_model
from seq2see.runs.ngram_training import check_ngram_text, train_ngram_model
from seq2see.runs.prepare import PreparedData, bpe_dropout_pairs, prepare
from seq2see.runs.pretrained import load_pretrained_encoder
from seq2see.runs.recipe import Recipe
from seq2see.runs.run_folder import RunFolder, folder_for
from seq2see.runs.split_fingerprints import write_split_fingerprints
from seq2see.training.checkpoints import DiskFull, list_checkpoints
from seq2see.training.cuda_graphs import GraphedCallable
from seq2see.training.loop import NonFinite, Trainer, train
from seq2see.training.metrics_logger import MetricsLogger
from seq2see.training.resume import final_weights, resume, save_trainer
from seq2see.training.signals import Interrupted

StepCallback = Callable[[int, dict[str, float]], None]
"""Receives the number and the metrics of every training step."""


def train_recipe(recipe: Recipe, out: Path | None = None, listener: ProgressListener | None = None) -> RunFolder:
    """Train a recipe to the end; resume its unfinished run if there is one."""
    listener = listener or NullListener()
    cuda_warmup()
    run = folder_for(recipe, out)
    prepared = prepare(recipe, listener.log)
    check_length(recipe, prepared)
    _open_folder(run, recipe, prepared)
    train_model = train_ngram_model if isinstance(recipe.decoder, NgramSettings) else train_by_gradient
    try:
        train_model(recipe, prepared, run, listener)
    except NonFinite as error:
        raise _with_examples(error, prepared, run) from None
    except Interrupted as stop:
        # On a full disk the checkpoint of this step may be missing.
        stop.folder, stop.saved_step = str(run), max((step for step, _ in list_checkpoints(run.checkpoints)), default=0)
        raise
    return run


def train_by_gradient(recipe: Recipe, prepared: PreparedData, run: RunFolder, listener: ProgressListener) -> None:
    """Train with gradient descent, and write the final model."""
    trainer = new_trainer(recipe, prepared)
    cuda_warmup().join()  # no other CUDA work may run while a CUDA graph is captured
    kinds = [part.kind for part in (recipe.encoder, recipe.decoder) if part is not None]
    shape, weights = " → ".join(kinds), count_weights(trainer.model)
    listener.log(f"model  {shape}, {weights:,} weights, on {trainer.device.type}")
    if resume(trainer, run.checkpoints, prepared.fingerprints, listener.log):
        listener.log(f"resume from step {trainer.step:,} of {run}")
    metrics_logger = MetricsLogger(run.path, trainer.step)
    callbacks = [validation_callback(prepared, metrics_logger, listener.log), sample_callback(recipe, prepared, run)]
    batch_at = batches(recipe, prepared, full=trainer.device.type == "cuda")
    if isinstance(prepared.train, ImageDataset):
        draw_batch(run, batch_at(1), prepared.train.examples)
    on_step = _import_in_background(listener.step) if trainer.device.type == "cuda" else listener.step
    train(trainer, batch_at, callbacks, _saver(run, prepared, listener), metrics_logger, on_step)
    write_final_model(trainer, recipe, prepared, run)


def new_trainer(recipe: Recipe, prepared: PreparedData) -> Trainer:
    """Create a trainer with a freshly initialized model."""
    settings = recipe.training
    model = fresh_model(recipe.model, prepared.tokenizers.sizes, settings.init, settings.seed)
    if recipe.pretrained is not None:
        load_pretrained_encoder(model, recipe.pretrained)
    return Trainer(model, recipe.objective, settings, pick_device())


def batches(recipe: Recipe, prepared: PreparedData, *, full: bool = False) -> Callable[[int], Batch]:
    """The batch of every step (the first is step 1): a function of the recipe and the data only.

    With `full`, all batches of a bucket are padded to one shape, as CUDA graphs need.
    """
    if isinstance(prepared.train, TextDataset):
        sampler_class = ContiguousSampler if recipe.training.batches == "contiguous" else WindowSampler
        windows = sampler_class(prepared.train, recipe.training.batch_tokens, recipe.training.seed)
        return lambda step: windows.batch_at(step - 1)
    if isinstance(prepared.train, ImageDataset):
        return image_batches(recipe, prepared.train)
    pairs = bpe_dropout_pairs(recipe, prepared.train)
    if recipe.training.batches == "packed":
        sampler = PackedSampler(pairs.lengths, recipe.training.batch_tokens, recipe.training.seed)
        return lambda step: sampler.batch(pairs.epoch(sampler.epoch_of(step - 1)), sampler.indices_at(step - 1))
    buckets = BucketSampler(pairs.lengths, recipe.training.batch_tokens, recipe.training.seed)

    def batch_at(step: int) -> Batch:
        plan = buckets.batch_at(step - 1)
        batch = pairs.epoch(plan.epoch).batch(plan.indices)
        return pad_batch(batch, plan.rows, plan.width) if full else batch

    return batch_at


def image_batches(recipe: Recipe, images: ImageDataset) -> Callable[[int], Batch]:
    """The batch of every step, with augmentation."""
    seed, augmenter = recipe.training.seed, (recipe.augmentation or Augmentation()).augmenter(recipe.training.seed)
    sampler = ShuffledSampler(len(images), max(1, recipe.training.batch_size // augmenter.repeats), seed)
    # Augmentation consists of hundreds of small kernels; on a GPU they are launched as one CUDA graph.
    augment: Callable[..., Batch] = GraphedCallable(augmenter) if images.pixels.is_cuda else augmenter

    def batch_at(step: int) -> Batch:
        indices = augmenter.repeat_indices(sampler.indices_at(step - 1))
        batch = images.batch(indices, sampler.epoch_of(step - 1))
        return replace(augment(batch, torch.tensor(step)), indices=batch.indices)

    return batch_at


def write_final_model(trainer: Trainer, recipe: Recipe, prepared: PreparedData, run: RunFolder) -> None:
    """Write the model with the final (averaged or best) weights."""
    trainer.load_weights(final_weights(trainer, run.checkpoints))
    write_model(run.model, StoredModel(ModelConfig.of(recipe, trainer.step), trainer.model, prepared.tokenizers))


def _import_in_background(on_step: StepCallback) -> StepCallback:
    """Wrap `on_step`: import matplotlib in a background thread while the GPU computes.

    The import starts after the first steps, because capturing their CUDA graphs keeps Python busy.
    """
    start_import = cache(lambda: run_in_background(lambda: import_module("seq2see.inspection.training_plots")))

    def wrapped(step: int, metrics: dict[str, float]) -> None:
        start_import()
        on_step(step, metrics)

    return wrapped


def _saver(run: RunFolder, prepared: PreparedData, listener: ProgressListener) -> Callable[[Trainer], None]:
    """A function that saves checkpoints; training continues when the disk is full, except at the last checkpoint."""

    def save(trainer: Trainer) -> None:
        try:
            save_trainer(trainer, run.checkpoints, prepared.fingerprints)
        except DiskFull as full:
            if trainer.done:
                raise
            listener.log(f"WARNING {full} Training continues without the checkpoint of step {trainer.step:,}.")

    return save


def _with_examples(error: NonFinite, prepared: PreparedData, run: RunFolder) -> UserError:
    """The error with the examples of its batch."""
    first = error.indices[:3]
    if isinstance(prepared.train, TextDataset):
        unit, names = "windows", "; ".join(f"near {prepared.train.text_at(index)[:40]!r}" for index in first)
    else:
        examples = [prepared.splits["train"][index] for index in first]
        unit, names = "pairs", "; ".join(f"{each.location or 'example'} {each.source[:40]!r}" for each in examples)
    message = f"{error.message} The batch contains {len(error.indices)} {unit}, first {names}."
    return UserError(message, location=str(run), hint=error.hint)


def check_length(recipe: Recipe, prepared: PreparedData) -> None:
    """Raise an error if a text is too short for training, before the run folder is created."""
    if isinstance(prepared.train, TextDataset):
        if isinstance(recipe.decoder, NgramSettings):
            check_ngram_text(prepared.train, recipe.decoder.order)
        else:
            batches(recipe, prepared)


def _open_folder(run: RunFolder, recipe: Recipe, prepared: PreparedData) -> None:
    """Create the run folder: recipe, environment, split fingerprints and data report."""
    write_text(run.recipe_file, recipe.toml())
    machine = {"seq2see": seq2see.__version__, **describe_machine(), "seed": recipe.training.seed}
    write_json(run.path / "env.json", {**machine, "command": sys.argv})
    write_split_fingerprints(run, prepared.split_fingerprints)
    if prepared.reports:
        write_json(run.path / "data_report.json", {"reports": prepared.reports})


def count_weights(model: torch.nn.Module) -> int:
    """The number of trainable parameters; a tied weight counts once."""
    return sum(weight.numel() for weight in model.parameters())
