"""What a task shows of a run, as plain data: the report draws it, and the terminal prints it.

A task returns sections of tables, figures and notes (`Task.sections`), and neither reads files nor writes HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seq2see.tasks.report_strings import TEXTS

Words = str | tuple[str, str]
"""A text of the report, in English and Chinese or the same in both."""
Tree = dict[str, Any]


@dataclass(frozen=True)
class RunResults:
    """What a run has so far; a task selects from it what its report shows."""

    recipe: Tree
    """The recipe, as in its TOML file."""
    metrics: list[Tree] = field(default_factory=list)
    """The rows of `metrics.jsonl`."""
    timing: list[Tree] = field(default_factory=list)
    """The rows of `timing.jsonl`."""
    scores: Tree = field(default_factory=dict)
    """The content of `scores.json`; empty before the evaluation."""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    """The tables of the evaluation by name, the header first."""
    documents: Tree = field(default_factory=dict)
    """The JSON documents of the run and of its evaluation by name, such as `token_losses`."""
    figures: Collection[str] = ()
    """The paths of the figures in the run folder, such as `eval/confusion.png`."""

    def rows(self, name: str, columns: int) -> list[list[str]]:
        """The rows of a table after its header; rows with another number of cells are skipped."""
        return [row for row in self.tables.get(name, [])[1:] if len(row) == columns]


@dataclass(frozen=True)
class Difference:
    """The cell of an output, in which the differences from the reference are marked."""

    output: str
    reference: str


@dataclass(frozen=True)
class ReportTable:
    """A table: the first columns are texts, the others numbers."""

    header: Sequence[Words]
    rows: Sequence[Sequence[Words | Difference]]
    text_columns: int = 1


@dataclass(frozen=True)
class NamedValues:
    """Names and their values, one below the other."""

    rows: Sequence[tuple[Words, Words]]


@dataclass(frozen=True)
class ReportFigure:
    """A figure of the run folder."""

    path: str
    name: Words
    draw: Callable[[Path], Any] | None = None
    """Draws the figure for the report; None if it exists."""


@dataclass(frozen=True)
class ReportText:
    """A paragraph."""

    text: Words
    is_note: bool = True
    """Whether it is an explanation in small print."""


@dataclass(frozen=True)
class ReportHeading:
    """A heading inside a section."""

    text: Words


@dataclass(frozen=True)
class ColoredTokens:
    """Texts with each token colored by its loss."""

    texts: Sequence[Tree]
    """For each text its `tokens` and their `losses`."""


@dataclass(frozen=True)
class CopiedLines:
    """Lines to copy, such as signatures, below a text."""

    text: Words
    lines: Sequence[str]


ReportPart = ReportTable | NamedValues | ReportFigure | ReportText | ReportHeading | ColoredTokens | CopiedLines


@dataclass(frozen=True)
class ReportSection:
    """A section of the report; it is left out if it has no parts."""

    name: str
    """Its name in links."""
    title: Words
    parts: Sequence[ReportPart]


def words(name: str, **values: str) -> tuple[str, str]:
    """A text of `report_strings.py` in both languages."""
    english, chinese = TEXTS[name]
    return english.format(**values), chinese.format(**values)


def section(name: str, *parts: ReportPart | None) -> ReportSection:
    """A section whose title is a text of `report_strings.py`; parts that are None are left out."""
    return ReportSection(name, words(name), [part for part in parts if part is not None])


def note(name: str, **values: str) -> ReportText:
    """An explanation in small print, from `report_strings.py`."""
    return ReportText(words(name, **values))


def figure_section(results: RunResults, path: str, name: str, note_name: str = "") -> ReportSection:
    """A section with one figure of the run folder and its note; empty if there is no such figure."""
    if path not in results.figures:
        return section(name)
    return section(name, ReportFigure(path, words(name)), note(f"{note_name or name}_note"))


def number_text(value: Any, digits: int = 1) -> str:
    """A score as a text; empty for a missing score. A score may be a tree with a `value`.

    >>> number_text(1234.56), number_text({"value": 0.5, "signature": "x"}, 2), number_text(None)
    ('1,234.6', '0.50', '')
    """
    number = value["value"] if isinstance(value, dict) else value
    return "" if number is None else f"{number:,.{digits}f}"


def is_number(text: str) -> bool:
    """Whether a cell of a table is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def flat_scores(scores: Tree, prefix: str = "") -> dict[str, float]:
    """All numbers of a tree of scores by path.

    >>> flat_scores({"test": {"error": 0.5, "examples": 3}, "name": "x"})
    {'test.error': 0.5, 'test.examples': 3}
    """
    found: dict[str, float] = {}
    for name, value in scores.items():
        if isinstance(value, dict):
            found |= flat_scores(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = value
    return found
