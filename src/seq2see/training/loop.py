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

from seq2see.core.batch import Batch, Stretch
from seq2see.core.devices import autocast, kernels
from seq2see.core.errors import UserError
from seq2see.core.rows import pick_rows
from seq2see.core.seeds import seed_torch
from seq2see.kernels.cpu_products import at_work, products_of
from seq2see.models.packing import pack_model
from seq2see.training.averaging import MovingAverage, TriggeredAverage, move_average
from seq2see.training.carrying import Carried
from seq2see.training.cross_entropy import go_back
from seq2see.training.doubles import Doubles
from seq2see.training.feeding import TeacherForcing, feed
from seq2see.training.graphs import GraphedStep, compile_blocks
from seq2see.training.journal import Journal
from seq2see.training.objectives import Objective, doubled, loss_of
from seq2see.training.optimisers import norm_and_divisor
from seq2see.training.settings import Training
from seq2see.training.signals import Abandoned, Interrupted, StopRequest
from seq2see.training.steps import gradients_of


@dataclass
class Best:
    """The best validation loss so far, its weights and running means, and how many evaluations ago it was."""

    loss: float = math.inf
    ago: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Launched:
    """A step on its way: what is known of it already, and where its figures will stand."""

    step: int
    rate: float
    figures: Tensor
    indices: Tensor


