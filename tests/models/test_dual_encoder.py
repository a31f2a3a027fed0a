"""A dual encoder: a vector for each side, which does not depend on the rest of the batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.core.batch import Batch, Sequences
from seq2see.layers.initialization import initialize
from seq2see.models.build import build_encoder
from seq2see.models.dual_encoder import DualEncoder
from seq2see.models.settings import EmbeddingTarget, ModelSettings, Text
from seq2see.models.transformer import TransformerSettings


def model() -> DualEncoder:
    settings = ModelSettings(
        source=Text(), target=EmbeddingTarget(), encoder=TransformerSettings(width=8, depth=1, heads=2, dropout=0.0)
    )
    built = DualEncoder(*build_encoder(settings, 13), 8).eval()
    for name, weight in built.named_parameters():
        nn.init.normal_(weight, std=0.5) if weight.dim() > 1 and "_proj.matrix" not in name else None
    return built


def test_vectors_have_length_1_and_do_not_depend_on_padding_or_other_rows():
    encoder = model()
    alone = encoder.history_vectors(Sequences.of([[4, 5, 6]]))
    together = encoder.history_vectors(Sequences.of([[4, 5, 6], [7, 8, 9, 10, 11]]))
    assert torch.allclose(alone[0], together[0], atol=1e-6)
    assert torch.allclose(together.norm(dim=1), torch.ones(2))


def test_a_batch_has_the_scores_of_all_pairs():
    encoder = model()
    source, target = Sequences.of([[4, 5], [6, 7, 8]]), Sequences.of([[9], [10, 11]])
    batch = Batch(source, target, torch.zeros(2, 1, dtype=torch.long), torch.arange(2))
    scores = encoder(batch)
    histories, replies = encoder.history_vectors(source), encoder.reply_vectors(target)
    assert scores.shape == (2, 2)
    assert torch.allclose(scores[0, 1], encoder.head.scale * (histories[0] @ replies[1]), atol=1e-5)
    assert encoder.hidden(Batch(source, None, batch.labels, batch.indices)).values.shape == (2, 1, 8)


def test_equal_words_are_similar_before_training():
    encoder = model()
    assert torch.allclose(
        encoder.history_vectors(Sequences.of([[4, 5, 6]])), encoder.reply_vectors(Sequences.of([[4, 5, 6]]))
    )


@pytest.mark.parametrize("side", ["history", "reply"])
def test_each_side_has_its_own_projection(side: str):
    encoder, words = model(), Sequences.of([[4, 5, 6]])
    sides = {"history": encoder.history_vectors, "reply": encoder.reply_vectors}
    before = encoder.history_vectors(words)
    with torch.no_grad():
        encoder.get_submodule(f"{side}_proj").matrix.copy_(torch.eye(8).roll(1, dims=0))
    for name, vectors in sides.items():
        assert torch.allclose(vectors(words), before.roll(1, dims=1) if name == side else before)


def test_initialization_keeps_the_identity():
    encoder = model()
    initialize(encoder, "xavier")
    assert torch.equal(encoder.history_proj.matrix, torch.eye(8))
