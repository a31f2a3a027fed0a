"""The one error a user can cause, and the help it gives.

Everything a user can get wrong (a misspelled word, a broken file, a full disk) is reported as a
`UserError`: what happened, where, and what to do about it. The command line prints it in a line or
two and leaves with code 2. Any other exception that reaches the user is a bug in seq2see.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """What happened, where, and what to do about it."""

    def __init__(self, message: str, *, location: str = "", hint: str = ""):
        super().__init__(message, location, hint)
        self.message, self.location, self.hint = message, location, hint

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        advice = f" {self.hint}" if self.hint else ""
        return f"{place}{self.message}{advice}"


def closest_match(word: str, words: Iterable[str]) -> str | None:
    """The right word that looks most like a misspelled one, if any comes close.

    >>> nearest("widht", ["width", "depth"])
    'width'
    """
    matches = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return matches[0] if matches else None


def unknown_name(kind: str, word: str, words: Iterable[str], *, location: str = "") -> UserError:
    """The error for a word that is not in a closed list, with the nearest right word.

    >>> print(unknown("setting", "widht", ["width", "depth"]))
    There is no setting 'widht'. Did you mean 'width'?
    """
    words = sorted(words)
    close = closest_match(word, words)
    hint = f"Did you mean '{close}'?" if close else f"There are: {', '.join(words)}."
    return UserError(f"There is no {kind} '{word}'.", location=location, hint=hint)


def missing_file(path: Path) -> UserError:
    """The error for a file that is not there, with the name in its folder that looks most like it."""
    neighbors = [neighbor.name for neighbor in path.parent.iterdir()] if path.parent.is_dir() else []
    close = closest_match(path.name, neighbors)
    hint = f"Did you mean '{path.with_name(close)}'?" if close else "Check the path."
    return UserError("There is no such file.", location=str(path), hint=hint)
