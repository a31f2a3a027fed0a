"""Tagged words as batches: pieces know their word, and the first piece of each is asked."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.core.batch import NOT_ASKED, Worded
from seq2see.core.errors import UserError
from seq2see.sequences.pairs import even
from seq2see.sequences.tagged import TaggedTexts, cut_words
from seq2see.sequences.tokenisers import BOS, EOS, PAD, UNK, BytePairs, Characters
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.sources.examples import Example

LETTERS = train_tokeniser(Characters(), ["abcdefgh猫狗"])
TAGS = ("NOUN", "VERB")


def sentence(words: str, tags: str, place: str = "") -> Example:
    return Example(words, tags, source_words=tuple(words.split()), source_tags=tuple(tags.split()), place=place)


EXAMPLES = [sentence("ab cde", "NOUN VERB"), sentence("猫 f", "NOUN NOUN")]


def test_each_piece_knows_its_word_and_the_first_of_each_is_asked():
    batch = TaggedTexts(EXAMPLES, LETTERS, TAGS, 9).batch(np.array([0, 1]))
    assert isinstance(batch.source, Worded)
    assert batch.source.values[0].tolist()[:7] == [BOS, *LETTERS.encode("abcde"), EOS]
    assert batch.source.words[0].tolist()[:7] == [0, 1, 1, 2, 2, 2, 0]
    assert batch.labels[0].tolist()[:7] == [NOT_ASKED, 0, NOT_ASKED, 1, NOT_ASKED, NOT_ASKED, NOT_ASKED]
    assert batch.source.values[1].tolist()[:5] == [BOS, *LETTERS.encode("猫f"), EOS, PAD]
    assert batch.labels[1].tolist()[:5] == [NOT_ASKED, 0, 0, NOT_ASKED, NOT_ASKED]
    assert batch.source.lengths.tolist() == [7, 4]


def test_a_sentence_is_cut_between_words_and_that_is_told():
    cut = TaggedTexts(EXAMPLES, LETTERS, TAGS, 4)
    assert cut.batch(np.array([0])).source.values[0, :4].tolist() == [BOS, *LETTERS.encode("ab"), EOS]
    assert "1 source texts are longer than 4 tokens" in cut.warnings()[0]


def test_pieces_of_words_have_their_space_and_a_word_of_nothing_is_unknown():
    pieces = train_tokeniser(BytePairs(size=300), ["the cat sat on the mat 猫坐"])
    ids, words = cut_words(["the", "猫"], pieces, 50)
    assert ids == pieces.encode(" the") + pieces.encode("猫")
    assert set(words) == {1, 2}
    assert cut_words(["x", ""], LETTERS, 5) == ([UNK, UNK], [1, 2])


def test_a_tag_that_was_not_learnt_is_refused_with_its_place():
    with pytest.raises(UserError, match=r"x\.conllu:3: The tag 'ADJ' .*does not occur"):
        TaggedTexts([sentence("a", "ADJ", "x.conllu:3")], LETTERS, TAGS, 9)


def test_words_and_tags_count_in_the_fingerprint():
    prints = [
        TaggedTexts(examples, LETTERS, TAGS, 9).fingerprint
        for examples in (
            EXAMPLES,
            [EXAMPLES[0], sentence("猫 f", "NOUN VERB")],
            [EXAMPLES[0], sentence("狗 f", "NOUN NOUN")],
        )
    ]
    assert len(set(prints)) == 3


def test_a_sentence_that_just_fits_is_not_cut():
    whole = TaggedTexts(EXAMPLES, LETTERS, TAGS, 5)
    assert whole.warnings() == []
    assert whole.lengths.tolist() == [[7], [4]]


def test_a_batch_that_is_filled_up_keeps_its_words():
    batch = even(TaggedTexts(EXAMPLES, LETTERS, TAGS, 9).batch(np.array([0])), rows=2, width=12)
    assert batch.source.words.shape == batch.source.values.shape == batch.labels.shape == (2, 12)
    assert batch.source.words[0, :7].tolist() == [0, 1, 1, 2, 2, 2, 0]
    assert batch.source.words[1].tolist() == [0] * 12
