"""What hears of the progress of a training: listeners, and callbacks at every evaluation (scores and samples)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import nn

from seq2see.core.files import write_text
from seq2see.data.examples import Example
from seq2see.runs.load import open_model
from seq2see.runs.prepare import PreparedData
from seq2see.runs.run_folder import RunFolder
from seq2see.tasks.model_folder import ModelConfig, StoredModel
from seq2see.tasks.recipe import Recipe
from seq2see.tasks.registry import task_of
from seq2see.training.loop import Callback, CallbackAborted, MetricsLogger, StopRequest, Trainer


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
        with trainer.evaluation_model() as module:
            loss, scores = task_of(recipe).validate(module, prepared.valid, lambda: _raise_if_stopped(stop))
        metrics_logger.log(trainer.step, valid_loss=loss, **scores)
        trainer.record_validation(loss)
        shown = {name.removeprefix("valid_"): value for name, value in scores.items()}
        texts = "".join(f"   {name} {100 * value:.1f} %" for name, value in shown.items())
        log(f"step {trainer.step:>6,}   valid loss {loss:.4f}{texts}")

    return callback


def sample_callback(recipe: Recipe, prepared: PreparedData, run: RunFolder) -> Callback:
    """Write the outputs for a few validation examples, the same at every evaluation."""

    def callback(trainer: Trainer, stop: StopRequest) -> None:
        with trainer.evaluation_model() as module:
            table = sample_table(module, recipe, prepared, stop)
        write_text(run.samples / f"step-{trainer.step:06d}.tsv", table)

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
