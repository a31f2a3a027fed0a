"""Operations on ragged rows that respect how much of each row is real.

What lies behind the real data of a row has no meaning, and could be anything, even NaN. These four
functions are all a reader of sequences needs so that padding never changes a result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import DenseSequences, Sequences

AnySequences = TypeVar("AnySequences", bound=Sequences)


def zero_padding(sequences: AnySequences) -> AnySequences:
    """The same sequences with zeros where there is no data.

    A weight of zero is not enough to keep padding out: 0 · NaN is NaN, in the forward pass and in the
    gradient of whatever multiplied it. So the content itself is taken away.
    """
    if isinstance(sequences, DenseSequences):
        return sequences
    return replace(sequences, values=torch.where(sequences.valid[..., None], sequences.values, 0))


def reverse_sequences(sequences: AnySequences) -> AnySequences:
    """Each row's real part from back to front; the padding stays where it is, behind it.

    >>> ids = Sequences(torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2]))
    >>> reverse(ids).values.tolist()
    [[3, 2, 1], [5, 4, 0]]
    """
    values, lengths = sequences.values, sequences.lengths[:, None]
    rows, times = values.shape[:2]
    places = torch.arange(times, device=values.device).expand(rows, times)
    mirrored = torch.where(sequences.valid, lengths - 1 - places, places)
    starts = torch.arange(rows, device=values.device)[:, None] * times
    # Whole vectors are copied by their place in one long list: faster both ways than a gather.
    picked = values.flatten(0, 1).index_select(0, (starts + mirrored).flatten())
    return replace(sequences, values=picked.view(values.shape))


def last_valid(sequences: Sequences) -> Float[Tensor, "row width"]:
    """The vector at the last real time of each row; zeros for a row without data."""
    rows = torch.arange(sequences.values.size(0), device=sequences.values.device)
    last = sequences.values[rows, (sequences.lengths - 1).clamp(min=0)]
    return last.masked_fill((sequences.lengths == 0)[:, None], 0)


def masked_mean(sequences: Sequences) -> Float[Tensor, "row width"]:
    """The mean of each row's real vectors; zeros for a row without data."""
    return zero_padding(sequences).values.sum(1) / sequences.lengths.clamp(min=1)[:, None]
