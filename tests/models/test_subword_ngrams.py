"""A word's embedding depends on its n-grams alone, not on its neighbors, the other rows or the padding."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from seq2see.core.batch import Batch, Sequences, WordSequences
from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, NgramEmbeddingSettings, Tags, Text
from seq2see.models.subword_ngrams import BASE, PRIME, NgramEmbedding, ngram_hashes, word_hashes
from tiny_models import recurrent_encoder

CAT, AT, A = [5, 6, 7], [6, 7], [6]


def word_sequences(*rows: list[list[int]]) -> WordSequences:
    """Rows of words between <bos> and <eos>."""
    characters = Sequences.of([[1, *(character for word in row for character in word), 2] for row in rows])
    words = [[0, *(number for number, word in enumerate(row, 1) for _ in word), 0] for row in rows]
    return WordSequences(characters.values, characters.lengths, Sequences.of(words).values)


def ngram_hashes_by_hand(word: list[int], max_n: int) -> list[int]:
    """The sorted hashes of a word's n-grams."""
    hashes = []
    for size in range(1, max_n + 1):
        for start in range(len(word) - size + 1):
            value = 0
            for character in word[start : start + size]:
                value = (value * BASE + character) % PRIME
            hashes.append(4 * value + 2 * (start == 0) + (start + size == len(word)))
    return sorted(hashes)


@pytest.mark.parametrize("max_n", [1, 2, 5])
def test_the_ngrams_of_a_word_by_hand(max_n):
    source = word_sequences([CAT, AT, A])
    hashes, exists = ngram_hashes(source.values, source.word_ids, max_n)
    for number, word in enumerate((CAT, AT, A), 1):
        in_word = source.word_ids[0] == number
        assert sorted(hashes[0, in_word][exists[0, in_word]].tolist()) == ngram_hashes_by_hand(word, max_n)
    assert not exists[0, source.word_ids[0] == 0].any()


def test_the_ends_of_a_word_are_marked():
    first, second = ngram_hashes_by_hand(CAT, 2), ngram_hashes_by_hand(AT, 2)
    # "at" at the end of "cat" is not the word "at", but "t" is the last letter of both.
    assert len({*first} & {*second}) == 1


def test_a_whole_word_has_its_own_hash():
    source = word_sequences([CAT, AT, [7, 6, 5], CAT])
    cat, at, tac, again = word_hashes(source.values, source.word_ids, 5)[0, 1:].tolist()
    assert cat == again
    assert len({cat, at, tac}) == 3  # the same letters in another order are another word


def test_word_hashes_hardly_collide():
    """None of the 9,330 words of up to five out of six characters collide."""
    words = [list(word) for length in range(1, 6) for word in product(range(5, 11), repeat=length)]
    source = word_sequences(*([word] for word in words))
    assert len({*word_hashes(source.values, source.word_ids, 2)[:, 1].tolist()}) == len(words) == 9330


def test_the_hash_of_a_word_by_hand():
    source = word_sequences([CAT])
    assert word_hashes(source.values, source.word_ids, 2)[0, 1] == (5 * BASE + 6 * BASE**2 + 7 * BASE**3) % PRIME


def test_the_embedding_of_a_word_by_hand():
    embedding = NgramEmbedding(buckets=1000, width=2, max_n=2, word_dropout=0.0, dropout=0.0)
    torch.nn.init.ones_(embedding.ngram_table.weight)
    vectors = embedding(word_sequences([CAT, A]))
    assert vectors.lengths.tolist() == [3]
    # c, a, t, ca and at are five n-grams; "a" is one; position 0 is no word.
    torch.testing.assert_close(vectors.values[0, :, 0], torch.tensor([0, 1 + 5 / 5**0.5, 1 + 1]))


def test_a_dropped_word_is_still_embedded_by_its_ngrams():
    torch.manual_seed(1)
    embedding = NgramEmbedding(buckets=1000, width=1, max_n=1, word_dropout=0.5, dropout=0.0)
    torch.nn.init.ones_(embedding.ngram_table.weight)
    source = word_sequences([A] * 20)
    assert {*embedding(source).values[0, 1:, 0].tolist()} == {1.0, 3.0}  # dropped, or scaled by two
    assert {*embedding.eval()(source).values[0, 1:, 0].tolist()} == {2.0}


def test_padding_has_no_effect():
    embedding = NgramEmbedding(buckets=1000, width=3, max_n=2, word_dropout=0.0, dropout=0.0)
    source = word_sequences([CAT, AT], [A])
    noisy = WordSequences(source.values.masked_fill(~source.valid, 9), source.lengths, source.word_ids)
    assert torch.equal(embedding(source).values, embedding(noisy).values)


@torch.no_grad()
def test_padding_and_other_rows_change_nothing_and_a_word_has_one_tag():
    settings = ModelSettings(
        source=Text(embedding=NgramEmbeddingSettings(buckets=101)), target=Tags(), encoder=recurrent_encoder("lstm")
    )
    model = fresh_model(settings, (23, 4), "xavier", 3).eval()

    def logits(source):
        return model(Batch(source, None, source.values, source.lengths))

    alone, together = logits(word_sequences([CAT, AT])), logits(word_sequences([AT, CAT, CAT, A, AT], [CAT, AT]))
    assert together.shape == (2, 13, 4)
    torch.testing.assert_close(together[1, 1:6], alone[0, 1:6], atol=1e-5, rtol=1e-5)
    assert torch.equal(alone[0, 1], alone[0, 3])
    assert not torch.equal(alone[0, 1], alone[0, 4])


@pytest.mark.parametrize("target", [{"kind": "label"}, {"kind": "tags", "word_pooling": "first"}])
def test_ngrams_without_words_are_refused(target):
    source = {"embedding": {"kind": "ngrams"}}
    with pytest.raises(UserError, match=r"target\.kind=tags"):
        read_tree(ModelSettings, {"source": source, "target": target, "encoder": {"kind": "recurrent"}})
