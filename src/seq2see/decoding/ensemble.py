"""Ensembles: several models decode together, and at every step their probabilities are averaged.

Each member reads the same tokens and has its own state; the score of a token is the logarithm of the mean of the
members' probabilities (Sutskever, Vinyals & Le 2014 decode with five LSTMs like this). Members may differ in all but
their vocabularies: a token must have the same id in each of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, Sequences


def log_mean_probability(logits: Sequence[Float[Tensor, "row time vocab"]]) -> Float[Tensor, "row time vocab"]:
    """log(mean of the softmaxes): probabilities are averaged, not logits, whose scales differ among models.

    It is computed from log-softmaxes by log-sum-exp, so that a tiny probability does not underflow to 0.
    """
    scores = [each.log_softmax(-1, dtype=torch.promote_types(each.dtype, torch.float32)) for each in logits]
    return torch.stack(scores).logsumexp(0) - math.log(len(scores))


class Ensemble(nn.Module):
    """Models that decode together; any object with `start` and `step` can be a member."""

    def __init__(self, members: Sequence[Any]):
        super().__init__()
        if not members:
            raise ValueError("An ensemble needs at least one member.")
        self.members = tuple(members)
        self.trained_members = nn.ModuleList(member for member in members if isinstance(member, nn.Module))

    def forward(self, batch: Batch) -> Float[Tensor, "row time vocab"]:
        """The scores of the next token at every time step with teacher forcing."""
        return log_mean_probability([member(batch) for member in self.trained_members])

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> tuple[Any, ...]:
        """Return a tuple with the state of each member."""
        return tuple(member.start(source, rows, max_length) for member in self.members)

    def step(
        self, tokens: Int[Tensor, "row new"], state: tuple[Any, ...]
    ) -> tuple[Float[Tensor, "row new vocab"], tuple[Any, ...]]:
        """Run all members on the tokens; return the mean of their probabilities (as logarithms) and their states."""
        logits, states = zip(
            *(member.step(tokens, each) for member, each in zip(self.members, state, strict=True)), strict=True
        )
        return log_mean_probability(logits), states
