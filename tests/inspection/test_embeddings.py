"""Vectors of words: who is near, and what the watcher of a stack sees."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.inspection.embeddings import Embeddings, cosine
from seq2see.inspection.streams import watch_stream
from tiny_models import tiny

FOUR = Embeddings(
    torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0], [-1.0, 0.0]]), ["east", "north-east", "north", "west"]
)


def test_near_is_what_points_the_same_way_however_long():
    found = FOUR.near(torch.tensor([0.1, 0.0]), 4)
    assert [each.piece for each in found] == ["east", "north-east", "north", "west"]
    assert [each.cosine for each in found] == pytest.approx([1, 0.5**0.5, 0, -1])


def test_what_is_left_out_is_not_named():
    assert [each.piece for each in FOUR.near(torch.tensor([1.0, 0.0]), 9, {0, 2})] == ["north-east", "west"]


def test_a_cosine_by_hand():
    assert cosine(torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])) == pytest.approx(24 / 25)


@torch.no_grad()
def test_the_watcher_sees_every_block_and_changes_nothing():
    model = tiny("transformer, pre-norm")
    source = Sequences.of([[5, 6, 7, 2]])
    before = model.encode(source).values
    with watch_stream(model.source, model.encoder) as seen:
        during = model.encode(source).values
    assert [name for name, _ in seen] == ["entering", "block 1", "block 2"]
    assert torch.equal(before, during)
    torch.testing.assert_close(model.encoder.ending(seen[-1][1], source.real), before)
    torch.testing.assert_close(seen[0][1], model.source(source).values)
    model.encode(source)
    assert len(seen) == 3  # nobody watches any more


@torch.no_grad()
def test_a_body_without_blocks_counts_as_one():
    model = tiny("recurrent, additive")
    with watch_stream(model.source, model.encoder) as seen:
        read = model.encode(Sequences.of([[5, 6, 7]]))
    assert [name for name, _ in seen] == ["entering", "block 1"]
    torch.testing.assert_close(seen[1][1], read.values)
