"""Connectionist temporal classification (CTC; Graves et al. 2006): the probability of labels whose times are unknown.

A path has one token or a blank for every frame. Merging repeats and then removing each blank gives its labels: with the
blank as "-", the path a a - a b - has the labels a a b. The probability of the labels is the sum over all paths with
these labels (eq. 3), and the probability of a path is the product over its frames. The sum is computed by the forward
recursion over a lattice, whose states are the labels with a blank before, between and after them (section 4.1).
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.data.tokenizers.tokenizer import PAD

BLANK = PAD
"""The blank has the id of <pad>, which no text contains; so the head needs no additional output."""
IMPOSSIBLE = -1e30
"""The log-probability of impossible states; not minus infinity, because differences of infinities are NaN."""

LogProbabilities = Float[Tensor, "row frame token"]


class CTCLoss(nn.Module):
    """-log p(labels | frames) of each row, by the forward recursion in log space (Graves et al. 2006, eq. 6 to 8)."""

    def forward(
        self, log_probabilities: LogProbabilities, frames: Int[Tensor, "row"], labels: Sequences
    ) -> Float[Tensor, "row"]:
        """The loss of each row; 0 if the labels need more frames than the row has, because then no path exists."""
        states = blank_states(labels)
        scores = log_probabilities.gather(2, states[:, None].expand(-1, log_probabilities.size(1), -1))
        skips = may_skip(states)
        before_first = torch.full_like(scores[:, 0], IMPOSSIBLE)
        alpha = before_first.clone()
        alpha[:, :2] = scores[:, 0, :2]
        for time in range(1, scores.size(1)):
            one, two = _shifted(alpha, 1), torch.where(skips, _shifted(alpha, 2), IMPOSSIBLE)
            updated = torch.stack([alpha, one, two]).logsumexp(0) + scores[:, time]
            alpha = torch.where((time < frames)[:, None], updated, alpha)
        last = 2 * labels.lengths[:, None]  # a path ends in the last blank or in the last label
        without_blank = torch.where(last > 0, alpha.gather(1, (last - 1).clamp(min=0)), IMPOSSIBLE)
        log_likelihood = torch.logaddexp(alpha.gather(1, last), without_blank).squeeze(1)
        return torch.where(log_likelihood > IMPOSSIBLE / 2, -log_likelihood, 0.0)


def blank_states(labels: Sequences) -> Int[Tensor, "row state"]:
    """The states of the lattice: the labels with a blank before, between and after them.

    >>> blank_states(Sequences.of([[5, 6]])).tolist()
    [[0, 5, 0, 6, 0]]
    """
    rows, count = labels.values.shape
    states = torch.full((rows, 2 * count + 1), BLANK, device=labels.values.device)
    states[:, 1::2] = torch.where(labels.valid, labels.values, BLANK)
    return states


def may_skip(states: Int[Tensor, "row state"]) -> Bool[Tensor, "row state"]:
    """Whether a path may enter a state from the state two places before it, without the blank between them.

    The blank is required between equal labels, which would be merged without it.
    """
    skips = torch.zeros_like(states, dtype=torch.bool)
    skips[:, 2:] = (states[:, 2:] != BLANK) & (states[:, 2:] != states[:, :-2])
    return skips


def _shifted(alpha: Float[Tensor, "row state"], count: int) -> Float[Tensor, "row state"]:
    """For each state, the score of the state `count` places before it."""
    return nn.functional.pad(alpha, (count, 0), value=IMPOSSIBLE)[:, : alpha.size(1)]


def frames_needed(labels: list[int]) -> int:
    """The number of frames of the shortest path: a frame for each label, and a blank between two equal ones.

    >>> frames_needed([5, 6, 6, 6])
    6
    """
    return len(labels) + sum(first == second for first, second in pairwise(labels))


class CTCHead(nn.Module):
    """A linear layer to the tokens and the blank, and the loss of its logits."""

    def __init__(self, width: int, tokens: int):
        super().__init__()
        self.project, self.loss = nn.Linear(width, tokens), CTCLoss()

    def forward(self, hidden: Float[Tensor, "*any width"]) -> Float[Tensor, "*any token"]:
        """The logits of each frame; that of the blank has the index `BLANK`."""
        return self.project(hidden)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias of the linear layer, as in the other heads."""
        return self.project.weight, self.project.bias
