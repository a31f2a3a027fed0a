"""The one error a user can cause, and the help it gives.

Everything a user can get wrong (a misspelt word, a broken file, a full disk) is reported as a
`UserError`: what happened, where, and what to do about it. The command line prints it in a line or
two and leaves with code 2. Any other exception that reaches the user is a bug in seq2see.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """What happened, where, and what to do about it."""

    def __init__(self, what: str, *, where: str = "", remedy: str = ""):
        super().__init__(what, where, remedy)
        self.what, self.where, self.remedy = what, where, remedy

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" {self.remedy}" if self.remedy else ""
        return f"{place}{self.what}{advice}"


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The right word that looks most like a misspelt one, if any comes close.

    >>> nearest("widht", ["width", "depth"])
    'width'
    """
    matches = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return matches[0] if matches else None


def unknown(kind: str, word: str, words: Iterable[str], *, where: str = "") -> UserError:
    """The error for a word that is not in a closed list, with the nearest right word.

    >>> print(unknown("setting", "widht", ["width", "depth"]))
    There is no setting 'widht'. Did you mean 'width'?
    """
    words = sorted(words)
    close = nearest(word, words)
    remedy = f"Did you mean '{close}'?" if close else f"There are: {', '.join(words)}."
    return UserError(f"There is no {kind} '{word}'.", where=where, remedy=remedy)


def no_file(path: Path) -> UserError:
    """The error for a file that is not there, with the name in its folder that looks most like it."""
    neighbours = [neighbour.name for neighbour in path.parent.iterdir()] if path.parent.is_dir() else []
    close = nearest(path.name, neighbours)
    remedy = f"Did you mean '{path.with_name(close)}'?" if close else "Check the path."
    return UserError("There is no such file.", where=str(path), remedy=remedy)
