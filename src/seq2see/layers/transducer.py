"""The lattice of a transducer (Graves 2012): each step of a path emits a label or goes to the next frame.

At frame t, after u labels, the model either emits label u + 1 and stays at the frame, or emits a blank and goes to
frame t + 1. A path goes from (first frame, no label) to the blank of the last frame after all labels. Compare `ctc.py`:
in CTC, the probabilities of a frame do not depend on the labels before it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.layers.ctc import BLANK, IMPOSSIBLE


class TransducerLoss(nn.Module):
    """-log p(labels | frames) of each row: the sum over all paths, in log space (Graves 2012, eq. 16 and 17).

    alpha(t, u) = alpha(t - 1, u) blank(t - 1, u) + alpha(t, u - 1) label(t, u - 1). All states with the same t + u
    depend only on those with t + u - 1, so the recursion computes one anti-diagonal of the lattice after the other.
    """

    def forward(
        self,
        log_probabilities: Float[Tensor, "row frame position token"],
        frames: Int[Tensor, "row"],
        labels: Sequences,
    ) -> Float[Tensor, "row"]:
        """The loss of each row; position u of a frame has the log-probabilities after u labels."""
        blank_scores = diagonals(log_probabilities[..., BLANK])
        label_ids = torch.where(labels.valid, labels.values, BLANK)
        index = label_ids[:, None, :, None].expand(-1, log_probabilities.size(1), -1, 1)
        emissions = diagonals(log_probabilities[:, :, :-1].gather(3, index).squeeze(3))
        alpha = torch.full_like(blank_scores[:, 0], IMPOSSIBLE)
        alpha[:, 0] = 0
        alphas = [alpha]
        for diagonal in range(1, blank_scores.size(1)):
            from_frame_before = alpha + blank_scores[:, diagonal - 1]
            from_label_before = nn.functional.pad(alpha[:, :-1] + emissions[:, diagonal - 1], (1, 0), value=IMPOSSIBLE)
            alpha = torch.logaddexp(from_frame_before, from_label_before)
            alphas.append(alpha)
        rows, end = torch.arange(len(frames), device=frames.device), frames - 1 + labels.lengths
        return -(torch.stack(alphas, 1) + blank_scores)[rows, end, labels.lengths]


def diagonals(lattice: Float[Tensor, "row frame position"]) -> Float[Tensor, "row diagonal position"]:
    """The anti-diagonals of a lattice: element (n, u) is that of frame n - u, `IMPOSSIBLE` if there is no such frame.

    >>> diagonals(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])).clamp(min=0).tolist()
    [[[1.0, 0.0], [3.0, 2.0], [0.0, 4.0]]]
    """
    frames, positions = lattice.shape[1:]
    count = frames + positions - 1
    numbers = torch.arange(count, device=lattice.device)[:, None] - torch.arange(positions, device=lattice.device)
    exists = (numbers >= 0) & (numbers < frames)
    index = numbers.clamp(0, frames - 1)[None].expand(lattice.size(0), -1, -1)
    return torch.where(exists, lattice.gather(1, index), IMPOSSIBLE)