class Trainer:
    """A model with its optimiser and averages.

    `launch` takes one optimiser step. On a GPU it only puts the step in line and returns; `collect` waits
    for what was launched and gives its figures. `advance` is both. A step whose loss or gradient is not a
    number changes no weight, nor does any step launched after it, so nothing is lost by looking late.
    """

    def __init__(self, model: nn.Module, objective: Objective, settings: Training, device: torch.device):
        self.model: Any = model.to(device)  # a model has `hidden(batch)` and a `head`
        self.objective, self.settings, self.device = objective, settings, device
        self.weights = dict(model.named_parameters())  # a tied weight is named once
        self.optimiser = settings.optimiser.build(self.weights, settings.rate)
        moving = isinstance(settings.average, MovingAverage | TriggeredAverage)
        self.average = {name: weight.detach().clone() for name, weight in self.weights.items()} if moving else {}
        self.carried = Carried(model)
        on_gpu, low = device.type == "cuda", settings.precision == "bf16"
        self.compiled = settings.compile and on_gpu
        self.doubles = Doubles(model, self.compiled) if on_gpu and low else None
        if self.doubles and settings.kernels:
            self.optimiser.join(self.doubles)
        self.products = products_of(model) if settings.kernels and not (on_gpu or low) else []
        self.best = Best()
        self.losses: dict[int, float] = {}  # validation losses by their step
        self.averaged_since = 0  # the first step whose weights a triggered average holds; 0 until then
        self.step = self.errands_done = 0  # the last step, and the last whose errands were done
        self.launched: list[Launched] = []
        # 1 as soon as a loss or gradient was not a number, and how far the average moves towards the weights
        self.broken, self.pull = torch.zeros((), device=device), torch.zeros((), device=device)
        if self.compiled:
            compile_blocks(self.model)
        # A step that draws the decoder's inputs runs the model step by step: that cannot be recorded.
        recorded = on_gpu and isinstance(objective.feeding, TeacherForcing)
        self._take = GraphedStep(self._step, self._rehearsal) if recorded else self._step

    def advance(self, batch: Batch) -> dict[str, float]:
        """One optimiser step on one batch, and its figures."""
        self.launch(batch)
        return self.collect()[-1][1]

    def launch(self, batch: Batch) -> None:
        """One optimiser step on one batch, computed in `accumulate` pieces."""
        self.step += 1
        self.model.train()
        self.carried.ready(batch)
        # A short stretch of text speaks for few tokens, so it moves the weights less (Merity et al. 2018, section 4.1).
        pace = batch.pace if isinstance(batch, Stretch) else 1.0
        rate = self.settings.rate * self.settings.schedule.factor(self.step, self.settings.steps) * pace
        self.optimiser.rate.fill_(rate)
        if isinstance(self.settings.average, MovingAverage | TriggeredAverage):
            self.pull.fill_(self.settings.average.pull(self.step, self.averaged_since))
        seed_torch(self.settings.seed, "dropout", self.step)
        if self.doubles:
            self.doubles.renew_if_touched()
        figures = self._take(batch)
        self.launched.append(Launched(self.step, rate, figures.clone(), batch.indices))

    def collect(self) -> list[tuple[int, dict[str, float]]]:
        """Wait for the launched steps; gives the number and the figures of each."""
        if not self.launched:
            return []
        rows = torch.stack([each.figures for each in self.launched]).tolist()
        launched, self.launched = self.launched, []
        for each, (loss, norm, _) in zip(launched, rows, strict=True):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise NonFinite(each.step, loss, norm, each.indices)
        return [
            (each.step, {"loss": loss, "rate": each.rate, "gradient_norm": norm, "tokens": int(asked)})
            for each, (loss, norm, asked) in zip(launched, rows, strict=True)
        ]

    def _step(self, batch: Batch) -> Float[Tensor, "figures"]:
        """Gradient, clipping, update, average; gives loss, gradient norm and answers asked. Never waits for a GPU."""
        batch = self.carried.into(batch.to(self.device))
        asked = batch.asked.sum()
        losses = [self._backward(piece, number) for number, piece in enumerate(self._pieces(batch))]
        self.carried.keep()
        loss = torch.stack(losses).sum() / asked
        gradients = gradients_of(self.weights)
        if self.doubles and self.doubles.gradient is not None:
            gradients.append(self.doubles.gradient)
        norm, divisor = norm_and_divisor(gradients, asked, self.settings.clip)
        self.broken.copy_(torch.maximum(self.broken, (~(loss + norm).isfinite()).float()))
        self.optimiser.step(divisor, self.broken)
        self.optimiser.drop_gradients()
        if self.average:
            move_average(self.average.values(), self.weights.values(), self.pull)
        return torch.stack([loss, norm, asked])

    def _pieces(self, batch: Batch) -> Iterator[Batch]:
        """The rows of a batch in a few pieces; the same examples whatever their number."""
        if self.settings.accumulate == 1:
            yield batch
            return
        rows = torch.arange(batch.indices.size(0), device=self.device)
        for some in rows.tensor_split(self.settings.accumulate):
            if some.numel():
                yield pick_rows(batch, some)

    def _backward(self, piece: Batch, number: int) -> Float[Tensor, ""]:
        """Add the gradient of one piece; gives its summed loss."""
        truth = self.objective.feeding.truth(self.step / self.settings.steps)
        piece = feed(self.model, piece, truth, self.settings.seed, self.step * self.settings.accumulate + number)
        if self.objective.copies == 2:
            piece = doubled(piece)
        with kernels(self.settings.kernels), self.doubles.at_work() if self.doubles else at_work(self.products):
            with autocast(self.device, self.settings.precision):
                hidden = self.carried.hidden(piece)
                loss = loss_of(self.objective, hidden, self.model.head, piece)
            go_back(loss)
        return loss.detach()

    @contextlib.contextmanager
    def _rehearsal(self) -> Iterator[None]:
        """Steps taken in here leave no trace in weights, averages, running means or carried states."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        pull = self.pull.clone()
        self.broken.fill_(1)
        self.pull.zero_()
        try:
            with self.carried.untouched():
                yield
        finally:
            self.broken.zero_()
            self.pull.copy_(pull)
            for buffer, before in buffers:
                buffer.copy_(before)
            self.optimiser.drop_gradients()

    @contextlib.contextmanager
    def averaged(self) -> Iterator[nn.Module]:
        """The model as it would be used now: with averaged weights if they are kept, and in eval mode."""
        own = {name: weight.detach().clone() for name, weight in self.weights.items()} if self.average else {}
        self.put(self.average)
        self.model.eval()
        try:
            # What is compiled is the step, in its few shapes; for other shapes it would be compiled again.
            # Elsewhere nothing is, and saying so would import torch's compiler for nothing.
            with torch.compiler.set_stance("force_eager") if self.compiled else contextlib.nullcontext():
                yield self.model
        finally:
            self.put(own)
            self.model.train()

    def put(self, weights: dict[str, Tensor]) -> None:
        """Overwrite weights of the model, or running means, with these."""
        unknown = self.model.load_state_dict(weights, strict=False).unexpected_keys
        assert not unknown, f"the model has no {unknown}"

    def judge(self, loss: float) -> None:
        """Remember the best weights by validation loss, if patience is limited; begin to average if it is time to."""
        if self.step in self.losses:  # measured again, because a stop came before the other errands were done
            return
        self.losses[self.step] = loss
        average = self.settings.average
        if isinstance(average, TriggeredAverage) and average.triggered([*self.losses.values()]):
            self.averaged_since = self.averaged_since or self.step + 1
        if not self.settings.patience:
            return
        if loss < self.best.loss:
            used = pack_model(self.model) | self.average
            self.best = Best(loss, 0, {name: tensor.clone() for name, tensor in used.items()})
        else:
            self.best.ago += 1

    @property
    def done(self) -> bool:
        """All steps taken, or patience at its end."""
        return 0 < self.settings.patience <= self.best.ago or self.step >= self.settings.steps

    @property
    def errands_due(self) -> bool:
        """At every mark, once."""
        return self.is_mark(self.step) and self.errands_done != self.step

    def is_mark(self, step: int) -> bool:
        """Whether errands belong to this step: every `save_every` steps, and at the end."""
        return step > 0 and (step % self.settings.save_every == 0 or step == self.settings.steps)

    @property
    def saving_due(self) -> bool:
        """After the errands of this step, or at the very end."""
        return self.step > 0 and self.errands_done == self.step


class NonFinite(UserError):
    """The loss or its gradient is not a number any more; the weights were not touched."""

    def __init__(self, step: int, loss: float, norm: float, indices: Tensor):
        self.indices = [index for index in indices.flatten().tolist() if index >= 0]  # -1 only fills a batch up
        super().__init__(
            f"Step {step} gave loss {loss} and gradient norm {norm}; training stopped before the update.",
            remedy="Lower training.rate or training.clip, or look at the examples named above.",
        )


AHEAD = 50
"""On a GPU, steps that may be under way before Python waits for their figures."""

Errand = Callable[[Trainer, StopRequest], None]
"""Something done every so often; a long one raises `Abandoned` when it sees a stop request."""


def train(
    trainer: Trainer,
    batch_at: Callable[[int], Batch],
    errands: Sequence[Errand],
    save: Callable[[Trainer], None],
    journal: Journal,
    watch: Callable[[int, dict[str, float]], None],
) -> None:
    """Train to the end; every `save_every` steps run the errands and save. A stop request saves at once."""
    ahead = AHEAD if trainer.device.type == "cuda" else 1
    with StopRequest() as stop:
        while True:
            if len(trainer.launched) >= ahead or trainer.errands_due or trainer.done or stop:
                for step, figures in trainer.collect():
                    journal.note(step, **figures)
                    watch(step, figures)
            if trainer.errands_due:
                _run_errands(trainer, errands, journal, stop)
            if stop or trainer.saving_due:
                journal.flush(trainer.step)
                save(trainer)
            if stop:
                raise Interrupted(stop.number, trainer.step)
            if trainer.done:
                return
            trainer.launch(batch_at(trainer.step + 1))


def _run_errands(trainer: Trainer, errands: Sequence[Errand], journal: Journal, stop: StopRequest) -> None:
    """All errands or none: what an abandoned one has noted is forgotten, and the resumed run does them again."""
    journal.flush(trainer.step)
    try:
        for errand in errands:
            errand(trainer, stop)
    except Abandoned:
        journal.forget()
    else:
        trainer.errands_done = trainer.step
    journal.restart_clock()
