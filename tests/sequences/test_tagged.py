"""Tagged words as batches: pieces know their word, and the first piece of each is asked."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.core.batch import IGNORE_INDEX, WordSequences
from seq2see.core.errors import UserError
from seq2see.sequences.pair_dataset import pad_batch
from seq2see.sequences.tagged import TaggedTextDataset, encode_words
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import BOS, BPE, EOS, PAD, UNK, Characters
from seq2see.sources.examples import Example

LETTERS = train_tokenizer(Characters(), ["abcdefgh猫狗"])
TAGS = ("NOUN", "VERB")


def sentence(words: str, tags: str, place: str = "") -> Example:
    return Example(words, tags, source_words=tuple(words.split()), source_tags=tuple(tags.split()), location=place)


EXAMPLES = [sentence("ab cde", "NOUN VERB"), sentence("猫 f", "NOUN NOUN")]


def test_each_piece_knows_its_word_and_the_first_of_each_is_asked():
    batch = TaggedTextDataset(EXAMPLES, LETTERS, TAGS, 9).batch(np.array([0, 1]))
    assert isinstance(batch.source, WordSequences)
    assert batch.source.values[0].tolist()[:7] == [BOS, *LETTERS.encode("abcde"), EOS]
    assert batch.source.word_ids[0].tolist()[:7] == [0, 1, 1, 2, 2, 2, 0]
    assert batch.labels[0].tolist()[:7] == [IGNORE_INDEX, 0, IGNORE_INDEX, 1, IGNORE_INDEX, IGNORE_INDEX, IGNORE_INDEX]
    assert batch.source.values[1].tolist()[:5] == [BOS, *LETTERS.encode("猫f"), EOS, PAD]
    assert batch.labels[1].tolist()[:5] == [IGNORE_INDEX, 0, 0, IGNORE_INDEX, IGNORE_INDEX]
    assert batch.source.lengths.tolist() == [7, 4]


def test_a_sentence_is_cut_between_words_and_that_is_told():
    cut = TaggedTextDataset(EXAMPLES, LETTERS, TAGS, 4)
    assert cut.batch(np.array([0])).source.values[0, :4].tolist() == [BOS, *LETTERS.encode("ab"), EOS]
    assert "1 source texts are longer than 4 tokens" in cut.warnings()[0]


def test_pieces_of_words_have_their_space_and_a_word_of_nothing_is_unknown():
    pieces = train_tokenizer(BPE(vocab_size=300), ["the cat sat on the mat 猫坐"])
    ids, words = encode_words(["the", "猫"], pieces, 50)
    assert ids == pieces.encode(" the") + pieces.encode("猫")
    assert set(words) == {1, 2}
    assert encode_words(["x", ""], LETTERS, 5) == ([UNK, UNK], [1, 2])


def test_a_tag_that_was_not_learned_is_refused_with_its_place():
    with pytest.raises(UserError, match=r"x\.conllu:3: The tag 'ADJ' .*does not occur"):
        TaggedTextDataset([sentence("a", "ADJ", "x.conllu:3")], LETTERS, TAGS, 9)


def test_words_and_tags_count_in_the_fingerprint():
    prints = [
        TaggedTextDataset(examples, LETTERS, TAGS, 9).fingerprint
        for examples in (
            EXAMPLES,
            [EXAMPLES[0], sentence("猫 f", "NOUN VERB")],
            [EXAMPLES[0], sentence("狗 f", "NOUN NOUN")],
        )
    ]
    assert len(set(prints)) == 3


def test_a_sentence_that_just_fits_is_not_cut():
    whole = TaggedTextDataset(EXAMPLES, LETTERS, TAGS, 5)
    assert whole.warnings() == []
    assert whole.lengths.tolist() == [[7], [4]]


def test_a_batch_that_is_filled_up_keeps_its_words():
    batch = pad_batch(TaggedTextDataset(EXAMPLES, LETTERS, TAGS, 9).batch(np.array([0])), rows=2, width=12)
    assert batch.source.word_ids.shape == batch.source.values.shape == batch.labels.shape == (2, 12)
    assert batch.source.word_ids[0, :7].tolist() == [0, 1, 1, 2, 2, 2, 0]
    assert batch.source.word_ids[1].tolist() == [0] * 12
