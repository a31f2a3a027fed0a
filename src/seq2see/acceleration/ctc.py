"""CTC by torch's own function, which computes the gradient by a backward recursion in place of autograd."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Sequences
from seq2see.layers.ctc import BLANK, CTCLoss


class NativeCTCLoss(CTCLoss):
    """`CTCLoss` without a step of Python for every frame."""

    plain: ClassVar[type[nn.Module]] = CTCLoss

    def forward(
        self, log_probabilities: Float[Tensor, "row frame token"], frames: Int[Tensor, "row"], labels: Sequences
    ) -> Float[Tensor, "row"]:
        """The loss of each row; 0 for labels that need more frames than there are."""
        return functional.ctc_loss(
            log_probabilities.transpose(0, 1), labels.values, frames, labels.lengths, BLANK, "none", zero_infinity=True
        )
