"""Rows below each other or on one line: what is where, and that nothing but time depends on it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.layers.unpadding import PaddedLayout, UnpaddedLayout, choose_layout

ROWS = Sequences(torch.arange(1.0, 7).view(2, 3, 1), torch.tensor([3, 1]))  # the last two numbers are padding


def test_a_line_by_hand():
    layout = UnpaddedLayout(ROWS)
    line, real = layout.from_sequences(ROWS)
    assert line.tolist() == [[[1], [2], [3], [4]]]
    assert real.tolist() == [[True] * 4]
    assert layout.pad(10 * line).flatten(1).tolist() == [[10, 20, 30], [40, 0, 0]]
    assert torch.equal(layout.unpad(layout.pad(line)), line)


def test_rows_stay_as_they_are_with_zeros_for_padding():
    rows, real = PaddedLayout().from_sequences(ROWS)
    assert rows.flatten(1).tolist() == [[1, 2, 3], [4, 0, 0]]
    assert real.tolist() == [[True, True, True], [True, False, False]]
    assert PaddedLayout().pad(rows) is rows
    assert PaddedLayout().unpad(rows) is rows


def test_a_line_only_where_there_is_padding_to_save():
    assert type(choose_layout(ROWS)) is UnpaddedLayout
    assert type(choose_layout(Sequences(ROWS.values, torch.tensor([3, 3])))) is PaddedLayout


def test_no_shape_depends_on_lengths_off_the_cpu_or_while_compiling(monkeypatch):
    with torch.device("meta"):  # like a GPU: whoever asks for a number must wait, and here fails
        elsewhere = Sequences(torch.empty(2, 3, 5), torch.empty(2, dtype=torch.long))
    assert type(choose_layout(elsewhere)) is PaddedLayout
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert type(choose_layout(ROWS)) is PaddedLayout


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 3), st.integers(1, 4))
def test_spreading_and_gathering_undo_each_other_both_ways(lengths, more, width):
    shape = (len(lengths), max(lengths) + more, width)
    sequences = Sequences(torch.randn(shape, dtype=torch.float64), torch.tensor(lengths))
    layout = UnpaddedLayout(sequences)
    rows = sequences.values.masked_fill(~sequences.real[..., None], 0)
    assert torch.equal(layout.unpad(sequences.values)[0], sequences.unpad())
    assert torch.equal(layout.pad(layout.unpad(sequences.values)), rows)


def test_gradients_find_their_way_through_both():
    layout = UnpaddedLayout(ROWS)
    rows = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    line = torch.randn(1, 4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layout.unpad, [rows])
    assert torch.autograd.gradcheck(layout.pad, [line])
    layout.unpad(rows).sum().backward()
    assert_close(rows.grad.sum(-1), 2.0 * ROWS.real.double())


@pytest.mark.parametrize("filling", [float("nan"), float("inf")])
def test_what_stands_in_the_padding_never_enters(filling):
    spoilt = Sequences(ROWS.values.masked_fill(~ROWS.real[..., None], filling).requires_grad_(), ROWS.lengths)
    for layout in (UnpaddedLayout(spoilt), PaddedLayout()):
        vectors, _ = layout.from_sequences(spoilt)
        assert vectors.isfinite().all()
        (gradient,) = torch.autograd.grad((vectors * vectors).sum(), spoilt.values)
        assert gradient.isfinite().all()
