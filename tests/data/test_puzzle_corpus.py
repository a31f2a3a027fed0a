"""The puzzles: correct targets and links, and splits without overlap."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.data.generated.puzzle_corpus import PUZZLES, PuzzleCorpus

NAMES = list(PUZZLES)


def example_of(puzzle: str, seed: int, size: int):
    return PUZZLES[puzzle](np.random.default_rng(seed), size)


@pytest.fixture(scope="module", params=NAMES)
def corpus(request):
    return request.param, PuzzleCorpus(puzzle=request.param, size=3_001).splits()


@given(st.sampled_from(["copy", "reverse", "sort"]), st.integers(0, 99), st.integers(1, 23))
def test_the_target_is_what_python_computes(puzzle, seed, size):
    example = example_of(puzzle, seed, size)
    items = example.source.split(" ")
    references = {"copy": items, "reverse": list(reversed(items)), "sort": sorted(items)}
    assert len(items) == size
    assert example.target.split(" ") == references[puzzle]


@given(st.sampled_from(["copy", "reverse", "sort"]), st.integers(0, 99), st.integers(1, 23))
def test_linked_items_are_equal_and_everything_is_linked_once(puzzle, seed, size):
    example = example_of(puzzle, seed, size)
    assert all(example.source_words[a] == example.target_words[b] for a, b in example.sure_links)
    assert sorted(a for a, _ in example.sure_links) == sorted(b for _, b in example.sure_links) == list(range(size))


def test_reversing_links_the_first_with_the_last():
    assert example_of("reverse", 5, 3).sure_links == ((0, 2), (1, 1), (2, 0))


def test_equal_digits_keep_their_order_when_sorted():
    example = next(e for e in PuzzleCorpus(puzzle="sort", size=500).splits()["train"] if e.source == "3 3")
    assert example.sure_links == ((0, 0), (1, 1))


@given(st.integers(0, 99), st.integers(1, 8))
def test_sums_are_right_and_the_longer_number_has_the_given_number_of_digits(seed, size):
    example = example_of("add", seed, size)
    first, second = example.source.split("+")
    assert int(first) + int(second) == int(example.target)
    assert max(len(first), len(second)) == size


def test_splits_have_their_sizes_and_share_no_source(corpus):
    _, splits = corpus
    assert {name: len(examples) for name, examples in splits.items()} == {
        "train": 3_001, "valid": 500, "test": 500, "length": 500,
    }  # fmt: skip
    sources = [example.source for examples in splits.values() for example in examples]
    assert len(set(sources)) == len(sources)


def test_the_length_split_is_longer_than_anything_in_training(corpus):
    puzzle, splits = corpus

    def size(example):
        return max(map(len, example.source.split("+"))) if puzzle == "add" else len(example.source_words)

    short = {size(example) for name in ("train", "valid", "test") for example in splits[name]}
    long = {size(example) for example in splits["length"]}
    assert (short, long) == (
        ({*range(1, 5)}, {*range(5, 9)}) if puzzle == "add" else ({*range(2, 11)}, {*range(11, 21)})
    )


def test_the_other_splits_do_not_depend_on_the_size_of_training(corpus):
    puzzle, splits = corpus
    smaller = PuzzleCorpus(puzzle=puzzle, size=101).splits()
    assert smaller["train"] == splits["train"][:101]
    assert all(smaller[name] == splits[name] for name in ("valid", "test", "length"))


def test_the_splits_are_fixed_once_and_for_all():
    splits = PuzzleCorpus(puzzle="add", size=1).splits()
    # Another version of seq2see must test on the same examples.
    ends = {name: (splits[name][0].source, splits[name][-1].source) for name in ("valid", "test", "length")}
    assert ends == {
        "valid": ("9403+2", "9754+1567"),
        "test": ("95+695", "292+8232"),
        "length": ("769978+5", "19313+71490"),
    }


def test_a_misspelled_puzzle_is_a_clear_error():
    with pytest.raises(UserError, match="puzzle"):
        read_tree(PuzzleCorpus, {"puzzle": "revers"})
