"""Pocket sentences that happen in the past, now, usually or in future."""

from __future__ import annotations

from collections import Counter

import pytest

from seq2see.data.generated.pocket.meaning import Clause, NounPhrase
from seq2see.data.generated.pocket.pocket_corpus import TENSE_HELD_OUT, PocketTense, tense_label

ME, PEN = NounPhrase("I"), NounPhrase("pen")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_split_is_balanced_and_no_text_is_in_two(language):
    splits = PocketTense(language=language, size=200).splits()
    assert {name: len(examples) for name, examples in splits.items()} == {
        "train": 200, "valid": TENSE_HELD_OUT, "test": TENSE_HELD_OUT
    }  # fmt: skip
    for examples in splits.values():
        assert set(Counter(example.target for example in examples).values()) == {len(examples) // 4}
    texts = [example.source for examples in splits.values() for example in examples]
    assert len(texts) == len(set(texts))


def test_words_for_a_time_do_not_give_it_away():
    texts = [example.source for examples in PocketTense(size=400).splits().values() for example in examples]
    assert not any(word in text for text in texts for word in ("yesterday", "tomorrow", "last week", "next year"))
    chinese = [each.source for part in PocketTense(language="zh", size=400).splits().values() for each in part]
    assert not any(word in text for text in chinese for word in ("昨天", "明天", "上周", "明年"))


def test_the_label_is_the_tense_of_a_verb():
    assert tense_label(Clause("read", ME, PEN, tense="past")) == "past"
    assert tense_label(Clause("read", ME, PEN)) == "usual"
    assert tense_label(Clause("read", ME, PEN, modal="can")) == ""
    assert tense_label(Clause("be", ME, adjective="tall")) == ""


def test_more_sentences_do_not_change_the_held_out_splits():
    small, large = PocketTense(size=40).splits(), PocketTense(size=80).splits()
    assert small["test"] == large["test"]
