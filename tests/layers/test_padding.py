"""Operations on padded rows: reversal, the last valid vector, the mean, and zero padding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2see.acceleration.attention import PaddedLayout, UnpaddedLayout, choose_layout
from seq2see.core.batch import DenseSequences, Sequences
from seq2see.layers.masks import full_mask, last_valid, masked_mean, padding_mask, reverse_sequences, zero_padding
from seq2see.layers.pooling import PrefixTokens


def padded_rows(lengths: list[int], width: int = 3, padding: float = float("nan"), extra: int = 0) -> Sequences:
    """Random vectors with an arbitrary value as padding."""
    values = torch.randn(len(lengths), max(lengths) + extra, width)
    sequences = Sequences(values, torch.tensor(lengths))
    return Sequences(values.masked_fill(~sequences.valid[..., None], padding), sequences.lengths)


def test_zero_padding_changes_only_the_padding():
    sequences = padded_rows([2, 5, 3])
    clean = zero_padding(sequences)
    assert torch.equal(clean.unpad(), sequences.unpad())
    assert clean.values[~clean.valid].count_nonzero() == 0


@given(lengths=st.lists(st.integers(0, 7), min_size=1, max_size=5).filter(any), extra=st.integers(0, 3))
def test_each_row_is_reversed_by_its_own_length(lengths, extra):
    sequences = padded_rows(lengths, extra=extra, padding=-1.0)
    reversed_rows = reverse_sequences(sequences)
    for row, length in enumerate(lengths):
        assert torch.equal(reversed_rows.values[row, :length], sequences.values[row, :length].flip(0))
    assert torch.equal(reverse_sequences(reversed_rows).values, sequences.values)


def test_the_last_valid_vector_and_the_mean_by_hand():
    values = torch.tensor([[[1.0], [3.0], [100.0]], [[5.0], [7.0], [12.0]], [[9.0], [9.0], [9.0]]])
    sequences = Sequences(values, torch.tensor([2, 3, 0]))
    assert last_valid(sequences).tolist() == [[3.0], [12.0], [0.0]]
    assert masked_mean(sequences).tolist() == [[2.0], [8.0], [0.0]]


@pytest.mark.parametrize("pool", [last_valid, masked_mean])
def test_pooled_vectors_do_not_depend_on_nan_in_the_padding(pool):
    sequences = padded_rows([2, 5])
    values = sequences.values.clone().requires_grad_()
    result = pool(Sequences(values, sequences.lengths))
    result.sum().backward()
    assert result.isfinite().all()
    assert values.grad.isfinite().all()
    assert_close(result[1:], pool(Sequences(sequences.values[1:], torch.tensor([5]))))


def test_rows_without_padding_stay_as_they_are():
    """Their lengths are not read, neither for a mask nor for zero padding."""
    rows = DenseSequences(torch.randn(2, 3, 4), torch.tensor([3, 3]))
    assert zero_padding(rows) is rows
    assert padding_mask(rows) == full_mask()
    assert isinstance(choose_layout(rows), PaddedLayout)
    assert not isinstance(choose_layout(rows), UnpaddedLayout)
    torch.testing.assert_close(masked_mean(rows), rows.values.mean(1))
    longer = PrefixTokens(4)(rows)
    assert (type(longer), longer.lengths.tolist()) == (DenseSequences, [4, 4])
    assert type(PrefixTokens(4)(Sequences(rows.values, rows.lengths))) is Sequences
