"""Train a recipe: from its corpus to a finished run folder.

At every evaluation, callbacks log the validation loss and write samples; a listener shows the progress. A dry
run shows the model, the first example of a batch as the model receives it, and the expected training time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

import seq2see
from seq2see.acceleration.cuda_graphs import GraphedCallable
from seq2see.acceleration.swaps import plain_only
from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.adapters.adapt import adapt, merge, merged
from seq2see.adapters.expert import Expert
from seq2see.core.batch import Batch
from seq2see.core.devices import describe_machine, pick_device
from seq2see.core.errors import UserError
from seq2see.core.files import DISK_FULL_ERRORS, write_json, write_text
from seq2see.core.process_lock import exclusive_folder
from seq2see.core.seeds import seed_torch
from seq2see.core.startup import cuda_warmup, run_in_background
from seq2see.data.examples import Example
from seq2see.layers.initialization import initialize
from seq2see.runs.experts import draw_adapter_of
from seq2see.runs.load import open_model
from seq2see.runs.prepare import (
    PreparedData,
    expert_config,
    load_pretrained_parts,
    prepare,
    write_split_fingerprints,
)
from seq2see.runs.run_folder import RUNS, RunFolder, folder_for
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import ModelConfig, Recipe, StoredModel, write_model
from seq2see.tasks.task import CountingStep, plain, task_of
from seq2see.training.checkpoints import DiskFull, final_weights, list_checkpoints, resume, save_trainer
from seq2see.training.loop import (
    Callback,
    CallbackAborted,
    Interrupted,
    MetricsLogger,
    NonFinite,
    StopRequest,
    Trainer,
    read_metrics,
    train,
)
from seq2see.training.reinforce import RewardWatch


class ProgressListener(Protocol):
    """Receives the progress of training."""

    def log(self, text: str) -> None:
        """Show a line of text."""

    def step(self, step: int, metrics: dict[str, float]) -> None:
        """Receive the metrics of a training step."""


@dataclass(frozen=True)
class NullListener:
    """Ignores all progress."""

    def log(self, text: str) -> None:
        """Do nothing."""

    def step(self, step: int, metrics: dict[str, float]) -> None:
        """Do nothing."""


SAMPLES = 8
"""The number of sample sentences at every evaluation."""


def validation_callback(
    recipe: Recipe, prepared: PreparedData, metrics_logger: MetricsLogger, log: Callable[[str], None]
) -> Callback:
    """Log validation loss and metrics; the loss also decides early stopping."""

    def callback(trainer: Trainer, stop: StopRequest) -> None:
        with trainer.evaluation_model() as model, merged(model) as module:
            loss, scores = task_of(recipe).validate(module, prepared.valid, lambda: _raise_if_stopped(stop))
        metrics_logger.log(trainer.step, valid_loss=loss, **scores)
        trainer.record_validation(loss)
        shown = {name.removeprefix("valid_"): value for name, value in scores.items()}
        texts = "".join(f"   {name} {100 * value:.1f} %" for name, value in shown.items())
        log(f"step {trainer.step:>6,}   valid loss {loss:.4f}{texts}")

    return callback


def sample_callback(recipe: Recipe, prepared: PreparedData, run: RunFolder, log: Callable[[str], None]) -> Callback:
    """Write the outputs for a few validation examples, the same at every evaluation."""

    def callback(trainer: Trainer, stop: StopRequest) -> None:
        with trainer.evaluation_model() as model, merged(model) as module:
            table = sample_table(module, recipe, prepared, stop)
        try:
            write_text(run.samples / f"step-{trainer.step:06d}.tsv", table)
        except OSError as error:
            if error.errno not in DISK_FULL_ERRORS:
                raise
            log(f"WARNING {run.samples}: the disk is full, and the samples of this step are missing.")

    return callback


def sample_table(module: nn.Module, recipe: Recipe, prepared: PreparedData, stop: StopRequest) -> str:
    """A table of a few validation examples: source, reference, output."""
    task = task_of(recipe)
    examples = task.samples(prepared.valid, prepared.splits["valid"], SAMPLES)
    stored = StoredModel(ModelConfig.of(recipe, 0), module, prepared.tokenizers)  # type: ignore[arg-type]
    outputs = task.sample_outputs(open_model(stored), examples, lambda: bool(stop))
    _raise_if_stopped(stop)
    return _as_table(examples, outputs)


def _as_table(examples: Sequence[Example], outputs: Sequence[str]) -> str:
    rows = [(each.source, each.target, output) for each, output in zip(examples, outputs, strict=True)]
    return "".join("\t".join(map(_one_line, row)) + "\n" for row in [("source", "reference", "output"), *rows])


def _one_line(text: str) -> str:
    return text.replace("\t", "⇥").replace("\n", "⏎").replace("\r", "⏎")


def _raise_if_stopped(stop: StopRequest) -> None:
    if stop:
        raise CallbackAborted


StepCallback = Callable[[int, dict[str, float]], None]
"""Receives the number and the metrics of every training step."""


def train_recipe(recipe: Recipe, out: Path | None = None, listener: ProgressListener | None = None) -> RunFolder:
    """Train a recipe to the end; resume its unfinished run if there is one."""
    listener = listener or NullListener()
    cuda_warmup()
    with _exclusive_run(recipe, out) as run:
        if run.path.name != (out or Path(recipe.name)).name:
            listener.log(f"note   {out or RUNS / recipe.name} has another run; this one is {run}")
        _train_in(run, recipe, listener)
    return run


@contextmanager
def _exclusive_run(recipe: Recipe, out: Path | None) -> Iterator[RunFolder]:
    """The folder for a run of this recipe, which no other process may train in at the same time."""
    while True:
        run = folder_for(recipe, out)
        with exclusive_folder(run.path, "This run is being trained"):
            if folder_for(recipe, out) == run:  # else another process finished the run in the meantime
                yield run
                return


def _train_in(run: RunFolder, recipe: Recipe, listener: ProgressListener) -> None:
    run.refuse_links()
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


def train_by_gradient(recipe: Recipe, prepared: PreparedData, run: RunFolder, listener: ProgressListener) -> None:
    """Train with gradient descent, and write the final model."""
    trainer = new_trainer(recipe, prepared, listener.log)
    cuda_warmup().join()  # no other CUDA work may run while a CUDA graph is captured
    task = task_of(recipe)
    listener.log(f"model  {task.describe(recipe, trainer.model)}, on {trainer.device.type}")
    batch_at = training_batches(recipe, prepared, trainer, full=trainer.device.type == "cuda")
    if resume(trainer, run.checkpoints, prepared.fingerprints, listener.log):
        listener.log(f"resume from step {trainer.step:,} of {run}")
    metrics_logger = MetricsLogger(run.path, trainer.step, listener.log)
    callbacks = [
        validation_callback(recipe, prepared, metrics_logger, listener.log),
        sample_callback(recipe, prepared, run, listener.log),
    ]
    if figure := task.batch_figure(batch_at(1), prepared.train):
        figure(run.samples / "batch.png")
    on_step = _import_in_background(listener.step) if trainer.device.type == "cuda" else listener.step
    on_step = _with_reward_watch(on_step, run, listener.log)
    seconds = getattr(listener, "report_seconds", 0.0)  # of a display, which need not change at every step
    train(trainer, batch_at, callbacks, _saver(run, prepared, listener), metrics_logger, on_step, seconds)
    write_final_model(trainer, recipe, prepared, run)


def new_trainer(recipe: Recipe, prepared: PreparedData, log: Callable[[str], None] = lambda text: None) -> Trainer:
    """Create a trainer with a freshly initialized or a pretrained model."""
    settings = recipe.training
    seed_torch(settings.seed, "weights")  # so the initial weights depend on the seed alone
    model = task_of(recipe).build(recipe.model, prepared.tokenizers)
    initialize(model, settings.init)
    if recipe.slot("pretrained") is not None:
        new = load_pretrained_parts(model, recipe, prepared.tokenizers)
        new_parts = f"; new: {', '.join(dict.fromkeys(name.partition('.')[0] for name in new))}" if new else ""
        log(f"start  from the weights of {recipe.pretrained}{new_parts}")
        if recipe.adapter is not None:
            matrices = adapt(model, recipe.adapter, settings.seed, new)
            trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
            log(f"adapt  {recipe.adapter.kind} of {len(matrices)} matrices: {trained:,} trained weights")
    objective, device = task_of(recipe).objective(recipe), pick_device()
    if plain_only():
        return Trainer(model, objective, settings, device)
    return AcceleratedTrainer(model, objective, settings, device, without=OMITTED if recipe.adapter else ())


OMITTED = ("bf16-weights", "fused-feed-forward")
"""Parts that read the matrix of a linear layer instead of calling it, which is slow for a matrix with an adapter."""


def batches(recipe: Recipe, prepared: PreparedData, *, full: bool = False) -> Callable[[int], Batch]:
    """The batch of every step (the first is step 1): a function of the recipe and the data only.

    With `full`, all batches of a bucket are padded to one shape, as CUDA graphs need.
    """
    # Augmentation consists of hundreds of small kernels; on a GPU they are launched as one CUDA graph.
    capture = GraphedCallable if pick_device().type == "cuda" and not plain_only() else plain
    return task_of(recipe).batches(recipe, prepared.train, full, capture)


def training_batches(
    recipe: Recipe, prepared: PreparedData, trainer: Trainer, *, full: bool = False
) -> Callable[[int], Batch]:
    """The batch of every step; for REINFORCE with the answers of the model as it is before that step.

    The trainer must not have made a step yet, because the base model of REINFORCE is a copy of its model.
    """
    batch_at = batches(recipe, prepared, full=full)

    def model_in_training() -> Model:
        return open_model(StoredModel(ModelConfig.of(recipe, 0), trainer.model, prepared.tokenizers))

    answers = task_of(recipe).answers(recipe, prepared.train, model_in_training)
    return batch_at if answers is None else lambda step: answers(batch_at(step), step)


def _with_reward_watch(on_step: StepCallback, run: RunFolder, log: Callable[[str], None]) -> StepCallback:
    """Wrap `on_step`: report rewards that were all equal in the first steps; a resumed run includes its metrics log."""
    watch = RewardWatch(read_metrics(run.path / "metrics.jsonl"))

    def wrapped(step: int, metrics: dict[str, float]) -> None:
        watch.see(metrics)
        if message := watch.message(step):
            log(message)
        on_step(step, metrics)

    return wrapped


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
    expert = None
    if recipe.adapter is not None:
        expert = Expert.of(trainer.model, expert_config(recipe))
        draw_adapter_of(trainer.model, run.path)
        merge(trainer.model)
    config = ModelConfig.of(recipe, trainer.step)
    write_model(run.model, StoredModel(config, trainer.model, prepared.tokenizers, expert))


def _import_in_background(on_step: StepCallback) -> StepCallback:
    """Wrap `on_step`: import matplotlib in a background thread while the GPU computes.

    The import starts after the first steps, because capturing their CUDA graphs keeps Python busy.
    """
    start_import = cache(lambda: run_in_background(lambda: import_module("seq2see.inspection.plotting")))

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


TIMED_STEPS = 3
TRAINING_BYTES = 16
"""Bytes per weight in training by Adam in float32: the weight, its gradient and two moments."""


def _memory() -> int:
    """The bytes of memory of the device on which a model is trained."""
    if pick_device().type == "cuda":
        return torch.cuda.get_device_properties(pick_device()).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def dry_run(recipe: Recipe, log: Callable[[str], None]) -> None:
    """Log the data and the model, time a few training steps, and store nothing."""
    prepared = prepare(recipe, log)
    task = task_of(recipe)
    task.check_dataset(recipe, prepared.train)
    if task.count(recipe, prepared.train, prepared.valid) is not None:
        log(f"model  {task.describe(recipe, torch.nn.Module(), prepared.train)}")
        return
    with torch.device("meta"):  # shapes without memory: a model of any size can be described
        model = task.build(recipe.model, prepared.tokenizers)
    for name, part in model.named_children():
        log(f"part   {name:<8} {type(part).__name__:<20} {count_weights(part):>12,} weights")
    log(f"model  {count_weights(model):,} weights in total (tied weights counted once)")
    needed, memory = TRAINING_BYTES * count_weights(model), _memory()
    if needed > memory:
        sizes = f"{needed / 1e9:,.0f} GB for training, and this machine has {memory / 1e9:,.0f} GB"
        log(f"memory {sizes}: no step was timed")
        return
    trainer = new_trainer(recipe, prepared, log)
    batch_at = training_batches(recipe, prepared, trainer)
    batch = batch_at(1)
    inputs = {"source": batch.source, "target": batch.target}
    shapes = [f"{name} {tuple(each.values.shape)}" for name, each in inputs.items() if each is not None]
    log(f"batch  {', '.join(shapes)}; first row:")
    for name, values in task.first_row(batch, prepared.tokenizers):
        log(f"  {name:<15}{values}")
    trainer.train_step(batch)
    start = time.monotonic()
    for step in range(2, 2 + TIMED_STEPS):
        trainer.train_step(batch_at(step))
    seconds = (time.monotonic() - start) / TIMED_STEPS
    log(f"time   about {seconds * recipe.training.steps / 60:.1f} minutes for {recipe.training.steps:,} steps here")
