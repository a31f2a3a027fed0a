"""Random numbers as a function of their purpose: equal on all devices, and without any pattern that a test can find."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.seeds import CounterRng, splitmix64


def reference(number: int) -> int:
    """SplitMix64's finalizer in Python's integers."""
    number %= 2**64
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
    return number ^ (number >> 31)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9))
def test_the_hash_is_splitmix64_whatever_the_sign(numbers):
    assert [each % 2**64 for each in splitmix64(torch.tensor(numbers)).tolist()] == [
        reference(each) for each in numbers
    ]


def test_the_published_first_numbers_of_splitmix():
    """A generator that starts at 1234567 and counts in steps of the golden ratio returns these."""
    counters = torch.arange(1, 4) * (0x9E3779B97F4A7C15 - 2**64) + 1234567
    assert [each % 2**64 for each in splitmix64(counters).tolist()] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423,
    ]  # fmt: skip


def test_an_example_has_the_same_numbers_at_any_position():
    indices = torch.tensor([5, 900_000_000, 7, 0])
    found = CounterRng(1, 2, indices).uniform("flip", 3)
    assert torch.equal(CounterRng(1, 2, indices.flip(0)).uniform("flip", 3), found.flip(0))
    assert torch.equal(CounterRng(1, 2, indices[2:3]).uniform("flip", 3), found[2:3])


def test_seed_step_purpose_index_and_position_all_count():
    indices = torch.arange(1000)
    found = CounterRng(1, 2, indices).uniform("flip", 2)
    others = [
        CounterRng(2, 2, indices).uniform("flip", 2), CounterRng(1, 3, indices).uniform("flip", 2),
        CounterRng(1, 2, indices).uniform("shift", 2), found.roll(1, 0), found.flip(1),
    ]  # fmt: skip
    for other in others:
        assert (other == found).float().mean() < 0.01
        assert abs(torch.corrcoef(torch.stack([found.flatten(), other.flatten()]))[0, 1]) < 0.12


def test_no_number_occurs_twice():
    """Neither for two examples nor for one: among 3,000 numbers of 24 bits less than one collision is expected."""
    assert len(CounterRng(1, 2, torch.arange(1000)).uniform("any", 3).unique()) > 2990


def test_numbers_are_uniform():
    found = CounterRng(3, 1, torch.arange(100_000)).uniform("any", 2)
    assert found.min() >= 0
    assert found.max() < 1
    counts = torch.histc(found, 20, 0, 1)
    # 10,000 expected in each of 20 bins: chi-squared with 19 degrees is above 45 less than once in a thousand times.
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 45
    assert abs(torch.corrcoef(found.T)[0, 1]) < 0.015
    assert abs(torch.corrcoef(torch.stack([found[1:, 0], found[:-1, 0]]))[0, 1]) < 0.015


def test_all_integers_occur_equally_often():
    counts = CounterRng(0, 9, torch.arange(70_000)).integers("which", 7).flatten().bincount()
    assert len(counts) == 7
    assert counts.double().std() < 4 * 10_000**0.5


def test_a_step_may_be_a_tensor():
    indices = torch.arange(20)
    assert torch.equal(
        CounterRng(1, torch.tensor(7), indices).uniform("any", 2), CounterRng(1, 7, indices).uniform("any", 2)
    )


def test_a_coin_falls_on_either_side_once_a_step():
    coins = [bool(CounterRng(1, step, torch.arange(3)).coin("coin")) for step in range(400)]
    assert 150 < sum(coins) < 250
    assert coins != [bool(CounterRng(1, step, torch.arange(3)).coin("other")) for step in range(400)]
    assert sum(one != next_one for one, next_one in pairwise(coins)) > 150


def test_a_batch_in_parts_has_the_numbers_of_the_batch():
    """Rows of a batch may be split among several machines."""
    whole = CounterRng(1, 1, torch.arange(10)).uniform("any", 4)
    parts = [CounterRng(1, 1, part).uniform("any", 4) for part in torch.arange(10).split(3)]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_computes_the_same_numbers():
    indices = torch.arange(-5, 1000) * 123_456_789
    assert torch.equal(
        CounterRng(1, 2, indices.cuda()).uniform("any", 3).cpu(), CounterRng(1, 2, indices).uniform("any", 3)
    )
