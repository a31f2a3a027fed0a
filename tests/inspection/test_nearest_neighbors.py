"""Nearest neighbors of word vectors, and the traced residual stream."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.inspection.embedding_space import Embeddings, cosine
from seq2see.inspection.trace import trace
from tiny_models import tiny_model

DIRECTIONS = Embeddings(
    torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0], [-1.0, 0.0]]), ["east", "north-east", "north", "west"]
)


def test_neighbors_are_sorted_by_direction_and_not_by_length():
    found = DIRECTIONS.nearest(torch.tensor([0.1, 0.0]), 4)
    assert [each.token for each in found] == ["east", "north-east", "north", "west"]
    assert [each.cosine for each in found] == pytest.approx([1, 0.5**0.5, 0, -1])


def test_excluded_tokens_are_no_neighbors():
    assert [each.token for each in DIRECTIONS.nearest(torch.tensor([1.0, 0.0]), 9, {0, 2})] == ["north-east", "west"]


def test_a_cosine_computed_by_hand():
    assert cosine(torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])) == pytest.approx(24 / 25)


@torch.no_grad()
def test_the_stream_is_the_output_of_every_block():
    model = tiny_model("transformer, pre-norm")
    source = Sequences.of([[5, 6, 7, 2]])
    with trace(model, ("embedding", "stream")) as activations:
        encoded = model.encode(source).values
    (embedding,), outputs = activations.of("embedding"), activations.of("stream")
    assert [each.name for each in outputs] == ["encoder.blocks.0", "encoder.blocks.1"]
    torch.testing.assert_close(model.encoder.final_norm(outputs[-1].values, source.valid), encoded)
    torch.testing.assert_close(embedding.values, model.source(source).values)


@torch.no_grad()
def test_an_encoder_without_blocks_has_one_stream():
    model = tiny_model("recurrent, additive")
    with trace(model, ("stream",)) as activations:
        encoded = model.encode(Sequences.of([[5, 6, 7]]))
    (stream,) = activations.of("stream")
    assert stream.name == "encoder"
    torch.testing.assert_close(stream.values, encoded.values)
