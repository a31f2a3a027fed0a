"""Pairs of texts from TSV and from two files aligned by line. (CSV and JSON have pages of their own.)

Whatever the format, a pair goes through the same door, `PairCollector.add`, which keeps, skips or rejects it and
writes that down. A reader never decides alone to leave something out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain, islice, zip_longest
from math import log
from pathlib import Path
from statistics import median

from seq2see.sources.data_report import DataReport
from seq2see.sources.examples import Example
from seq2see.sources.lines import Line, file_name, is_blank, read_lines
from seq2see.sources.text_checks import TextChecker

ColumnNames = tuple[str, str]
DEFAULT_COLUMNS = ("source", "target")
IMAGE_COLUMN_NAMES = ("file", "path", "image", "file_name", "filename", "video")
IMAGE_COLUMNS = tuple((image, said) for said in ("label", "caption") for image in IMAGE_COLUMN_NAMES)
"""What the columns of a list of images may be called."""
COLUMN_NAMES: tuple[ColumnNames, ...] = (DEFAULT_COLUMNS, ("text", "label"), ("sentence", "label"), *IMAGE_COLUMNS)
"""What the two sides may be called, in a header and as keys; without either they are called as the first."""

SAMPLE_LINES = 1000
"""How many lines decide how many columns a table has, so that one bad first line does not."""


class PairCollector:
    """The door to the corpus: read = kept + skipped + rejected holds after every pair."""

    def __init__(self, report: DataReport, names: tuple[ColumnNames, ...] = COLUMN_NAMES):
        self.report, self.names = report, names
        self.examples: list[Example] = []
        self.checker = TextChecker(report)
        self.columns = names[0]  # what the two are called, unless a file says otherwise
        self.counts_before = len(report.files), report.count_severity("error")

    def reject(self) -> None:
        """A record that cannot be used; what is wrong with it has been said."""
        self.report.read += 1
        self.report.rejected += 1

    def skip(self, line: Line) -> None:
        """A record with nothing in it."""
        self.report.read += 1
        self.report.skipped += 1
        self.report.add_issue("blank pair", line.place(), "Both sides are empty.", text=line.text)

    def add(self, texts: tuple[str, str], lines: tuple[Line, Line], columns: tuple[int, int]) -> None:
        """Keep a pair if both sides hold something; `columns` say where they start, 0 if that is unknown."""
        source, target = texts
        no_source, no_target = is_blank(source), is_blank(target)
        if no_source and no_target:
            self.skip(lines[0])
        elif no_source or no_target:
            side = 0 if no_source else 1
            what = f"The {self.columns[side]} is empty."
            self.report.add_issue("empty side", lines[side].place(columns[side]), what, text=lines[side].text)
            self.reject()
        else:
            place = f"{lines[0].file}:{lines[0].number}"
            self.examples.append(Example(source, target, place=place))
            self.report.read += 1
            self.report.kept += 1
            self.checker.check_text(source, lines[0], columns[0])
            self.checker.check_text(target, lines[1], columns[1])
            self.checker.check_pair(source, target, lines[0], place)

    def finish(self) -> None:
        """Say what only the whole corpus shows; a report may know of other files, with errors of their own."""
        self.checker.finish()
        files, errors = self.counts_before
        if not self.examples and self.report.count_severity("error") == errors:
            location = Line(self.report.files[files], 0, 0, "").place()
            one = "pair of texts" if self.report.unit == "pairs" else self.report.unit.removesuffix("s")
            self.report.add_issue("no pairs", location, f"There is not one {one} in it.")


def find_columns(names: Collection[str], known: Iterable[ColumnNames] = COLUMN_NAMES) -> ColumnNames | None:
    """What the two sides are called here, if all these names are of columns; of several the first that is known.

    >>> sides_among(["id", "label", "text"]), sides_among(["text", "Quelle"])
    (('text', 'label'), None)
    """
    return next((columns for columns in known if set(columns) <= set(names)), None)


def find_source_column(names: Collection[str], known: Iterable[ColumnNames] = COLUMN_NAMES) -> ColumnNames | None:
    """What the two sides are called where only the first of them is there.

    >>> half_named(["id", "image"]), half_named(["label"])
    (('image', 'label'), None)
    """
    return next((columns for columns in known if columns[0] in names), None)


def usual_column_count(numbers: Iterable[int]) -> int:
    """The number of columns that most records have, at least 2; of two equally frequent ones the smaller.

    >>> usual_number([3, 2, 2]), usual_number([1, 1]), usual_number([3, 3])
    (2, 2, 3)
    """
    counts = Counter(number for number in numbers if number >= 2)
    return min(counts, key=lambda number: (-counts[number], number), default=2)


def read_tsv(path: Path, collector: PairCollector) -> None:
    """Columns between tabs: source, target, and further ones that are ignored (attributions). No quoting.

    A first line that names these two is left out: else `label` would be learned as one of the labels. Where it names
    others that are looked for before them, such as a caption behind a label, those are read.
    """
    lines = read_lines(path, collector.report)
    sample = list(islice(lines, SAMPLE_LINES))
    named, places = [cell.strip().lower() for cell in sample[0].text.split("\t")] if sample else [], (0, 1)
    if tuple(named[:2]) in collector.names and (columns := find_columns(named, collector.names)):
        collector.columns, places = columns, (named.index(columns[0]), named.index(columns[1]))
        sample.pop(0)
    usual = usual_column_count(
        line.text.count("\t") + 1 for line in sample if line.is_valid and not is_blank(line.text)
    )
    expected = max(usual, max(places) + 1)
    for line in chain(sample, lines):
        text = line.text
        if not line.is_valid:
            collector.reject()
        elif (found := text.count("\t") + 1) == expected:
            collector.add(*_cells(line, places))
        elif is_blank(text):
            collector.skip(line)
        else:
            reject_column_count(collector, line, expected, found)


def _cells(line: Line, places: tuple[int, int]) -> tuple[tuple[str, str], tuple[Line, Line], tuple[int, int]]:
    """The two cells at these places, and where each begins."""
    cells = line.text.split("\t", max(places) + 1)
    first, second = (1 + sum(len(cell) + 1 for cell in cells[:place]) for place in places)
    return (cells[places[0]], cells[places[1]]), (line, line), (first, second)


def reject_column_count(collector: PairCollector, line: Line, expected: int, found: int) -> None:
    """Reject a record with too few or too many columns."""
    what = f"Expected {expected} columns, found {found}."
    collector.report.add_issue("wrong column count", line.place(), what, text=line.text)
    collector.reject()


def read_aligned(source: Path, target: Path, collector: PairCollector) -> None:
    """Two files, line n of the one translating line n of the other; a missing line is never made up for."""
    lengths: tuple[list[int], list[int]] = ([], [])
    pairs = zip_longest(read_lines(source, collector.report), read_lines(target, collector.report))
    for one, other in pairs:
        for line, side in zip((one, other), lengths, strict=True):
            if line is not None:
                side.append(len(line.text))
        if one is None or other is None or not (one.is_valid and other.is_valid):
            collector.reject()
        else:
            collector.add((one.text, other.text), (one, other), (1, 1))
    names = file_name(source), file_name(target)
    counts = len(lengths[0]), len(lengths[1])
    if counts[0] != counts[1] and not any(collector.report.is_invalid(name) for name in names):
        number = divergence_line(*lengths)
        what = (
            f"{names[0]} has {counts[0]:,} lines and {names[1]} has {counts[1]:,}; "
            f"by their lengths the lines part company at about line {number:,}."
        )
        collector.report.add_issue("line counts differ", Line(names[0], number, 0, "").place(), what)


def divergence_line(source: list[int], target: list[int]) -> int:
    """Guess the line where one file lost (or won) lines, from the lengths of all lines.

    Suppose that all the missing lines are missing at one place: before it line i matches line i, after it
    the longer file is ahead. Of all places, take the one where matched lines differ least in (log) length.

    >>> parting_line([10, 50, 10, 90, 20], [10, 10, 90, 20])
    2
    """
    short, long = sorted((source, target), key=len)
    usual = log((sum(long) / len(long) + 1) / (sum(short) / len(short) + 1))
    place = 0
    # Each place tells better how much longer one language is, which finds a better place.
    for _ in range(3):
        place = _best_offset(short, long, usual)
        ahead = len(long) - len(short)
        partners = long[:place] + long[place + ahead :]
        usual = median(_log_length_ratio(one, other) for one, other in zip(short, partners, strict=True))
    return place + 1


def _log_length_ratio(one: int, other: int) -> float:
    return log((other + 1) / (one + 1))


def _best_offset(short: list[int], long: list[int], usual: float) -> int:
    """How many lines match from the start, for the stretch of all matched lines to be as usual as can be."""
    ahead = len(long) - len(short)
    after = (abs(_log_length_ratio(one, other) - usual) for one, other in zip(short, long[ahead:], strict=True))
    cost = best = sum(after)
    place = 0
    for index, one in enumerate(short):  # moving the place one line down changes the partner of one line
        cost += abs(_log_length_ratio(one, long[index]) - usual) - abs(
            _log_length_ratio(one, long[index + ahead]) - usual
        )
        if cost < best - 1e-9:
            best, place = cost, index + 1
    return place
