"""Puzzles: synthetic tasks with one correct target, which test the abilities of a model.

copy     b e d      ->  b e d        copy every letter
reverse  b e d      ->  d e b        ... in the opposite order
sort     7 2 9 2    ->  2 2 7 9      the first output depends on the whole input
add      27+58      ->  85           carry from column to column

Each has a `length` split with longer sources than in training: a model that has learned the rule
solves it, a model that has memorized positions does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from seq2see.core.seeds import derive_seed, generator
from seq2see.core.settings import Settings
from seq2see.data.examples import Example

SEED = 2025
LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
SIZES = {"valid": 500, "test": 500, "length": 500}

TRAIN_LENGTHS, LONG_LENGTHS = (2, 10), (11, 20)
"""The smallest and largest number of items of a sequence: in training, and in the `length` split."""
TRAIN_DIGITS, LONG_DIGITS = (1, 4), (5, 8)
"""The smallest and largest number of digits of the longer summand: in training, and in the `length` split."""


def copy(rng: np.random.Generator, size: int) -> Example:
    """Letters and the same letters."""
    letters = _items(rng, LETTERS, size)
    return _to_example(letters, letters, [(index, index) for index in range(size)])


def reverse(rng: np.random.Generator, size: int) -> Example:
    """Letters and the same letters in reverse order."""
    letters = _items(rng, LETTERS, size)
    return _to_example(letters, letters[::-1], [(index, size - 1 - index) for index in range(size)])


def sort(rng: np.random.Generator, size: int) -> Example:
    """Digits and the sorted digits; the sort is stable, so every digit is aligned to one position."""
    digits = _items(rng, DIGITS, size)
    order = sorted(range(size), key=lambda index: digits[index])
    links = sorted((index, target_index) for target_index, index in enumerate(order))
    return _to_example(digits, [digits[index] for index in order], links)


def add(rng: np.random.Generator, size: int) -> Example:
    """Two numbers and their sum; `size` is the number of digits of the longer one."""
    longer = int(rng.integers(10 ** (size - 1) if size > 1 else 0, 10**size))
    other = int(rng.integers(0, 10 ** int(rng.integers(1, size + 1))))
    first, second = (longer, other) if rng.random() < 0.5 else (other, longer)
    return Example(f"{first}+{second}", str(first + second))


def _items(rng: np.random.Generator, alphabet: str, size: int) -> list[str]:
    return [alphabet[index] for index in rng.integers(0, len(alphabet), size)]


def _to_example(source: list[str], target: list[str], links: list[tuple[int, int]]) -> Example:
    return Example(
        " ".join(source),
        " ".join(target),
        sure_links=tuple(links),
        source_words=tuple(source),
        target_words=tuple(target),
    )


PUZZLES: dict[str, Callable[[np.random.Generator, int], Example]] = {
    "copy": copy,
    "reverse": reverse,
    "sort": sort,
    "add": add,
}


class PuzzleCorpus(Settings):
    """Generated copy, reverse, sort or add tasks, with a split of longer sources than in training."""

    kind: Literal["puzzle"] = "puzzle"
    puzzle: Literal["copy", "reverse", "sort", "add"] = "copy"
    """The puzzle."""
    size: int = Field(default=20_000, ge=1, le=1_000_000)
    """The number of different training examples; the other splits do not depend on it."""

    def splits(self) -> dict[str, list[Example]]:
        """train, valid, test, and length, whose sources are longer than all of training."""
        sizes, long_sizes = (TRAIN_DIGITS, LONG_DIGITS) if self.puzzle == "add" else (TRAIN_LENGTHS, LONG_LENGTHS)
        target_sizes = {"train": self.size, **SIZES}
        splits: dict[str, list[Example]] = {name: [] for name in target_sizes}
        sources: set[str] = set()
        for examples, names in (
            (_generate(self.puzzle, sizes), ("train", "valid", "test")),
            (_generate(self.puzzle, long_sizes), ("length",)),
        ):
            while any(len(splits[name]) < target_sizes[name] for name in names):
                example = next(examples)
                name = _split_of(example) if len(names) > 1 else names[0]
                if example.source not in sources and len(splits[name]) < target_sizes[name]:
                    sources.add(example.source)
                    splits[name].append(example)
        return splits


def _generate(puzzle: str, sizes: tuple[int, int]) -> Iterator[Example]:
    rng = generator(SEED, f"puzzle {puzzle}", *sizes)
    minimum, maximum = sizes
    while True:
        yield PUZZLES[puzzle](rng, int(rng.integers(minimum, maximum + 1)))


def _split_of(example: Example) -> str:
    """The split of an example by a hash of its source, independent of the examples before it."""
    share = derive_seed(SEED, "puzzle split " + example.source) % 100
    return "valid" if share < 4 else "test" if share < 8 else "train"
