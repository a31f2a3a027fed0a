"""What the decoder is fed in training: the truth, its own words, or a mixture of both.

Fed the truth (teacher forcing), a decoder never meets its own mistakes until it is used: exposure
bias. Fed its own words, it learns slowly. Bengio et al. 2015 mix the two and shift the mixture as
training goes on. Own words are drawn step by step without gradients; then *one* parallel pass over the
drawn inputs gives the loss. Choosing a token has no gradient anyway, so this equals the step-by-step
loop, and it works for every decoder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import Batch, Sequences
from seq2see.core.seeds import generator
from seq2see.core.settings import Settings


class TeacherForcing(Settings):
    """The decoder is always fed the true target (Williams & Zipser 1989)."""

    kind: Literal["teacher"] = "teacher"

    def teacher_forcing_ratio(self, progress: float) -> float:
        """The chance that a token is the true one."""
        return 1.0


class ScheduledSampling(Settings):
    """From the truth to the model's own words, little by little (Bengio et al. 2015)."""

    kind: Literal["scheduled"] = "scheduled"
    final_ratio: float = Field(0.0, ge=0, le=1)
    """Chance of the true token at the end of training; it falls to this in a straight line from 1."""

    def teacher_forcing_ratio(self, progress: float) -> float:
        """The chance that a token is the true one, after this share of the training."""
        return 1.0 - (1.0 - self.final_ratio) * min(progress, 1.0)


class FreeRunning(Settings):
    """The decoder is always fed its own words."""

    kind: Literal["free"] = "free"

    def teacher_forcing_ratio(self, progress: float) -> float:
        """The chance that a token is the true one."""
        return 0.0


def sample_decoder_inputs(model: Any, batch: Batch, truth: float, seed: int, step: int) -> Batch:
    """The batch with the decoder's inputs drawn: each is the truth with the given chance, else the model's word."""
    if truth >= 1.0 or batch.target is None:
        return batch
    target = batch.target.values
    coins = torch.from_numpy(generator(seed, "feeding", step).random(tuple(target.shape)))
    use_target = coins.to(target.device) < truth
    was_training = model.training
    model.eval()
    try:
        drawn = _sample_inputs(model, batch, use_target)
    finally:
        model.train(was_training)
    return replace(batch, target=Sequences(drawn, batch.target.lengths))


@torch.no_grad()
def _sample_inputs(model: Any, batch: Batch, use_target: Tensor) -> Int[Tensor, "row time"]:
    """Walk along the target; at each time take the true token or the model's best guess."""
    assert batch.target is not None
    truth = batch.target.values
    rows, times = truth.shape
    state = model.start(batch.source, rows, times)
    inputs = [truth[:, :1]]  # <bos> is always given
    for time in range(1, times):
        logits, state = model.step(inputs[-1], state)
        own = logits[:, -1].argmax(-1)
        inputs.append(torch.where(use_target[:, time], truth[:, time], own)[:, None])
    return torch.cat(inputs, dim=1)
