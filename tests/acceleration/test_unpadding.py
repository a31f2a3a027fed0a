"""Padded and unpadded layouts: by hand, that they are inverse, and their gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2see.acceleration.attention import PaddedLayout, UnpaddedLayout, choose_layout
from seq2see.core.batch import Sequences

ROWS = Sequences(torch.arange(1.0, 7).view(2, 3, 1), torch.tensor([3, 1]))  # the last two numbers are padding


def test_the_unpadded_layout_by_hand():
    layout = UnpaddedLayout(ROWS)
    line, valid = layout.from_sequences(ROWS)
    assert line.tolist() == [[[1], [2], [3], [4]]]
    assert valid.tolist() == [[True] * 4]
    assert layout.pad(10 * line).flatten(1).tolist() == [[10, 20, 30], [40, 0, 0]]
    assert torch.equal(layout.unpad(layout.pad(line)), line)


def test_the_padded_layout_only_zeroes_the_padding():
    rows, valid = PaddedLayout().from_sequences(ROWS)
    assert rows.flatten(1).tolist() == [[1, 2, 3], [4, 0, 0]]
    assert valid.tolist() == [[True, True, True], [True, False, False]]
    assert PaddedLayout().pad(rows) is rows
    assert PaddedLayout().unpad(rows) is rows


def test_rows_are_unpadded_only_if_there_is_padding():
    assert type(choose_layout(ROWS)) is UnpaddedLayout
    assert type(choose_layout(Sequences(ROWS.values, torch.tensor([3, 3])))) is PaddedLayout


def test_no_shape_depends_on_lengths_off_the_cpu_or_while_compiling(monkeypatch):
    with torch.device("meta"):  # as on a GPU, reading a number would need a synchronization; on meta it fails
        on_meta = Sequences(torch.empty(2, 3, 5), torch.empty(2, dtype=torch.long))
    assert type(choose_layout(on_meta)) is PaddedLayout
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert type(choose_layout(ROWS)) is PaddedLayout


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 3), st.integers(1, 4))
def test_pad_and_unpad_are_inverse(lengths, extra, width):
    shape = (len(lengths), max(lengths) + extra, width)
    sequences = Sequences(torch.randn(shape, dtype=torch.float64), torch.tensor(lengths))
    layout = UnpaddedLayout(sequences)
    rows = sequences.values.masked_fill(~sequences.valid[..., None], 0)
    assert torch.equal(layout.unpad(sequences.values)[0], sequences.unpad())
    assert torch.equal(layout.pad(layout.unpad(sequences.values)), rows)


def test_gradients_of_pad_and_unpad_are_right():
    layout = UnpaddedLayout(ROWS)
    rows = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    line = torch.randn(1, 4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layout.unpad, [rows])
    assert torch.autograd.gradcheck(layout.pad, [line])
    layout.unpad(rows).sum().backward()
    assert_close(rows.grad.sum(-1), 2.0 * ROWS.valid.double())


@pytest.mark.parametrize("fill_value", [float("nan"), float("inf")])
def test_the_padding_never_enters_the_layout(fill_value):
    sequences = Sequences(ROWS.values.masked_fill(~ROWS.valid[..., None], fill_value).requires_grad_(), ROWS.lengths)
    for layout in (UnpaddedLayout(sequences), PaddedLayout()):
        vectors, _ = layout.from_sequences(sequences)
        assert vectors.isfinite().all()
        (grad,) = torch.autograd.grad((vectors * vectors).sum(), sequences.values)
        assert grad.isfinite().all()
