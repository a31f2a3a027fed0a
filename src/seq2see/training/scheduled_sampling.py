"""The decoder's inputs in training: the target (teacher forcing), the model's own predictions, or a mixture of both.

With teacher forcing, a decoder is never conditioned on its own mistakes before inference: exposure bias. With its own
predictions, it learns slowly. Scheduled sampling (Bengio et al. 2015) mixes the two and changes the ratio during
training. Predictions are made token by token without gradients; then *one* parallel pass over the sampled inputs
computes the loss. Choosing a token has no gradient anyway, so this equals the step-by-step loop, and it works for every
decoder.
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
    """Teacher forcing: the decoder's inputs are the target tokens (Williams & Zipser 1989)."""

    kind: Literal["teacher"] = "teacher"

    def teacher_forcing_ratio(self, progress: float) -> float:
        """The probability that an input is the target token."""
        return 1.0


class ScheduledSampling(Settings):
    """Scheduled sampling: fewer target tokens and more predictions over time (Bengio et al. 2015)."""

    kind: Literal["scheduled"] = "scheduled"
    final_ratio: float = Field(0.0, ge=0, le=1)
    """Final teacher forcing ratio: the probability of a target token falls linearly from 1 to this."""

    def teacher_forcing_ratio(self, progress: float) -> float:
        """The probability that an input is the target token, after this fraction of the training."""
        return 1.0 - (1.0 - self.final_ratio) * min(progress, 1.0)


class FreeRunning(Settings):
    """Free running: the decoder's inputs are its own predictions."""

    kind: Literal["free"] = "free"

    def teacher_forcing_ratio(self, progress: float) -> float:
        """The probability that an input is the target token."""
        return 0.0


def sample_decoder_inputs(model: Any, batch: Batch, ratio: float, seed: int, step: int) -> Batch:
    """The batch with sampled decoder inputs: the target token with probability `ratio`, else the model's prediction."""
    if ratio >= 1.0 or batch.target is None:
        return batch
    target = batch.target.values
    uniforms = torch.from_numpy(generator(seed, "feeding", step).random(tuple(target.shape)))
    use_target = uniforms.to(target.device) < ratio
    was_training = model.training
    model.eval()
    try:
        inputs = _sample_inputs(model, batch, use_target)
    finally:
        model.train(was_training)
    return replace(batch, target=Sequences(inputs, batch.target.lengths))


@torch.no_grad()
def _sample_inputs(model: Any, batch: Batch, use_target: Tensor) -> Int[Tensor, "row time"]:
    """Decode token by token; each input is the target token or the most probable token."""
    assert batch.target is not None
    target_ids = batch.target.values
    rows, times = target_ids.shape
    state = model.start(batch.source, rows, times)
    inputs = [target_ids[:, :1]]  # <bos>
    for time in range(1, times):
        logits, state = model.step(inputs[-1], state)
        prediction = logits[:, -1].argmax(-1)
        inputs.append(torch.where(use_target[:, time], target_ids[:, time], prediction)[:, None])
    return torch.cat(inputs, dim=1)
