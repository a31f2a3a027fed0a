"""Bucketing: every example once, within the budget, in few shapes, and reproducible."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.errors import UserError
from seq2see.data.pair_dataset import WIDTHS, BucketSampler, epoch_batches, padded_width

some_lengths = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=60).map(np.array)


def plan(lengths, tokens=64, seed=3, epoch=0):
    return [batch.tolist() for batch in epoch_batches(lengths, tokens, seed, epoch)]


@given(lengths=some_lengths, tokens=st.integers(1, 2000), epoch=st.integers(0, 3))
def test_every_example_is_in_exactly_one_batch_within_the_budget(lengths, tokens, epoch):
    batches = plan(lengths, tokens, epoch=epoch)
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    for batch in batches:
        widths = set(padded_width(lengths[batch].max(axis=1)).tolist())
        assert len(widths) == 1
        assert len(batch) == 1 or len(batch) * widths.pop() <= tokens


@given(lengths=some_lengths, tokens=st.integers(1, 2000))
def test_every_epoch_has_the_same_number_of_batches_of_the_same_shapes(lengths, tokens):
    def shapes(epoch):
        batches = epoch_batches(lengths, tokens, 1, epoch)
        return sorted((len(batch), int(padded_width(int(lengths[batch].max())))) for batch in batches)

    assert shapes(0) == shapes(1) == shapes(2)


def test_batches_by_hand():
    # Longer sides 5, 8 | 9, 16, 12 | 30: buckets of width 8, 16 and 32; 32 tokens hold 4, 2 and 1 rows.
    lengths = np.array([[5, 2], [3, 8], [9, 9], [1, 16], [12, 4], [30, 30]])
    batches = plan(lengths, tokens=32)
    assert sorted(map(len, batches)) == [1, 1, 2, 2]
    assert {0, 1} in [set(batch) for batch in batches]
    assert [5] in batches
    assert set().union(*(batch for batch in batches if set(batch) <= {2, 3, 4})) == {2, 3, 4}


def test_an_example_longer_than_the_budget_is_a_batch_of_its_own():
    batches = plan(np.array([[100, 5], [5, 100], [6, 6], [5, 5]]), tokens=20)
    assert sorted(map(sorted, batches)) == [[0], [1], [2, 3]]


def test_one_side_is_enough():
    assert sorted(number for batch in plan(np.array([3, 9, 4])) for number in batch) == [0, 1, 2]


def test_the_order_is_a_function_of_seed_and_epoch():
    lengths = np.random.default_rng(0).integers(1, 30, (97, 2))
    assert plan(lengths, seed=3, epoch=2) == plan(lengths, seed=3, epoch=2)
    different = [plan(lengths, seed=seed, epoch=epoch) for seed in (3, 4) for epoch in (0, 1)]
    assert len({str(batches) for batches in different}) == 4
    # The batches are in another order, and their contents differ, too.
    together = [{frozenset(batch) for batch in batches} for batches in different]
    assert together[0] != together[1]


def test_lengths_are_mixed_over_the_epoch():
    lengths = np.repeat(np.arange(1, 65), 20)
    widths = [int(lengths[batch].max()) for batch in epoch_batches(lengths, 64, 1, 0)]
    assert widths != sorted(widths)
    early, late = np.mean(widths[: len(widths) // 2]), np.mean(widths[len(widths) // 2 :])
    assert abs(early - late) < 5


def test_widths_are_few_and_multiples_of_four():
    assert WIDTHS[:14].tolist() == [4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96]
    assert not (WIDTHS % 4).any()
    assert (np.diff(WIDTHS) > 0).all()
    assert padded_width(np.array([1, 8, 9, 33, 64, 65, 128, 129])).tolist() == [4, 8, 12, 40, 64, 80, 128, 160]


def test_the_batch_of_a_step_needs_only_its_number():
    lengths = np.random.default_rng(1).integers(1, 40, (53, 2))
    whole = BucketSampler(lengths, 128, seed=5)
    steps = list(islice(whole.steps(), 3 * whole.steps_per_epoch))
    assert [step.number for step in steps] == list(range(3 * whole.steps_per_epoch))
    assert [(step.epoch, step.position) for step in steps] == [
        (e, p) for e in range(3) for p in range(whole.steps_per_epoch)
    ]
    for epoch in range(3):
        indices = [step.indices for step in steps if step.epoch == epoch]
        assert sorted(np.concatenate(indices).tolist()) == list(range(53))
    assert [step.indices.tolist() for step in steps[: whole.steps_per_epoch]] == plan(lengths, 128, seed=5, epoch=0)
    assert [step.indices.tolist() for step in steps[-whole.steps_per_epoch :]] == plan(lengths, 128, seed=5, epoch=2)
    start = whole.steps_per_epoch + 2
    resumed = islice(BucketSampler(lengths, 128, seed=5).steps(start), 20)
    for old, new in zip(steps[start:], resumed, strict=False):
        assert (old.number, old.epoch, old.position) == (new.number, new.epoch, new.position)
        assert old.indices.tolist() == new.indices.tolist()
    assert whole.batch_at(3).indices.tolist() == steps[3].indices.tolist()  # an earlier step can be computed, too


def test_no_examples_and_no_budget_are_errors():
    with pytest.raises(UserError, match="no examples"):
        BucketSampler(np.zeros((0, 2), dtype=np.int64), 100, 1)
    with pytest.raises(UserError, match="cannot hold 0 tokens"):
        BucketSampler(np.ones((3, 2), dtype=np.int64), 0, 1)


@given(lengths=some_lengths, tokens=st.integers(1, 2000))
def test_the_batches_of_a_bucket_have_about_the_same_number_of_rows(lengths, tokens):
    buckets = BucketSampler(lengths, tokens, seed=2)
    rows = {}
    for step in islice(buckets.steps(), buckets.steps_per_epoch):
        assert lengths[step.indices].max() <= step.width
        assert step.rows == 1 or step.rows * step.width <= tokens
        rows.setdefault((step.width, step.rows), []).append(len(step.indices))
    assert len(rows) == len({width for width, _ in rows})
    for (_, max_rows), counts in rows.items():
        # Padding rows cost less than a row for each batch.
        assert max(counts) == max_rows
        assert max_rows * len(counts) - sum(counts) < len(counts)


def test_there_are_no_more_batches_than_the_budget_requires():
    # 21 rows of width 8 and a budget of 10 rows: three batches, of 7 rows each rather than 10, 10 and 1.
    assert [len(batch) for batch in epoch_batches(np.full((21, 2), 8), 80, 1, 0)] == [7, 7, 7]
    assert sorted(len(batch) for batch in epoch_batches(np.full((23, 2), 8), 80, 1, 0)) == [7, 8, 8]
