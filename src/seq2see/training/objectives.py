"""What is asked of a model: from hidden states and answers to a loss.

Losses are *sums* over the answers asked for. The loop divides by the number of answers in the whole
optimiser step, so one big batch and the same batch in four pieces give the same gradient.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import NOT_ASKED, Sequences
from seq2see.core.settings import Settings
from seq2see.training.feeding import FreeRunning, ScheduledSampling, TeacherForcing


class NextToken(Settings):
    """Guess each target token from the source and the tokens before it."""

    kind: Literal["next-token"] = "next-token"
    smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: this share of the answer is spread evenly over the vocabulary."""
    feeding: Annotated[TeacherForcing | ScheduledSampling | FreeRunning, Field(discriminator="kind")] = TeacherForcing()
    """What the decoder is fed in training: the truth, its own words, or a mixture."""

    def loss(self, hidden: Sequences, head: nn.Module, labels: Int[Tensor, "row time"]) -> Float[Tensor, ""]:
        """The summed loss of the answers asked for; padding is not even computed."""
        asked = labels != NOT_ASKED
        logits = head(hidden.values[asked]).float()
        return functional.cross_entropy(logits, labels[asked], label_smoothing=self.smoothing, reduction="sum")


def plain_cross_entropy(
    logits: Float[Tensor, "asked vocab"], labels: Int[Tensor, "asked"], smoothing: float
) -> Float[Tensor, ""]:
    """Label-smoothed cross-entropy written out (Szegedy et al. 2016): the definition `NextToken` is tested against.

    The answer is a distribution: 1 - smoothing on the truth, and smoothing spread over all tokens.
    """
    log_probabilities = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    truth = log_probabilities.gather(-1, labels[:, None]).squeeze(-1)
    anything = log_probabilities.mean(-1)
    return -((1 - smoothing) * truth + smoothing * anything).sum()
