"""Puzzle talk: generated questions in words, each with one correct answer that a program can check.

    user       add 2 7 and 5 8           user       put 7 2 9 2 in order
    assistant  8 5                       assistant  2 2 7 9

    user       which task is this: put 7 2 9 2 in order
    assistant  sort

The puzzles `add`, `reverse` and `sort` are for the training of a base model, `subtract`, `rotate` and `descend` for
experts on something new. `name` is a question about a question: which puzzle is it? All have the same splits in every
mixture: those of a puzzle do not depend on the others. A puzzle belongs to one split in all its wordings, and also
inside a question of `name`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice
from typing import Literal

import numpy as np
from pydantic import Field

from seq2see.core.seeds import derive_seed, generator
from seq2see.core.settings import Settings
from seq2see.data.dialogue import Dialogue, Message
from seq2see.data.examples import Example

SEED = 2027
HELD_OUT_SIZES = {"valid": 100, "test": 200}
"""The number of questions of each puzzle in the other splits."""
HELD_OUT_SHARES = {"test": 10, "valid": 5}
"""Of 100 puzzles, how many belong to each held-out split."""
LETTERS, DIGITS = "abcdefghijklmnopqrst", "0123456789"
MIN_ITEMS, MAX_ITEMS = 4, 8
"""The smallest and the largest number of letters or digits of a list."""
LARGEST_NUMBER = 69
NAMING_QUESTION = "which task is this: {question}"
"""The question about a question, which prompt dispatch uses too (`runs/dispatch.py`)."""

PuzzleName = Literal["add", "reverse", "sort", "subtract", "rotate", "descend", "name"]
NUMBER_PUZZLES: tuple[PuzzleName, ...] = ("add", "subtract")
LETTER_PUZZLES: tuple[PuzzleName, ...] = ("reverse", "rotate")
WORDINGS: dict[PuzzleName, tuple[str, ...]] = {
    "add": ("add {} and {}", "what is {} plus {}?", "{} + {}"),
    "subtract": ("from {} subtract {}", "what is {} minus {}?", "{} - {}"),
    "reverse": ("reverse {}", "write {} backwards", "turn {} around"),
    "rotate": ("rotate {}", "write {} with the first at the end", "move the first of {} behind the last"),
    "sort": ("sort {}", "put {} in order", "write {} from small to large"),
    "descend": ("sort {} downwards", "put {} in falling order", "write {} from large to small"),
}
"""The wordings of each puzzle; `{}` is a list or a number."""


@dataclass(frozen=True)
class Puzzle:
    """One puzzle, without its wording."""

    name: PuzzleName
    parts: tuple[str, ...]
    answer: str

    @property
    def split(self) -> str:
        """The split of a puzzle by a hash of its content, the same in every wording and in every mixture."""
        share = derive_seed(SEED, f"puzzle talk split {self.name} {'/'.join(self.parts)}") % 100
        test = HELD_OUT_SHARES["test"]
        return "test" if share < test else "valid" if share < test + HELD_OUT_SHARES["valid"] else "train"


class PuzzleTalk(Settings):
    """Generated questions with one checkable answer each: adding, reversing, sorting, and naming the task."""

    kind: Literal["puzzles"] = "puzzles"
    puzzles: tuple[PuzzleName, ...] = Field(("add", "reverse", "sort", "name"), min_length=1)
    """The puzzles; one that is named twice has twice the share of the training questions."""
    size: int = Field(12_000, ge=1, le=1_000_000)
    """The number of training questions; the other splits do not depend on it."""

    def splits(self) -> dict[str, list[Example]]:
        """train, valid and test: no puzzle is in two splits."""
        streams = {name: _questions(name, "train") for name in self.puzzles}
        train: list[Example] = [next(streams[name]) for name in islice(cycle(self.puzzles), self.size)]
        splits = {"train": train}
        for split, size in HELD_OUT_SIZES.items():
            questions = [islice(_questions(name, split), size) for name in streams]
            splits[split] = list(chain.from_iterable(zip(*questions, strict=True)))
        return splits


def solve(name: PuzzleName, items: list[str]) -> str:
    """The answer to a puzzle of a list.

    >>> solve("descend", ["7", "2", "9"]), solve("rotate", ["b", "e", "d"])
    ('9 7 2', 'e d b')
    """
    answers = {
        "reverse": items[::-1],
        "rotate": [*items[1:], items[0]],
        "sort": sorted(items),
        "descend": sorted(items, reverse=True),
    }
    return " ".join(answers[name])


def _puzzle(name: PuzzleName, rng: np.random.Generator) -> Puzzle:
    if name in NUMBER_PUZZLES:
        first, second = (int(each) for each in rng.integers(0, LARGEST_NUMBER + 1, 2))
        if name == "subtract":
            first, second = max(first, second), min(first, second)
        result = first + second if name == "add" else first - second
        return Puzzle(name, (spaced(first), spaced(second)), spaced(result))
    alphabet = LETTERS if name in LETTER_PUZZLES else DIGITS
    count = int(rng.integers(MIN_ITEMS, MAX_ITEMS + 1))
    items = [alphabet[index] for index in rng.integers(0, len(alphabet), count)]
    return Puzzle(name, (" ".join(items),), solve(name, items))


def spaced(number: int) -> str:
    """The digits of a number as separate words: each is a token.

    >>> spaced(85)
    '8 5'
    """
    return " ".join(str(number))


def _questions(name: PuzzleName, split: str) -> Iterator[Dialogue]:
    """Questions of one puzzle that belong to a split; those of held-out splits are all different."""
    rng = generator(SEED, f"puzzle talk {name} {split}")
    found: set[tuple[str, ...]] = set()
    while True:
        kind = name if name != "name" else list(WORDINGS)[int(rng.integers(len(WORDINGS)))]
        puzzle = _puzzle(kind, rng)
        wording = WORDINGS[kind][int(rng.integers(len(WORDINGS[kind])))]
        key = (kind, *puzzle.parts)
        if puzzle.split != split or (split != "train" and key in found):
            continue
        found.add(key)
        question, answer = wording.format(*puzzle.parts), puzzle.answer
        if name == "name":
            question, answer = NAMING_QUESTION.format(question=question), kind
        yield replace(Dialogue.of([Message("user", question), Message("assistant", answer)]), topic=name)
