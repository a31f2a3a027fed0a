"""`UserError`, the error for mistakes of a user, and helpers that suggest the correct word.

Everything that a user can get wrong (a misspelled name, a broken file, a full disk) is reported as a `UserError`: what
happened, where, and what to do about it. The command line prints it in a line or two and exits with code 2. Any other
exception that reaches the user is a bug in seq2see.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """A mistake of the user: `message` is what happened, `location` is where, `hint` is what to do about it."""

    def __init__(self, message: str, *, location: str = "", hint: str = ""):
        super().__init__(message, location, hint)
        self.message, self.location, self.hint = message, location, hint

    def __str__(self) -> str:
        location = f"{self.location}: " if self.location else ""
        hint = f" {self.hint}" if self.hint else ""
        return printable(f"{location}{self.message}{hint}")


_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters except the line break, and those that change the direction of writing."""


def printable(text: str) -> str:
    r"""A text for a terminal: control characters, say in a file name, are escapes, so that no terminal obeys them.

    >>> print(printable("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def closest_match(word: str, words: Iterable[str]) -> str | None:
    """The valid word that is most similar to a misspelled or shortened one, if any is similar enough.

    >>> closest_match("widht", ["width", "depth"])
    'width'
    >>> closest_match("rate", ["batches", "learning_rate"])
    'learning_rate'
    """
    words = list(words)
    misspelled = difflib.get_close_matches(word, words, n=1, cutoff=0.8)
    shortened = [each for each in words if word in each.split("_")]
    matches = misspelled or shortened or difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return matches[0] if matches else None


def unknown_name(kind: str, word: str, words: Iterable[str], *, location: str = "") -> UserError:
    """The error for a name that is not in a list of valid names, with the closest match.

    >>> print(unknown_name("setting", "widht", ["width", "depth"]))
    There is no setting 'widht'. Did you mean 'width'?
    """
    words = sorted(words)
    match = closest_match(word, words)
    hint = f"Did you mean '{match}'?" if match else f"There are: {', '.join(words)}."
    return UserError(f"There is no {kind} '{word}'.", location=location, hint=hint)


def missing_file(path: Path) -> UserError:
    """The error for a file that does not exist, with the most similar file name in its folder."""
    names = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    match = closest_match(path.name, names)
    hint = f"Did you mean '{path.with_name(match)}'?" if match else "Check the path."
    return UserError("There is no such file.", location=str(path), hint=hint)


def require_packages(extra: str, *packages: str) -> None:
    """Raise an error with the command that installs it if an optional package is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise UserError(
            f"This needs the package {missing[0]}, which is not installed.",
            hint=f'Install it with `pip install "seq2see[{extra}]"`.',
        )
