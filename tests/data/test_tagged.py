"""Tagged words as batches: tokens have word ids, and the first token of each word has the tag as label."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.core.batch import IGNORE_INDEX, WordSequences
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.labeled_dataset import TaggedTextDataset, encode_words
from seq2see.data.pair_dataset import pad_batch
from seq2see.data.tokenizers.tokenizer import BOS, BPE, EOS, PAD, UNK, Characters, train_tokenizer

LETTERS = train_tokenizer(Characters(), ["abcdefgh猫狗"])
TAGS = ("NOUN", "VERB")


def sentence(words: str, tags: str, location: str = "") -> Example:
    return Example(words, tags, source_words=tuple(words.split()), source_tags=tuple(tags.split()), location=location)


EXAMPLES = [sentence("ab cde", "NOUN VERB"), sentence("猫 f", "NOUN NOUN")]


def test_each_token_has_its_word_and_the_first_of_each_word_has_a_label():
    batch = TaggedTextDataset(EXAMPLES, LETTERS, TAGS, 9).batch(np.array([0, 1]))
    assert isinstance(batch.source, WordSequences)
    assert batch.source.values[0].tolist()[:7] == [BOS, *LETTERS.encode("abcde"), EOS]
    assert batch.source.word_ids[0].tolist()[:7] == [0, 1, 1, 2, 2, 2, 0]
    assert batch.labels[0].tolist()[:7] == [IGNORE_INDEX, 0, IGNORE_INDEX, 1, IGNORE_INDEX, IGNORE_INDEX, IGNORE_INDEX]
    assert batch.source.values[1].tolist()[:5] == [BOS, *LETTERS.encode("猫f"), EOS, PAD]
    assert batch.labels[1].tolist()[:5] == [IGNORE_INDEX, 0, 0, IGNORE_INDEX, IGNORE_INDEX]
    assert batch.source.lengths.tolist() == [7, 4]


def test_a_sentence_is_truncated_between_words_with_a_warning():
    dataset = TaggedTextDataset(EXAMPLES, LETTERS, TAGS, 4)
    assert dataset.batch(np.array([0])).source.values[0, :4].tolist() == [BOS, *LETTERS.encode("ab"), EOS]
    assert "1 source texts are longer than 4 tokens" in dataset.warnings()[0]


def test_tokens_of_words_have_their_space_and_a_word_without_tokens_is_unknown():
    bpe = train_tokenizer(BPE(vocab_size=300), ["the cat sat on the mat 猫坐"])
    ids, words = encode_words(["the", "猫"], bpe, 50)
    assert ids == bpe.encode(" the") + bpe.encode("猫")
    assert set(words) == {1, 2}
    assert encode_words(["x", ""], LETTERS, 5) == ([UNK, UNK], [1, 2])


def test_an_unknown_tag_is_refused_with_its_location():
    with pytest.raises(UserError, match=r"x\.conllu:3: The tag 'ADJ' .*does not occur"):
        TaggedTextDataset([sentence("a", "ADJ", "x.conllu:3")], LETTERS, TAGS, 9)


def test_words_and_tags_count_in_the_fingerprint():
    fingerprints = [
        TaggedTextDataset(examples, LETTERS, TAGS, 9).fingerprint
        for examples in (
            EXAMPLES,
            [EXAMPLES[0], sentence("猫 f", "NOUN VERB")],
            [EXAMPLES[0], sentence("狗 f", "NOUN NOUN")],
        )
    ]
    assert len(set(fingerprints)) == 3


def test_a_sentence_that_just_fits_is_not_truncated():
    whole = TaggedTextDataset(EXAMPLES, LETTERS, TAGS, 5)
    assert whole.warnings() == []
    assert whole.lengths.tolist() == [[7], [4]]


def test_a_padded_batch_keeps_its_words():
    batch = pad_batch(TaggedTextDataset(EXAMPLES, LETTERS, TAGS, 9).batch(np.array([0])), rows=2, width=12)
    assert batch.source.word_ids.shape == batch.source.values.shape == batch.labels.shape == (2, 12)
    assert batch.source.word_ids[0, :7].tolist() == [0, 1, 1, 2, 2, 2, 0]
    assert batch.source.word_ids[1].tolist() == [0] * 12


def test_a_word_longer_than_the_whole_limit_is_cut_and_reported_and_the_words_after_it_stay():
    example = Example("", "", source_words=("a" * 99, "b"), source_tags=("X", "Y"), location="a.conllu:7")
    dataset = TaggedTextDataset([example], LETTERS, ["X", "Y"], max_tokens=10)
    ids, word_numbers = encode_words(example.source_words, LETTERS, 10)
    assert word_numbers == [1] * 5 + [2]
    assert len(ids) == 6
    assert dataset.warnings() == [f"1 words are longer than 10 tokens and were cut: a.conllu:7 {'a' * 20}...."]
    assert encode_words(["a" * 10], LETTERS, 10)[1] == [1] * 10
