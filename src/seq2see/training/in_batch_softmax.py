"""In-batch softmax: choose the reply of each history among all replies of a batch (Henderson et al. 2017)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.batch import IGNORE_INDEX, Sequences
from seq2see.core.settings import Settings
from seq2see.training.scheduled_sampling import TeacherForcing


class InBatchSoftmax(Settings):
    """Choose the reply of each history among the replies of the whole batch."""

    kind: Literal["in-batch-softmax"] = "in-batch-softmax"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()  # an encoder-only model has no decoder inputs

    def loss(
        self, hidden: Sequences, head: Any, labels: Int[Tensor, "row 1"], cross_entropy: Any = None
    ) -> Float[Tensor, ""]:
        """The summed cross-entropy: -log softmax of the score of the reply that belongs to the history.

        The labels are the numbers of the replies. Rows with equal replies are not negatives of each other; a row
        without a label is padding, and is neither an example nor a negative.
        """
        numbers = labels[:, 0]
        valid = numbers != IGNORE_INDEX
        scores = head(hidden.values[:, 0].float(), hidden.values[:, 1].float())
        own = torch.eye(len(numbers), dtype=torch.bool, device=numbers.device)
        excluded = ((numbers[:, None] == numbers) | ~valid) & ~own
        scores = scores.masked_fill(excluded, torch.finfo(scores.dtype).min)
        losses = nn.functional.cross_entropy(
            scores, torch.arange(len(numbers), device=numbers.device), reduction="none"
        )
        return losses.masked_fill(~valid, 0).sum()
