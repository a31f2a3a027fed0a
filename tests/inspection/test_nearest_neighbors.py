"""Vectors of words: who is near, and what the watcher of a stack sees."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.inspection.nearest_neighbors import Embeddings, cosine
from seq2see.inspection.trace import trace
from tiny_models import tiny_model

FOUR = Embeddings(
    torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0], [-1.0, 0.0]]), ["east", "north-east", "north", "west"]
)


def test_near_is_what_points_the_same_way_however_long():
    found = FOUR.nearest(torch.tensor([0.1, 0.0]), 4)
    assert [each.piece for each in found] == ["east", "north-east", "north", "west"]
    assert [each.cosine for each in found] == pytest.approx([1, 0.5**0.5, 0, -1])


def test_what_is_left_out_is_not_named():
    assert [each.piece for each in FOUR.nearest(torch.tensor([1.0, 0.0]), 9, {0, 2})] == ["north-east", "west"]


def test_a_cosine_by_hand():
    assert cosine(torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])) == pytest.approx(24 / 25)


@torch.no_grad()
def test_the_stream_is_what_enters_and_what_leaves_every_block():
    model = tiny_model("transformer, pre-norm")
    source = Sequences.of([[5, 6, 7, 2]])
    with trace(model, ("embedding", "stream")) as seen:
        read = model.encode(source).values
    (enters,), leaves = seen.of("embedding"), seen.of("stream")
    assert [each.name for each in leaves] == ["encoder.blocks.0", "encoder.blocks.1"]
    torch.testing.assert_close(model.encoder.final_norm(leaves[-1].values, source.real), read)
    torch.testing.assert_close(enters.values, model.source(source).values)


@torch.no_grad()
def test_a_body_without_blocks_counts_as_one():
    model = tiny_model("recurrent, additive")
    with trace(model, ("stream",)) as seen:
        read = model.encode(Sequences.of([[5, 6, 7]]))
    (only,) = seen.of("stream")
    assert only.name == "encoder"
    torch.testing.assert_close(only.values, read.values)
