"""Train a recipe: from its corpus to a finished run folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import torch

import seq2see
from seq2see.acceleration.cuda_graphs import GraphedCallable
from seq2see.acceleration.support import plain_only
from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.core.batch import Batch
from seq2see.core.cuda_warmup import cuda_warmup, run_in_background
from seq2see.core.devices import describe_machine, pick_device
from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.core.seeds import seed_torch
from seq2see.layers.initialization import initialize
from seq2see.runs.callbacks import NullListener, ProgressListener, sample_callback, sample_table, validation_callback
from seq2see.runs.prepare import PreparedData, load_pretrained_parts, prepare, write_split_fingerprints
from seq2see.runs.run_folder import RunFolder, folder_for
from seq2see.tasks.model_folder import ModelConfig, StoredModel, write_model
from seq2see.tasks.recipe import Recipe
from seq2see.tasks.registry import task_of
from seq2see.tasks.task import CountingStep, plain
from seq2see.training.checkpoints import DiskFull, final_weights, list_checkpoints, resume, save_trainer
from seq2see.training.loop import Interrupted, MetricsLogger, NonFinite, StopRequest, Trainer, train

StepCallback = Callable[[int, dict[str, float]], None]
"""Receives the number and the metrics of every training step."""


def train_recipe(recipe: Recipe, out: Path | None = None, listener: ProgressListener | None = None) -> RunFolder:
    """Train a recipe to the end; resume its unfinished run if there is one."""
    listener = listener or NullListener()
    cuda_warmup()
    run = folder_for(recipe, out)
    prepared = prepare(recipe, listener.log)
    task_of(recipe).check_dataset(recipe, prepared.train)
    _open_folder(run, recipe, prepared)
    counting = task_of(recipe).count(recipe, prepared.train, prepared.valid)
    try:
        if counting is None:
            train_by_gradient(recipe, prepared, run, listener)
        else:
            train_by_counting(counting, recipe, prepared, run, listener)
    except NonFinite as error:
        raise _with_examples(error, recipe, prepared, run) from None
    except Interrupted as stop:
        # On a full disk the checkpoint of this step may be missing.
        stop.folder, stop.saved_step = str(run), max((step for step, _ in list_checkpoints(run.checkpoints)), default=0)
        raise
    return run


def train_by_gradient(recipe: Recipe, prepared: PreparedData, run: RunFolder, listener: ProgressListener) -> None:
    """Train with gradient descent, and write the final model."""
    trainer = new_trainer(recipe, prepared)
    cuda_warmup().join()  # no other CUDA work may run while a CUDA graph is captured
    task = task_of(recipe)
    listener.log(f"model  {task.describe(recipe, trainer.model)}, on {trainer.device.type}")
    if resume(trainer, run.checkpoints, prepared.fingerprints, listener.log):
        listener.log(f"resume from step {trainer.step:,} of {run}")
    metrics_logger = MetricsLogger(run.path, trainer.step)
    callbacks = [
        validation_callback(recipe, prepared, metrics_logger, listener.log),
        sample_callback(recipe, prepared, run),
    ]
    batch_at = batches(recipe, prepared, full=trainer.device.type == "cuda")
    if figure := task.batch_figure(batch_at(1), prepared.train):
        figure(run.samples / "batch.png")
    on_step = _import_in_background(listener.step) if trainer.device.type == "cuda" else listener.step
    train(trainer, batch_at, callbacks, _saver(run, prepared, listener), metrics_logger, on_step)
    write_final_model(trainer, recipe, prepared, run)


def new_trainer(recipe: Recipe, prepared: PreparedData) -> Trainer:
    """Create a trainer with a freshly initialized model."""
    settings = recipe.training
    seed_torch(settings.seed, "weights")  # so the initial weights depend on the seed alone
    model = task_of(recipe).build(recipe.model, prepared.tokenizers)
    initialize(model, settings.init)
    if recipe.slot("pretrained") is not None:
        load_pretrained_parts(model, recipe)
    trainer_class = Trainer if plain_only() else AcceleratedTrainer
    return trainer_class(model, task_of(recipe).objective(recipe), settings, pick_device())


def batches(recipe: Recipe, prepared: PreparedData, *, full: bool = False) -> Callable[[int], Batch]:
    """The batch of every step (the first is step 1): a function of the recipe and the data only.

    With `full`, all batches of a bucket are padded to one shape, as CUDA graphs need.
    """
    # Augmentation consists of hundreds of small kernels; on a GPU they are launched as one CUDA graph.
    capture = GraphedCallable if pick_device().type == "cuda" and not plain_only() else plain
    return task_of(recipe).batches(recipe, prepared.train, full, capture)


def train_by_counting(
    steps: Iterator[CountingStep],
    recipe: Recipe,
    prepared: PreparedData,
    run: RunFolder,
    listener: ProgressListener,
) -> None:
    """Run a training that counts (see `Task.count`), and write the last model."""
    listener.log(f"model  {task_of(recipe).describe(recipe, torch.nn.Module())}")
    metrics_logger = MetricsLogger(run.path, 0)
    with StopRequest() as stop:
        for each in steps:
            metrics_logger.log(each.step, **each.metrics, tokens=each.tokens)
            metrics_logger.flush(each.step)
            listener.step(each.step, {"tokens": each.tokens, "loss": each.metrics["valid_loss"]})
            listener.log(each.message)
            if stop:
                raise Interrupted(stop.number, each.step)
    write_text(run.samples / f"step-{each.step:06d}.tsv", sample_table(each.module, recipe, prepared, StopRequest()))
    for name, document in each.documents.items():
        write_json(run.path / f"{name}.json", document)
    config = ModelConfig.of(recipe, each.step)
    write_model(run.model, StoredModel(config, each.module, prepared.tokenizers))  # type: ignore[arg-type]


def write_final_model(trainer: Trainer, recipe: Recipe, prepared: PreparedData, run: RunFolder) -> None:
    """Write the model with the final (averaged or best) weights."""
    trainer.load_weights(final_weights(trainer, run.checkpoints))
    write_model(run.model, StoredModel(ModelConfig.of(recipe, trainer.step), trainer.model, prepared.tokenizers))


def _import_in_background(on_step: StepCallback) -> StepCallback:
    """Wrap `on_step`: import matplotlib in a background thread while the GPU computes.

    The import starts after the first steps, because capturing their CUDA graphs keeps Python busy.
    """
    start_import = cache(lambda: run_in_background(lambda: import_module("seq2see.inspection.result_plots")))

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


def _with_examples(error: NonFinite, recipe: Recipe, prepared: PreparedData, run: RunFolder) -> UserError:
    """The error with the examples of its batch."""
    examples = prepared.splits["train"]
    unit, names = task_of(recipe).describe_examples(prepared.train, examples, error.indices[:3])
    message = f"{error.message} The batch contains {len(error.indices)} {unit}, first {names}."
    return UserError(message, location=str(run), hint=error.hint)


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
