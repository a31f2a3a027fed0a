"""A word's vector is the mean over its subwords; other words and rows do not affect it."""

from __future__ import annotations

import torch

from seq2see.core.batch import Batch, Sequences, WordSequences
from seq2see.models.build import fresh_model
from seq2see.models.encoder_model import mean_of_words
from seq2see.models.settings import ModelSettings, Tags, Text, TokenEmbeddingSettings
from tiny_models import recurrent_encoder


def test_the_mean_of_a_word_by_hand():
    vectors = torch.tensor([[[9.0], [1.0], [3.0], [5.0], [7.0]]])
    words = torch.tensor([[0, 1, 1, 2, 0]])
    assert mean_of_words(vectors, words)[0, :, 0].tolist() == [8, 2, 2, 5, 8]


@torch.no_grad()
def test_other_rows_and_padding_change_nothing():
    settings = ModelSettings(
        source=Text(embedding=TokenEmbeddingSettings(positions="none")),
        target=Tags(),
        encoder=recurrent_encoder("lstm"),
    )
    model = fresh_model(settings, (23, 4), "xavier", 3).eval()

    def batch(rows, words):
        source = Sequences.of(rows)
        return Batch(
            WordSequences(source.values, source.lengths, Sequences.of(words).values),
            None,
            source.values,
            source.lengths,
        )

    alone = model(batch([[1, 5, 6, 2]], [[0, 1, 1, 0]]))
    together = model(batch([[1, 7, 8, 9, 5, 6, 2], [1, 5, 6, 2]], [[0, 1, 1, 2, 3, 3, 0], [0, 1, 1, 0]]))
    assert together.shape == (2, 7, 4)
    torch.testing.assert_close(together[1, 1:3], alone[0, 1:3], atol=1e-5, rtol=1e-5)
    assert torch.equal(alone[0, 1], alone[0, 2])  # one tag per word
