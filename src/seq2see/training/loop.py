"""The training loop: there is only this one.

A task brings an objective, a frontend and a head; it never brings a loop. Everything periodic is an
errand that is handed in from above, so training knows nothing of decoding or metrics.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Batch, ContiguousBatch
from seq2see.core.devices import autocast, kernels
from seq2see.core.errors import UserError
from seq2see.core.rows import pick_rows
from seq2see.core.seeds import seed_torch
from seq2see.kernels.onednn_linear import activate, linear_layers
from seq2see.models.named_tensors import named_tensors
from seq2see.training.averaging import NTASGD, ExponentialMovingAverage, update_average
from seq2see.training.bf16_weights import Bf16Weights
from seq2see.training.chunked_cross_entropy import run_backward
from seq2see.training.cuda_graphs import GraphedStep, compile_blocks
from seq2see.training.metrics_logger import MetricsLogger
from seq2see.training.objectives import Objective, batch_loss, repeat_for_r_drop
from seq2see.training.optimizer_settings import grad_norm_and_scale
from seq2see.training.optimizers import gradients_of
from seq2see.training.scheduled_sampling import TeacherForcing, sample_decoder_inputs
from seq2see.training.settings import Training
from seq2see.training.signals import CallbackAborted, Interrupted, StopRequest
from seq2see.training.truncated_bptt import CarriedState


@dataclass
class Best:
    """The best validation loss so far, its weights and running means, and how many evaluations ago it was."""

    loss: float = math.inf
    evaluations_since: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class PendingStep:
    """A step on its way: what is known of it already, and where its figures will stand."""

    step: int
    learning_rate: float
    figures: Tensor
    indices: Tensor


class Trainer:
    """A model with its optimizer and averages.

    `launch` takes one optimizer step. On a GPU it only puts the step in line and returns; `collect` waits
    for what was launched and gives its figures. `train_step` is both. A step whose loss or gradient is not a
    number changes no weight, nor does any step launched after it, so nothing is lost by looking late.
    """

    def __init__(self, model: nn.Module, objective: Objective, settings: Training, device: torch.device):
        self.model: Any = model.to(device)  # a model has `hidden(batch)` and a `head`
        self.objective, self.settings, self.device = objective, settings, device
        self.weights = dict(model.named_parameters())  # a tied weight is named once
        self.optimizer = settings.optimizer.build(self.weights, settings.learning_rate)
        moving = isinstance(settings.average, ExponentialMovingAverage | NTASGD)
        self.average = {name: weight.detach().clone() for name, weight in self.weights.items()} if moving else {}
        self.carried_state = CarriedState(model)
        on_gpu, low = device.type == "cuda", settings.precision == "bf16"
        self.compiled = settings.compile and on_gpu
        self.bf16_weights = Bf16Weights(model, self.compiled) if on_gpu and low else None
        if self.bf16_weights and settings.custom_kernels:
            self.optimizer.attach(self.bf16_weights)
        self.cpu_linears = linear_layers(model) if settings.custom_kernels and not (on_gpu or low) else []
        self.best = Best()
        self.validation_losses: dict[int, float] = {}  # validation losses by their step
        self.average_start = 0  # the first step whose weights a triggered average holds; 0 until then
        self.step = self.callbacks_done = 0  # the last step, and the last whose errands were done
        self.pending_steps: list[PendingStep] = []
        # 1 as soon as a loss or gradient was not a number, and how far the average moves towards the weights
        self.found_inf, self.lerp_weight = torch.zeros((), device=device), torch.zeros((), device=device)
        if self.compiled:
            compile_blocks(self.model)
        # A step that draws the decoder's inputs runs the model step by step: that cannot be recorded.
        captured = on_gpu and isinstance(objective.feeding, TeacherForcing)
        self._run_step = GraphedStep(self._step, self._warmup) if captured else self._step

    def train_step(self, batch: Batch) -> dict[str, float]:
        """One optimizer step on one batch, and its figures."""
        self.launch(batch)
        return self.collect()[-1][1]

    def launch(self, batch: Batch) -> None:
        """One optimizer step on one batch, computed in `accumulate` pieces."""
        self.step += 1
        self.model.train()
        self.carried_state.allocate(batch)
        # A short stretch of text speaks for few tokens, so it moves the weights less (Merity et al. 2018, section 4.1).
        lr_scale = batch.lr_scale if isinstance(batch, ContiguousBatch) else 1.0
        learning_rate = (
            self.settings.learning_rate * self.settings.schedule.factor(self.step, self.settings.steps) * lr_scale
        )
        self.optimizer.learning_rate.fill_(learning_rate)
        if isinstance(self.settings.average, ExponentialMovingAverage | NTASGD):
            self.lerp_weight.fill_(self.settings.average.lerp_weight(self.step, self.average_start))
        seed_torch(self.settings.seed, "dropout", self.step)
        if self.bf16_weights:
            self.bf16_weights.refresh_if_modified()
        figures = self._run_step(batch)
        self.pending_steps.append(PendingStep(self.step, learning_rate, figures.clone(), batch.indices))

    def collect(self) -> list[tuple[int, dict[str, float]]]:
        """Wait for the launched steps; gives the number and the figures of each."""
        if not self.pending_steps:
            return []
        rows = torch.stack([each.figures for each in self.pending_steps]).tolist()
        pending_steps, self.pending_steps = self.pending_steps, []
        for each, (loss, norm, _) in zip(pending_steps, rows, strict=True):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise NonFinite(each.step, loss, norm, each.indices)
        return [
            (each.step, {"loss": loss, "learning_rate": each.learning_rate, "grad_norm": norm, "tokens": int(asked)})
            for each, (loss, norm, asked) in zip(pending_steps, rows, strict=True)
        ]

    def _step(self, batch: Batch) -> Float[Tensor, "figures"]:
        """Gradient, clipping, update, average; gives loss, gradient norm and answers asked. Never waits for a GPU."""
        batch = self.carried_state.attach_state(batch.to(self.device))
        asked = batch.asked.sum()
        losses = [self._backward(micro_batch, number) for number, micro_batch in enumerate(self._micro_batches(batch))]
        self.carried_state.commit()
        loss = torch.stack(losses).sum() / asked
        gradients = gradients_of(self.weights)
        if self.bf16_weights and self.bf16_weights.gradient is not None:
            gradients.append(self.bf16_weights.gradient)
        norm, grad_scale = grad_norm_and_scale(gradients, asked, self.settings.max_grad_norm)
        self.found_inf.copy_(torch.maximum(self.found_inf, (~(loss + norm).isfinite()).float()))
        self.optimizer.step(grad_scale, self.found_inf)
        self.optimizer.zero_grad()
        if self.average:
            update_average(self.average.values(), self.weights.values(), self.lerp_weight)
        return torch.stack([loss, norm, asked])

    def _micro_batches(self, batch: Batch) -> Iterator[Batch]:
        """The rows of a batch in a few pieces; the same examples whatever their number."""
        if self.settings.accumulate == 1:
            yield batch
            return
        rows = torch.arange(batch.indices.size(0), device=self.device)
        for some in rows.tensor_split(self.settings.accumulate):
            if some.numel():
                yield pick_rows(batch, some)

    def _backward(self, micro_batch: Batch, number: int) -> Float[Tensor, ""]:
        """Add the gradient of one piece; gives its summed loss."""
        truth = self.objective.feeding.teacher_forcing_ratio(self.step / self.settings.steps)
        micro_batch = sample_decoder_inputs(
            self.model, micro_batch, truth, self.settings.seed, self.step * self.settings.accumulate + number
        )
        if self.objective.copies == 2:
            micro_batch = repeat_for_r_drop(micro_batch)
        with (
            kernels(self.settings.custom_kernels),
            self.bf16_weights.activate() if self.bf16_weights else activate(self.cpu_linears),
        ):
            with autocast(self.device, self.settings.precision):
                hidden = self.carried_state.hidden(micro_batch)
                loss = batch_loss(self.objective, hidden, self.model.head, micro_batch)
            run_backward(loss)
        return loss.detach()

    @contextlib.contextmanager
    def _warmup(self) -> Iterator[None]:
        """Steps taken in here leave no trace in weights, averages, running means or carried states."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        lerp_weight = self.lerp_weight.clone()
        self.found_inf.fill_(1)
        self.lerp_weight.zero_()
        try:
            with self.carried_state.preserve():
                yield
        finally:
            self.found_inf.zero_()
            self.lerp_weight.copy_(lerp_weight)
            for buffer, before in buffers:
                buffer.copy_(before)
            self.optimizer.zero_grad()

    @contextlib.contextmanager
    def evaluation_model(self) -> Iterator[nn.Module]:
        """The model as it would be used now: with averaged weights if they are kept, and in eval mode."""
        own = {name: weight.detach().clone() for name, weight in self.weights.items()} if self.average else {}
        self.load_weights(self.average)
        self.model.eval()
        try:
            # What is compiled is the step, in its few shapes; for other shapes it would be compiled again.
            # Elsewhere nothing is, and saying so would import torch's compiler for nothing.
            with torch.compiler.set_stance("force_eager") if self.compiled else contextlib.nullcontext():
                yield self.model
        finally:
            self.load_weights(own)
            self.model.train()

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Overwrite weights of the model, or running means, with these."""
        unknown = self.model.load_state_dict(weights, strict=False).unexpected_keys
        assert not unknown, f"the model has no {unknown}"

    def record_validation(self, loss: float) -> None:
        """Remember the best weights by validation loss, if patience is limited; begin to average if it is time to."""
        if (
            self.step in self.validation_losses
        ):  # measured again, because a stop came before the other errands were done
            return
        self.validation_losses[self.step] = loss
        average = self.settings.average
        if isinstance(average, NTASGD) and average.is_triggered([*self.validation_losses.values()]):
            self.average_start = self.average_start or self.step + 1
        if not self.settings.patience:
            return
        if loss < self.best.loss:
            used = named_tensors(self.model) | self.average
            self.best = Best(loss, 0, {name: tensor.clone() for name, tensor in used.items()})
        else:
            self.best.evaluations_since += 1

    @property
    def done(self) -> bool:
        """All steps taken, or patience at its end."""
        return 0 < self.settings.patience <= self.best.evaluations_since or self.step >= self.settings.steps

    @property
    def callbacks_due(self) -> bool:
        """At every mark, once."""
        return self.is_evaluation_step(self.step) and self.callbacks_done != self.step

    def is_evaluation_step(self, step: int) -> bool:
        """Whether errands belong to this step: every `evaluate_every` steps, and at the end."""
        return step > 0 and (step % self.settings.evaluate_every == 0 or step == self.settings.steps)

    @property
    def saving_due(self) -> bool:
        """After the errands of this step, or at the very end."""
        return self.step > 0 and self.callbacks_done == self.step


class NonFinite(UserError):
    """The loss or its gradient is not a number any more; the weights were not touched."""

    def __init__(self, step: int, loss: float, norm: float, indices: Tensor):
        self.indices = [index for index in indices.flatten().tolist() if index >= 0]  # -1 only fills a batch up
        super().__init__(
            f"Step {step} gave loss {loss} and gradient norm {norm}; training stopped before the update.",
            hint="Lower training.learning_rate or training.max_grad_norm, or look at the examples named above.",
        )


MAX_PENDING_STEPS = 50
"""On a GPU, steps that may be under way before Python waits for their figures."""

Errand = Callable[[Trainer, StopRequest], None]
"""Something done every so often; a long one raises `CallbackAborted` when it sees a stop request."""


def train(
    trainer: Trainer,
    batch_at: Callable[[int], Batch],
    callbacks: Sequence[Errand],
    save: Callable[[Trainer], None],
    metrics_logger: MetricsLogger,
    on_metrics: Callable[[int, dict[str, float]], None],
) -> None:
    """Train to the end; every `evaluate_every` steps run the errands and save. A stop request saves at once."""
    max_pending = MAX_PENDING_STEPS if trainer.device.type == "cuda" else 1
    with StopRequest() as stop:
        while True:
            if len(trainer.pending_steps) >= max_pending or trainer.callbacks_due or trainer.done or stop:
                for step, figures in trainer.collect():
                    metrics_logger.log(step, **figures)
                    on_metrics(step, figures)
            if trainer.callbacks_due:
                _run_callbacks(trainer, callbacks, metrics_logger, stop)
            if stop or trainer.saving_due:
                metrics_logger.flush(trainer.step)
                save(trainer)
            if stop:
                raise Interrupted(stop.number, trainer.step)
            if trainer.done:
                return
            trainer.launch(batch_at(trainer.step + 1))


def _run_callbacks(
    trainer: Trainer, callbacks: Sequence[Errand], metrics_logger: MetricsLogger, stop: StopRequest
) -> None:
    """All errands or none: what an abandoned one has noted is forgotten, and the resumed run does them again."""
    metrics_logger.flush(trainer.step)
    try:
        for callback in callbacks:
            callback(trainer, stop)
    except CallbackAborted:
        metrics_logger.discard()
    else:
        trainer.callbacks_done = trainer.step
    metrics_logger.restart_clock()
