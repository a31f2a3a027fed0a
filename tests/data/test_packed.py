"""Packed sequences: nothing is lost, nothing overlaps, every epoch has the same number of batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError
from seq2see.data import packed
from seq2see.data.examples import Example
from seq2see.data.packed import PackedSampler, best_fit
from seq2see.data.pair_dataset import NO_EXAMPLE, PairDataset
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, Characters, train_tokenizer

sizes = st.lists(st.integers(1, 20), min_size=1, max_size=40)


def pair_dataset(pairs: list[tuple[str, str]]) -> PairDataset:
    letters = train_tokenizer(Characters(), ["abcdefg"])
    return PairDataset([Example(*pair) for pair in pairs], letters, letters, max_tokens=30)


def test_a_batch_by_hand(monkeypatch):
    monkeypatch.setattr(packed, "ROW_LENGTH", 7)
    pairs = pair_dataset([("ab", "c"), ("d", "efg"), ("a", "b")])
    a, b, c, d, e, f, g = pairs.tokenizers["source"].encode("abcdefg")
    batch = PackedSampler(pairs.lengths, 14, seed=1).batch(pairs, np.arange(3))
    # The second text needs 4 positions (efg and <eos>), the first 3: together they fill a row. The third has its own.
    assert batch.indices[:, :3].tolist() == [[0, 1, NO_EXAMPLE], [2, NO_EXAMPLE, NO_EXAMPLE]]
    assert batch.source.values.tolist() == [[a, b, EOS, d, EOS, PAD, PAD], [a, EOS, PAD, PAD, PAD, PAD, PAD]]
    assert batch.target.values.tolist() == [[BOS, c, BOS, e, f, g, PAD], [BOS, b, PAD, PAD, PAD, PAD, PAD]]
    none = IGNORE_INDEX
    assert batch.labels.tolist() == [[c, EOS, e, f, g, EOS, none], [b, EOS, none, none, none, none, none]]
    assert batch.target.document_ids.tolist() == [[1, 1, 2, 2, 2, 2, 0], [1, 1, 0, 0, 0, 0, 0]]
    assert batch.target.position_ids.tolist() == [[0, 1, 0, 1, 2, 3, 0], [0, 1, 0, 0, 0, 0, 0]]
    assert batch.source.lengths.tolist() == [5, 2]


@given(sizes, st.integers(20, 50))
def test_texts_fit_into_their_rows_and_no_row_is_empty(sizes, row_length):
    row_of_text, used = best_fit(np.array(sizes), row_length)
    filled = np.bincount(row_of_text, weights=sizes, minlength=used)
    assert len(filled) == used
    assert (filled <= row_length).all()
    assert (filled > 0).all()


@given(sizes, st.integers(0, 3))
def test_every_epoch_has_each_text_once_and_the_same_number_of_batches(sizes, epoch):
    plan = PackedSampler(np.array(sizes)[:, None], 256, seed=5)
    steps = range(epoch * plan.steps_per_epoch, (epoch + 1) * plan.steps_per_epoch)
    assert sorted(np.concatenate([plan.indices_at(step) for step in steps])) == list(range(len(sizes)))
    assert [plan.epoch_of(step) for step in steps] == [epoch] * plan.steps_per_epoch


def test_epochs_differ_and_a_step_needs_only_its_number():
    lengths = np.random.default_rng(1).integers(3, 30, (500, 2))
    one, other = PackedSampler(lengths, 1024, seed=5), PackedSampler(lengths, 1024, seed=5)
    last = 3 * one.steps_per_epoch - 1
    steps = [one.indices_at(step) for step in range(last + 1)]
    assert steps[last].tolist() == other.indices_at(last).tolist()
    assert steps[0].tolist() != steps[one.steps_per_epoch].tolist()
    assert steps[0].tolist() != PackedSampler(lengths, 1024, seed=6).indices_at(0).tolist()


def test_rows_are_nearly_full_and_batches_have_one_shape():
    random = np.random.default_rng(2)
    words = ["".join(random.choice(list("abcdefg"), size)) for size in random.integers(3, 28, 2000)]
    pairs = pair_dataset([(word, word[::-1]) for word in words])
    plan = PackedSampler(pairs.lengths, 2048, seed=1)
    batches = [plan.batch(pairs, plan.indices_at(step)) for step in range(plan.steps_per_epoch)]
    assert {tuple(batch.labels.shape) for batch in batches} == {(16, 128)}
    assert sum(int(batch.label_mask.sum()) for batch in batches) > 0.9 * 2048 * plan.steps_per_epoch


def test_texts_that_do_not_fit_get_one_more_row():
    pairs = pair_dataset([("a" * 29, "b" * 29)] * 5)
    assert len(PackedSampler(pairs.lengths, 128, seed=1).batch(pairs, np.arange(5)).labels) == 2


def test_a_budget_below_one_row_is_refused():
    with pytest.raises(UserError, match=r"training\.batches=bucketed"):
        PackedSampler(np.array([[200]]), 150, seed=1)
    with pytest.raises(UserError, match="no examples"):
        PackedSampler(np.zeros((0, 1), dtype=np.int64), 150, seed=1)
