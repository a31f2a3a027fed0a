"""Texts end to end: nothing is lost, nothing overlaps, every epoch has the same number of batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import NOT_ASKED
from seq2see.core.errors import UserError
from seq2see.sequences import packs
from seq2see.sequences.packs import Packs, best_fit
from seq2see.sequences.pairs import NOBODY, PairSet
from seq2see.sequences.tokenisers import BOS, EOS, PAD, Characters
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.sources.examples import Example

sizes = st.lists(st.integers(1, 20), min_size=1, max_size=40)


def pair_set(pairs: list[tuple[str, str]]) -> PairSet:
    letters = train_tokeniser(Characters(), ["abcdefg"])
    return PairSet([Example(*pair) for pair in pairs], letters, letters, limit=30)


def test_a_batch_by_hand(monkeypatch):
    monkeypatch.setattr(packs, "LINE", 7)
    pairs = pair_set([("ab", "c"), ("d", "efg"), ("a", "b")])
    a, b, c, d, e, f, g = pairs.tokenisers["source"].encode("abcdefg")
    batch = Packs(pairs.lengths, 14, seed=1).batch(pairs, np.arange(3))
    # The second text needs 4 places (efg and <eos>), the first 3: together they fill a line. The third has its own.
    assert batch.indices[:, :3].tolist() == [[0, 1, NOBODY], [2, NOBODY, NOBODY]]
    assert batch.source.values.tolist() == [[a, b, EOS, d, EOS, PAD, PAD], [a, EOS, PAD, PAD, PAD, PAD, PAD]]
    assert batch.target.values.tolist() == [[BOS, c, BOS, e, f, g, PAD], [BOS, b, PAD, PAD, PAD, PAD, PAD]]
    none = NOT_ASKED
    assert batch.labels.tolist() == [[c, EOS, e, f, g, EOS, none], [b, EOS, none, none, none, none, none]]
    assert batch.target.texts.tolist() == [[1, 1, 2, 2, 2, 2, 0], [1, 1, 0, 0, 0, 0, 0]]
    assert batch.target.times.tolist() == [[0, 1, 0, 1, 2, 3, 0], [0, 1, 0, 0, 0, 0, 0]]
    assert batch.source.lengths.tolist() == [5, 2]


@given(sizes, st.integers(20, 50))
def test_texts_fit_on_their_lines_and_no_line_is_empty(sizes, line):
    lines, used = best_fit(np.array(sizes), line)
    filled = np.bincount(lines, weights=sizes, minlength=used)
    assert len(filled) == used
    assert (filled <= line).all()
    assert (filled > 0).all()


@given(sizes, st.integers(0, 3))
def test_every_epoch_has_each_text_once_and_the_same_number_of_batches(sizes, epoch):
    plan = Packs(np.array(sizes)[:, None], 256, seed=5)
    steps = range(epoch * plan.per_epoch, (epoch + 1) * plan.per_epoch)
    assert sorted(np.concatenate([plan.indices_at(step) for step in steps])) == list(range(len(sizes)))
    assert [plan.epoch_of(step) for step in steps] == [epoch] * plan.per_epoch


def test_epochs_differ_and_a_step_needs_only_its_number():
    lengths = np.random.default_rng(1).integers(3, 30, (500, 2))
    one, other = Packs(lengths, 1024, seed=5), Packs(lengths, 1024, seed=5)
    last = 3 * one.per_epoch - 1
    walked = [one.indices_at(step) for step in range(last + 1)]
    assert walked[last].tolist() == other.indices_at(last).tolist()
    assert walked[0].tolist() != walked[one.per_epoch].tolist()
    assert walked[0].tolist() != Packs(lengths, 1024, seed=6).indices_at(0).tolist()


def test_lines_are_nearly_full_and_batches_have_one_shape():
    random = np.random.default_rng(2)
    words = ["".join(random.choice(list("abcdefg"), size)) for size in random.integers(3, 28, 2000)]
    pairs = pair_set([(word, word[::-1]) for word in words])
    plan = Packs(pairs.lengths, 2048, seed=1)
    batches = [plan.batch(pairs, plan.indices_at(step)) for step in range(plan.per_epoch)]
    assert {tuple(batch.labels.shape) for batch in batches} == {(16, 128)}
    assert sum(int(batch.asked.sum()) for batch in batches) > 0.9 * 2048 * plan.per_epoch


def test_texts_that_do_not_fit_get_a_line_more():
    pairs = pair_set([("a" * 29, "b" * 29)] * 5)
    assert len(Packs(pairs.lengths, 128, seed=1).batch(pairs, np.arange(5)).labels) == 2


def test_a_budget_below_one_line_is_refused():
    with pytest.raises(UserError, match=r"training\.batches=buckets"):
        Packs(np.array([[200]]), 150, seed=1)
    with pytest.raises(UserError, match="no examples"):
        Packs(np.zeros((0, 1), dtype=np.int64), 150, seed=1)
