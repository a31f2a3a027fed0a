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
from torch import Tensor, nn

from seq2see.core.batch import Batch
from seq2see.core.devices import autocast
from seq2see.core.errors import UserError
from seq2see.core.rows import pick_rows
from seq2see.core.seeds import seed_torch
from seq2see.training.averaging import MovingAverage, move_average
from seq2see.training.feeding import feed
from seq2see.training.journal import Journal
from seq2see.training.objectives import NextToken
from seq2see.training.optimisers import clip, set_rate
from seq2see.training.settings import Training
from seq2see.training.signals import Abandoned, Interrupted, StopRequest


@dataclass
class Best:
    """The best validation loss so far, its weights, and how many evaluations ago it was."""

    loss: float = math.inf
    ago: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)


class Trainer:
    """A model with its optimiser and averages; `advance` takes one optimiser step."""

    def __init__(self, model: nn.Module, objective: NextToken, settings: Training, device: torch.device):
        self.model: Any = model.to(device)  # a model has `hidden(batch)` and a `head`
        self.objective, self.settings, self.device = objective, settings, device
        self.weights = dict(model.named_parameters())  # a tied weight is named once
        self.optimiser = settings.optimiser.build(self.weights.values(), settings.rate)
        moving = isinstance(settings.average, MovingAverage)
        self.average = {name: weight.detach().clone() for name, weight in self.weights.items()} if moving else {}
        self.best = Best()
        self.step = 0
        self.errands_done = 0  # the last step whose errands were done
        forward: Any = self.model.hidden
        self._hidden = torch.compile(forward) if settings.compile else forward

    def advance(self, batch: Batch) -> dict[str, float]:
        """One optimiser step on one batch, computed in `accumulate` pieces; gives the step's figures."""
        self.step += 1
        self.model.train()
        batch = batch.to(self.device)
        asked = int(batch.asked.sum())
        pieces = [self._backward(piece, number) / asked for number, piece in enumerate(self._pieces(batch))]
        loss = sum(pieces)
        for weight in self.weights.values():
            if weight.grad is not None:
                weight.grad /= asked
        norm = float(clip(self.weights.values(), self.settings.clip))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise NonFinite(self.step, loss, norm, batch.indices)
        rate = self.settings.rate * self.settings.schedule.factor(self.step, self.settings.steps)
        set_rate(self.optimiser, rate)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if isinstance(self.settings.average, MovingAverage):
            decay = self.settings.average.decay
            move_average(self.average.values(), self.weights.values(), decay, self.step)
        return {"loss": loss, "rate": rate, "gradient_norm": norm, "tokens": asked}

    def _pieces(self, batch: Batch) -> Iterator[Batch]:
        """The rows of a batch in a few pieces; the same examples whatever their number."""
        rows = torch.arange(batch.indices.numel(), device=self.device)
        for some in rows.tensor_split(self.settings.accumulate):
            if some.numel():
                yield pick_rows(batch, some)

    def _backward(self, piece: Batch, number: int) -> float:
        """Add the gradient of one piece; gives its summed loss."""
        seed, step = self.settings.seed, self.step
        truth = self.objective.feeding.truth(step / self.settings.steps)
        piece = feed(self.model, piece, truth, seed, step * self.settings.accumulate + number)
        seed_torch(seed, "dropout", step, number)
        with autocast(self.device, self.settings.precision):
            hidden = self._hidden(piece)
            loss = self.objective.loss(hidden, self.model.head, piece.labels)
        loss.backward()
        return float(loss.detach())

    @contextlib.contextmanager
    def averaged(self) -> Iterator[nn.Module]:
        """The model as it would be used now: with averaged weights if they are kept, and in eval mode."""
        own = {name: weight.detach().clone() for name, weight in self.weights.items()} if self.average else {}
        self.put(self.average)
        self.model.eval()
        try:
            yield self.model
        finally:
            self.put(own)
            self.model.train()

    @torch.no_grad()
    def put(self, weights: dict[str, Tensor]) -> None:
        """Overwrite the model's weights with these."""
        for name, weight in weights.items():
            self.weights[name].copy_(weight)

    def judge(self, loss: float) -> None:
        """Remember the best weights by validation loss, if patience is limited."""
        if not self.settings.patience:
            return
        if loss < self.best.loss:
            used = self.average or self.weights
            self.best = Best(loss, 0, {name: weight.detach().clone() for name, weight in used.items()})
        else:
            self.best.ago += 1

    @property
    def done(self) -> bool:
        """All steps taken, or patience at its end."""
        gave_up = 0 < self.settings.patience <= self.best.ago
        return gave_up or self.step >= self.settings.steps

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
        self.indices = indices.tolist()
        super().__init__(
            f"Step {step} gave loss {loss} and gradient norm {norm}; training stopped before the update.",
            remedy="Lower training.rate or training.clip, or look at the examples named above.",
        )


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
    with StopRequest() as stop:
        while True:
            if trainer.errands_due:
                _run_errands(trainer, errands, journal, stop)
            if stop or trainer.saving_due:
                journal.flush(trainer.step)
                save(trainer)
            if stop:
                raise Interrupted(stop.number, trainer.step)
            if trainer.done:
                return
            figures = trainer.advance(batch_at(trainer.step + 1))
            journal.note(trainer.step, **figures)
            watch(trainer.step, figures)


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
