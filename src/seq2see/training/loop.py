"""The training loop of all tasks.

`train` is the loop, `Trainer.enqueue` is one optimizer step, and the methods after it are the parts of that step in the
order in which they run. A task defines an objective, an embedding and a head, but no loop. Everything periodic
(evaluation, samples) is a callback that the caller passes in, so this package imports neither decoding nor metrics. The
loop is plain: `acceleration/trainer.py` overrides the parts of a step that have a faster form.

A stop request finishes the current step, saves a checkpoint, and prints how to resume. The signal handler only sets a
flag, which every loop (training, evaluation, decoding) checks once per iteration. A second signal ends the process at
once.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import AnswerBatch, Batch, ContiguousBatch, pick_rows
from seq2see.core.devices import autocast
from seq2see.core.documents import loads
from seq2see.core.errors import UserError
from seq2see.core.files import DISK_FULL_ERRORS, write_bytes
from seq2see.core.seeds import seed_torch
from seq2see.models.build import trained_tensors
from seq2see.training.objectives import CrossEntropy, Objective, batch_loss, repeat_for_r_drop
from seq2see.training.optimizers import (
    NTASGD,
    ExponentialMovingAverage,
    grad_norm_and_scale,
    gradients_of,
    update_average,
)
from seq2see.training.scheduled_sampling import TeacherForcing, sample_decoder_inputs
from seq2see.training.settings import Training
from seq2see.training.truncated_bptt import CarriedState


class MetricsLogger:
    """The metrics log of one run. Opening it at a step deletes the entries of later steps; then it only grows."""

    def __init__(self, folder: Path, step: int, warn: Callable[[str], None] = lambda text: None):
        self.metrics_path, self.timing_path = folder / "metrics.jsonl", folder / "timing.jsonl"
        self._pending: list[str] = []
        self._unwritten, self._warn = "", warn  # lines for which the disk had no space
        self._clock, self._tokens = time.monotonic(), 0
        for path in (self.metrics_path, self.timing_path):
            if damaged := _truncate_after(path, step):
                warn(f"WARNING {path}: {damaged} damaged lines were removed; someone or something changed this log.")
        if missing := _missing_steps(self.metrics_path, step):
            warn(f"WARNING {self.metrics_path}: the metrics of {missing} of {step} steps are missing.")

    def log(self, step: int, **values: Any) -> None:
        """Log metrics of a step; they are written to the file at the next `flush`."""
        self._pending.append(json.dumps({"step": step, **values}, ensure_ascii=False) + "\n")
        self._tokens += int(values.get("tokens", 0))

    def flush(self, step: int, last: bool = False) -> None:
        """Write the pending metrics, and the speed of the steps since the previous flush.

        Lines for which the disk has no space are kept for the next flush; after the `last` one that is an error.
        """
        now = time.monotonic()
        seconds = now - self._clock
        self._unwritten, self._pending = self._unwritten + "".join(self._pending), []
        if not self._write(last):
            self.discard()
            return
        if self._tokens and seconds > 0:
            speed = {
                "step": step,
                "seconds": round(seconds, 3),
                "tokens_per_second": round(self._tokens / seconds),
            }
            _append(self.timing_path, json.dumps(speed) + "\n")
        self.discard()
        self.restart_clock()

    def _write(self, last: bool) -> bool:
        """Whether all lines could be written."""
        try:
            _append(self.metrics_path, self._unwritten)
        except OSError as error:
            if error.errno not in DISK_FULL_ERRORS:
                raise
            message = f"The metrics cannot be written ({error.strerror})."
            if last:
                raise UserError(message, location=str(self.metrics_path), hint="Free some space.") from None
            self._warn(f"WARNING {self.metrics_path}: {message} They are kept until there is space.")
            return False
        self._unwritten = ""
        return True

    def discard(self) -> None:
        """Discard the pending metrics."""
        self._pending, self._tokens = [], 0

    def restart_clock(self) -> None:
        """Measure the speed of the next steps from now."""
        self._clock = time.monotonic()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All entries of a metrics log; an incomplete last line (of a run that was killed) is skipped."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        if not math.isfinite(_step_of(line)):
            message, hint = f"Line {number:,} of this log is damaged.", "Delete the line."
            raise UserError(message, location=str(path), hint=hint)
        rows.append(loads(line))
    return rows


def _append(path: Path, text: str) -> None:
    size = path.stat().st_size if path.exists() else 0
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        if path.exists():
            os.truncate(path, size)  # a part of the text may have been written
        raise


def _truncate_after(path: Path, step: int) -> int:
    """Delete the entries after `step`, which the resumed run will write again; return the number of damaged ones."""
    if not path.exists():
        return 0
    lines = path.read_bytes().split(b"\n")[:-1]
    steps = [_step_of(line) for line in lines]
    write_bytes(path, b"".join(line + b"\n" for line, each in zip(lines, steps, strict=True) if each <= step))
    return sum(math.isinf(each) for each in steps)


def _missing_steps(path: Path, step: int) -> int:
    """The number of steps up to this one without an entry."""
    lines = path.read_bytes().split(b"\n")[:-1] if step and path.exists() else []
    return step - len({_step_of(line) for line in lines}) if step else 0


def _step_of(line: bytes) -> float:
    """The step of an entry; infinity for a damaged one."""
    try:
        step = loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return math.inf
    return step if type(step) is int and 0 <= step < 1 << 53 else math.inf


class Interrupted(Exception):
    """Training stopped after `step` on a signal. `folder` and `saved_step` of the checkpoint are set by `runs`."""

    def __init__(self, number: int, step: int):
        super().__init__(number, step)
        self.number, self.step = number, step
        self.folder, self.saved_step = "", 0


class CallbackAborted(Exception):
    """A long callback stopped early because of a stop request."""


class StopRequest:
    """Handles SIGTERM and Ctrl-C while its context is open; `number` is the received signal, or 0."""

    def __init__(self) -> None:
        self.number = 0
        self._previous_handlers: dict[int, object] = {}

    def __bool__(self) -> bool:
        return self.number != 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            raise SystemExit(128 + number)
        self.number = number


Callback = Callable[["Trainer", StopRequest], None]
"""A function that runs at every evaluation step; a long one raises `CallbackAborted` after a stop request."""


def train(
    trainer: Trainer,
    batch_at: Callable[[int], Batch],
    callbacks: Sequence[Callback],
    save: Callable[[Trainer], None],
    metrics_logger: MetricsLogger,
    on_metrics: Callable[[int, dict[str, float]], None],
    report_seconds: float = 0.0,
) -> None:
    """Train until all steps are done or training stops early. Every `evaluate_every` steps, run the callbacks and save.

    A stop request ends training after the current step, with a checkpoint. `batch_at` returns the batch of a step.
    `on_metrics` receives the metrics of every step, in groups that are `report_seconds` apart.
    """
    unreported, reported_at = [], time.monotonic()
    with StopRequest() as stop:
        while True:
            if len(trainer.pending_steps) >= trainer.max_pending_steps or trainer.callbacks_due or trainer.done or stop:
                for step, metrics in trainer.fetch_metrics():
                    metrics_logger.log(step, **metrics)
                    unreported.append((step, metrics))
            if trainer.callbacks_due or trainer.done or stop or time.monotonic() - reported_at >= report_seconds:
                for step, metrics in unreported:
                    on_metrics(step, metrics)
                unreported, reported_at = [], time.monotonic()
            if trainer.callbacks_due:
                _run_callbacks(trainer, callbacks, metrics_logger, stop)
            if stop or trainer.saving_due:
                metrics_logger.flush(trainer.step, last=trainer.done)
                save(trainer)
            if stop:
                raise Interrupted(stop.number, trainer.step)
            if trainer.done:
                return
            trainer.enqueue(batch_at(trainer.step + 1))


def _run_callbacks(
    trainer: Trainer, callbacks: Sequence[Callback], metrics_logger: MetricsLogger, stop: StopRequest
) -> None:
    """Run all callbacks or none: if one aborts, its metrics are discarded, and the resumed run repeats all of them."""
    metrics_logger.flush(trainer.step)
    try:
        for callback in callbacks:
            callback(trainer, stop)
    except CallbackAborted:
        metrics_logger.discard()
    else:
        trainer.callbacks_done = trainer.step
    metrics_logger.restart_clock()


@dataclass
class BestEvaluation:
    """The lowest validation loss, the weights and buffers at that step, and the number of evaluations since then."""

    loss: float = math.inf
    evaluations_since: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class PendingStep:
    """An enqueued step. `metrics` is on the device: loss, gradient norm and number of labels."""

    step: int
    learning_rate: float
    metrics: Tensor
    indices: Tensor
    answer_metrics: Mapping[str, float]
    """Those of the answers that the model generated before the step; empty for other objectives."""


class Trainer:
    """A model with its optimizer and its averaged weights.

    `enqueue` runs one optimizer step. On a GPU it returns before the step is computed; `fetch_metrics` waits for all
    enqueued steps and returns their metrics. `train_step` does both. If the loss or the gradient of a step is not
    finite, neither this step nor any later one changes a weight, so it is safe to check the metrics late.
    """

    max_pending_steps = 1
    """The maximum number of enqueued steps whose metrics have not been fetched."""

    def __init__(self, model: nn.Module, objective: Objective, settings: Training, device: torch.device):
        self.model: Any = model.to(device)  # a model has `hidden(batch)` and a `head`
        self.objective, self.settings, self.device = objective, settings, device
        # A tied weight has one name; frozen weights are not trained.
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.optimizer = settings.optimizer.build(self.weights, settings.learning_rate)
        averages_steps = isinstance(settings.average, ExponentialMovingAverage | NTASGD)
        self.average = (
            {name: weight.detach().clone() for name, weight in self.weights.items()} if averages_steps else {}
        )
        self.autocast, self.cross_entropy = autocast(device, settings.precision), CrossEntropy()
        self.best = BestEvaluation()
        self.validation_losses: dict[int, float] = {}  # by step
        self.average_start = 0  # the first step in the average of NT-ASGD; 0 before averaging starts
        self.step = 0  # the last step
        self.callbacks_done = 0  # the last step after which all callbacks ran
        self.pending_steps: list[PendingStep] = []
        # Tensors on the device, so that a step does not wait for the CPU. `found_inf` is 1 once a loss is not finite;
        # `lerp_weight` is the share of the new weights in the average, 1 - decay for an EMA.
        self.found_inf, self.lerp_weight = torch.zeros((), device=device), torch.zeros((), device=device)

    @cached_property
    def carried_state(self) -> CarriedState:
        """The decoder state between two contiguous batches."""
        return CarriedState(self.model)

    def train_step(self, batch: Batch) -> dict[str, float]:
        """Run one optimizer step on one batch; return its metrics."""
        self.enqueue(batch)
        return self.fetch_metrics()[-1][1]

    def enqueue(self, batch: Batch) -> None:
        """Enqueue one optimizer step on one batch."""
        self.step += 1
        self.model.train()
        lr_scale = 1.0
        if isinstance(batch, ContiguousBatch):
            self.carried_state.allocate(batch)
            lr_scale = batch.lr_scale  # lower for a shorter segment, which has fewer tokens (Merity et al. 2018, 4.1)
        schedule_factor = self.settings.schedule.factor(self.step, self.settings.steps)
        learning_rate = self.settings.learning_rate * schedule_factor * lr_scale
        self.optimizer.learning_rate.fill_(learning_rate)
        if isinstance(self.settings.average, ExponentialMovingAverage | NTASGD):
            self.lerp_weight.fill_(self.settings.average.lerp_weight(self.step, self.average_start))
        seed_torch(self.settings.seed, "dropout", self.step)
        metrics = self.run_step(batch)
        answer_metrics = batch.metrics if isinstance(batch, AnswerBatch) else {}
        self.pending_steps.append(PendingStep(self.step, learning_rate, metrics.clone(), batch.indices, answer_metrics))

    def run_step(self, batch: Batch) -> Float[Tensor, "metrics"]:
        """Gradient, clipping, update, averaging. Return loss, gradient norm and label count without a GPU sync."""
        batch = batch.to(self.device)
        if isinstance(batch, ContiguousBatch):
            batch = self.carried_state.attach_state(batch)
        label_count, loss_count = batch.label_mask.sum(), batch.loss_count
        losses = [self._backward(micro_batch, number) for number, micro_batch in enumerate(self._micro_batches(batch))]
        if isinstance(batch, ContiguousBatch):
            self.carried_state.commit()
        loss = torch.stack(losses).sum() / loss_count
        norm, grad_scale = grad_norm_and_scale(self.total_grad_norm(), loss_count, self.settings.max_grad_norm)
        self.found_inf.copy_(torch.maximum(self.found_inf, (~(loss + norm).isfinite()).float()))
        self.optimizer.step(grad_scale, self.found_inf)
        self.optimizer.zero_grad()
        if self.average:
            update_average(self.average.values(), self.weights.values(), self.lerp_weight)
        return torch.stack([loss, norm, label_count])

    def _micro_batches(self, batch: Batch) -> Iterator[Batch]:
        """The rows of a batch in `accumulate` micro-batches, for gradient accumulation."""
        if self.settings.accumulate == 1:
            yield batch
            return
        rows = torch.arange(batch.indices.size(0), device=self.device)
        for chunk in rows.tensor_split(self.settings.accumulate):
            if chunk.numel():
                yield pick_rows(batch, chunk)

    def _backward(self, micro_batch: Batch, number: int) -> Float[Tensor, ""]:
        """Forward and backward pass of one micro-batch: accumulate its gradient, return its summed loss."""
        if not isinstance(self.objective.feeding, TeacherForcing):
            ratio = self.objective.feeding.teacher_forcing_ratio(self.step / self.settings.steps)
            micro_batch = sample_decoder_inputs(
                self.model, micro_batch, ratio, self.settings.seed, self.step * self.settings.accumulate + number
            )
        if self.objective.copies == 2:
            micro_batch = repeat_for_r_drop(micro_batch)
        return self.forward_backward(micro_batch)

    def forward_backward(self, micro_batch: Batch) -> Float[Tensor, ""]:
        """Accumulate the gradient of the summed loss of a micro-batch, and return this loss."""
        with self.autocast:
            loss = self.loss(micro_batch)
        loss.backward()
        return loss.detach()

    def loss(self, micro_batch: Batch) -> Float[Tensor, ""]:
        """The summed loss of a micro-batch."""
        if isinstance(micro_batch, ContiguousBatch):
            hidden = self.carried_state.hidden(micro_batch)
        else:
            hidden = self.model.hidden(micro_batch)
        return batch_loss(self.objective, hidden, self.model.head, micro_batch, self.cross_entropy)

    def total_grad_norm(self) -> Float[Tensor, ""]:
        """‖g‖ over the summed gradients of all weights together."""
        return nn.utils.get_total_norm(gradients_of(self.weights), foreach=True)

    def fetch_metrics(self) -> list[tuple[int, dict[str, float]]]:
        """Wait for all pending steps; return the number and the metrics of each."""
        if not self.pending_steps:
            return []
        rows = torch.stack([pending.metrics for pending in self.pending_steps]).tolist()
        pending_steps, self.pending_steps = self.pending_steps, []
        for pending, (loss, norm, _) in zip(pending_steps, rows, strict=True):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise NonFinite(pending.step, loss, norm, pending.indices)
        return [
            (
                pending.step,
                {
                    "loss": loss,
                    "learning_rate": pending.learning_rate,
                    "grad_norm": norm,
                    "tokens": int(label_count),
                    **pending.answer_metrics,
                },
            )
            for pending, (loss, norm, label_count) in zip(pending_steps, rows, strict=True)
        ]

    @property
    def done(self) -> bool:
        """Whether training is over: all steps are done, or `patience` evaluations brought no improvement."""
        return 0 < self.settings.patience <= self.best.evaluations_since or self.step >= self.settings.steps

    def is_evaluation_step(self, step: int) -> bool:
        """Whether callbacks run after this step: every `evaluate_every` steps, and after the last one."""
        return step > 0 and (step % self.settings.evaluate_every == 0 or step == self.settings.steps)

    @property
    def callbacks_due(self) -> bool:
        """Whether the callbacks must run now: once after every evaluation step."""
        return self.is_evaluation_step(self.step) and self.callbacks_done != self.step

    @property
    def saving_due(self) -> bool:
        """Whether a checkpoint must be saved now: after the callbacks of this step."""
        return self.step > 0 and self.callbacks_done == self.step

    @contextlib.contextmanager
    def evaluation_model(self) -> Iterator[nn.Module]:
        """The model in eval mode, with the averaged weights if there are any."""
        trained_weights = {name: weight.detach().clone() for name, weight in self.weights.items() if self.average}
        self.load_weights(self.average)
        self.model.eval()
        try:
            yield self.model
        finally:
            self.load_weights(trained_weights)
            self.model.train()

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Overwrite these weights or buffers of the model."""
        unexpected = self.model.load_state_dict(weights, strict=False).unexpected_keys
        assert not unexpected, f"the model has no {unexpected}"

    def record_validation(self, loss: float) -> None:
        """Store a validation loss; if it is the lowest so far, copy the weights; start NT-ASGD when it is triggered."""
        if self.step in self.validation_losses:  # a resumed run repeats an evaluation if a later callback was aborted
            return
        self.validation_losses[self.step] = loss
        average = self.settings.average
        if isinstance(average, NTASGD) and average.is_triggered([*self.validation_losses.values()]):
            self.average_start = self.average_start or self.step + 1
        if not self.settings.patience:
            return
        if loss < self.best.loss:
            evaluated = trained_tensors(self.model) | self.average
            self.best = BestEvaluation(loss, 0, {name: tensor.clone() for name, tensor in evaluated.items()})
        else:
            self.best.evaluations_since += 1


class NonFinite(UserError):
    """The loss or the gradient is not finite; the weights are those of the last finite step."""

    def __init__(self, step: int, loss: float, norm: float, indices: Tensor):
        self.indices = [index for index in indices.flatten().tolist() if index >= 0]  # -1 is a padding row
        super().__init__(
            f"Step {step}: loss {loss}, gradient norm {norm}; training stopped before the update.",
            hint="Lower training.learning_rate or training.max_grad_norm, or check the examples named above.",
        )
