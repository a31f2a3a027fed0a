"""The user's own pairs of texts, or texts with labels: TSV, CSV, JSON Lines, or two files aligned by line.

The format follows from the suffix: `.tsv` and `.txt` (columns separated by tabs), `.csv`, `.jsonl` and `.json`
(one object per line); two files are source lines and target lines. Each may be compressed as `.gz` or `.xz`.

Every format adds its pairs with `PairCollector.add`, which keeps, skips or rejects each one and counts it. No reader
omits a record by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.hold_out import check_hold_out, groups_of_pairs, hold_out
from seq2see.data.readers.aligned_files import read_aligned
from seq2see.data.readers.csv_table import DELIMITER_NAMES, CsvRecord, find_delimiter, records
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.json_table import json_rows, read_jsonl
from seq2see.data.readers.lines import Line, is_blank, read_lines, without_compression_suffix
from seq2see.data.readers.pair_collector import PairCollector, reject_column_count
from seq2see.data.readers.table_columns import SAMPLE_LINES, ColumnRule, Columns

FASTTEXT_LABEL = "__label__"
"""The mark of a label in the files of fastText."""


def usual_column_count(column_counts: Iterable[int]) -> int:
    """The most frequent number of columns, at least 2; of two equally frequent ones the smaller.

    >>> usual_column_count([3, 2, 2]), usual_column_count([1, 1]), usual_column_count([3, 3])
    (2, 2, 3)
    """
    counts = Counter(count for count in column_counts if count >= 2)
    return min(counts, key=lambda count: (-counts[count], count), default=2)


def read_tsv(path: Path, collector: PairCollector) -> None:
    """Columns separated by tabs, of which two are read, without quoting; or lines of fastText."""
    lines = read_lines(path, collector.report)
    sample = list(islice(lines, SAMPLE_LINES))
    if next((line.text for line in sample if not is_blank(line.text)), "").startswith(FASTTEXT_LABEL):
        read_fasttext(chain(sample, lines), collector)
        return
    rows = (CsvRecord(line, line.text.split("\t") if line.is_valid else None) for line in chain(sample, lines))
    _read_table(rows, collector, "\t")


def read_csv(path: Path, collector: PairCollector) -> None:
    """Fields separated by commas, semicolons or tabs, which may be quoted."""
    lines = read_lines(path, collector.report)
    sample = list(islice(lines, SAMPLE_LINES))
    delimiter = find_delimiter([line.text for line in sample])
    if delimiter != ",":
        collector.report.details.append(f"fields are separated by {DELIMITER_NAMES[delimiter]}, not by commas")
    _read_table(records(chain(sample, lines), delimiter), collector)


def _read_table(rows: Iterator[CsvRecord], collector: PairCollector, separator: str = "") -> None:
    """Add the pairs of two columns; with a `separator`, locations have the column of the cell in its line.

    A first line with the names of the columns is not an example: otherwise `label` would be learned as one of the
    labels.
    """
    sample = list(islice(rows, SAMPLE_LINES))
    usable = [row.fields for row in sample if row.fields and not is_blank("".join(row.fields))]
    usual = usual_column_count(map(len, usable))
    begins = bool(usable) and sample[0].fields is usable[0]  # else the first line is invalid, and no header
    regular = [fields for fields in usable[begins:] if len(fields) == usual]
    columns = collector.choose([*usable[:begins], *regular], _first_line(sample, collector))
    if columns is None:
        return
    header = sample.pop(0).fields if columns.header else None
    expected = len(header) if header and not separator else max(usual, max(columns.indices) + 1)
    source, target = columns.indices
    for line, fields, (column, message) in chain(sample, rows):
        if fields is None:
            if message:
                collector.report.add_issue("bare quote", line.location(column), message, text=line.text)
            collector.reject()
        elif len(fields) == expected:
            starts = tuple(
                1 + sum(len(cell) + 1 for cell in fields[:index]) if separator else 0 for index in columns.indices
            )
            collector.add((fields[source], fields[target]), (line, line), (starts[0], starts[1]))
        elif is_blank("".join(fields)):
            collector.skip(line)
        else:
            reject_column_count(collector, line, expected, len(fields))


def _first_line(sample: Sequence[CsvRecord], collector: PairCollector) -> Line:
    return sample[0].line if sample else Line(collector.report.files[-1], 0, 0, "")


def table_sample(path: Path) -> list[list[str]]:
    """The first rows of a table, without a report, for a guess of its kind."""
    report = DataReport()
    sample = list(islice(read_lines(path, report), SAMPLE_LINES))
    suffix = without_compression_suffix(path).suffix.lower()
    if suffix in (".jsonl", ".json"):
        rows = json_rows(sample)
        return [[key.rpartition(".")[2] for key in rows[0]], *rows[1:]] if rows else []
    if sample and sample[0].text.startswith(FASTTEXT_LABEL):
        return [["text", "label"]]
    delimiter = find_delimiter([line.text for line in sample]) if suffix == ".csv" else "\t"
    if suffix == ".csv":
        return [record.fields for record in records(iter(sample), delimiter) if record.fields]
    return [line.text.split(delimiter) for line in sample if line.is_valid]


def read_fasttext(lines: Iterable[Line], collector: PairCollector) -> None:
    """Lines of fastText: the label with its mark, a space, and the text."""
    collector.columns = ("text", "label")
    for line in lines:
        words = line.text.split(" ")
        labels = [word for word in words if word.startswith(FASTTEXT_LABEL)]
        if not line.is_valid:
            collector.reject()
        elif is_blank(line.text):
            collector.skip(line)
        elif len(labels) != 1:
            message = f"Expected one word that begins with {FASTTEXT_LABEL}, found {len(labels)}."
            hint = "Give each text one label; several labels of one text are not supported."
            collector.report.add_issue("wrong column count", line.location(), message, text=line.text, hint=hint)
            collector.reject()
        else:
            text = " ".join(word for word in words if word is not labels[0])
            collector.add((text, labels[0].removeprefix(FASTTEXT_LABEL)), (line, line), (0, 0))


class UserPairs(Settings):
    """Your own pairs: one table, or two files aligned by line."""

    kind: Literal["pairs"] = "pairs"
    paths: tuple[str, ...] = Field(min_length=1, max_length=2)
    """The training pairs: one .tsv, .csv or .jsonl file, or source lines and target lines."""
    valid: tuple[str, ...] = ()
    """Validation pairs; by default some of the training pairs are held out."""
    test: tuple[str, ...] = ()
    """Test pairs; by default some of the training pairs are held out."""
    on_error: Literal["error", "skip"] = "error"
    """What happens at an invalid line: stop with its location, or skip the pair and count it."""
    max_errors: int = Field(100, ge=0)
    """The most pairs that on_error = "skip" may skip; more are an error."""

    overlap: Literal["error", "leave-out", "allow"] = "error"
    """What happens if a test source is also in the training pairs: stop, leave them out of training, or allow it."""
    columns: tuple[str, ...] = Field((), max_length=2)
    """The names or numbers of the two columns that are read; by default found by their names, or by what they hold."""

    def splits(self) -> dict[str, list[Example]]:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[dict[str, list[Example]], list[DataReport]]:
        """The splits, and the data report of each reading."""
        policy = ErrorPolicy(self.on_error, self.max_errors)
        readings = self._scan()
        for reading in readings:
            if reading:
                reading[1].raise_for_errors(policy)
        train, valid, test = (reading[0] if reading else None for reading in readings)
        allow, reports = self.overlap == "allow", [reading[1] for reading in readings if reading]
        if self.overlap == "leave-out":
            train = _without_sources(train or [], [*(valid or []), *(test or [])], reports[0])
        splits = hold_out(train or [], valid, test, allow_overlap=allow, labels=self._labels, groups=self._groups)
        return splits, reports

    def check(self) -> list[DataReport]:
        """The data report of each reading, without raising an error for invalid data."""
        readings = self._scan()
        train, valid, test = (reading[0] if reading else None for reading in readings)
        hold = partial(hold_out, train or [], valid, test, allow_overlap=True, labels=self._labels, groups=self._groups)
        reports = [reading[1] for reading in readings if reading]
        check_hold_out(hold, reports[0])
        return reports

    def _scan(self) -> list[tuple[list[Example], DataReport] | None]:
        """The pairs and the report of the training, validation and test files.

        The columns of the training file are also those of the others, if their own names decide nothing.
        """
        if len(self.columns) == 1:
            hint = "Name the text and the label: --columns text=review label=sentiment."
            raise UserError("Two columns are needed, and one is named.", location="corpus.columns", hint=hint)
        rule = ColumnRule(chosen=self.columns, labeled=self.kind == "labeled", by_content=True)
        readings: list[tuple[list[Example], DataReport] | None] = []
        for files in (self.paths, self.valid, self.test):
            if not files:
                readings.append(None)
                continue
            collector = collect_pairs([Path(path) for path in files], DataReport(), rule)
            self._drop_irrelevant_issues(collector.report)
            readings.append((collector.examples, collector.report))
            rule = _for_further_files(rule, collector.choice)
        return readings

    def _drop_irrelevant_issues(self, report: DataReport) -> None:
        """Remove the issues that do not apply to data of this kind."""

    def _labels(self, example: Example) -> Collection[str]:
        """The labels of an example, which hold-out must keep in training; pairs of texts have none."""
        return ()

    def _groups(self, examples: Sequence[Example]) -> list[str]:
        """The group of each example that stays together in hold-out."""
        return groups_of_pairs(examples)


class UserLabeledTexts(UserPairs):
    """Your own texts with labels: one table, or two files aligned by line."""

    kind: Literal["labeled"] = "labeled"  # type: ignore[assignment]

    def _drop_irrelevant_issues(self, report: DataReport) -> None:
        """A label is short, whatever the length of its text."""
        report.discard_issues("length ratio")

    def _labels(self, example: Example) -> Collection[str]:
        """Its label."""
        return (example.target,)

    def _groups(self, examples: Sequence[Example]) -> list[str]:
        """Its text: a label is shared by many."""
        return [example.source for example in examples]


def _without_sources(train: Sequence[Example], held_out: Sequence[Example], report: DataReport) -> list[Example]:
    """The training examples whose sources are in no other split; the others are counted in the report."""
    sources = {example.source for example in held_out}
    kept = [example for example in train if example.source not in sources]
    if len(kept) < len(train):
        left_out = f"{len(train) - len(kept):,} of them were left out of training"
        report.details.append(f"{left_out}: their sources are also in the files of valid or test")
    return kept


TABLE_READERS: dict[str, Callable[[Path, PairCollector], None]] = {
    ".tsv": read_tsv,
    ".txt": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
    ".json": read_jsonl,
}


def read_pairs(paths: Sequence[Path], policy: ErrorPolicy | None = None) -> tuple[list[Example], DataReport]:
    """The pairs of one table or two aligned files, and the data report; invalid data raise `UserError`."""
    examples, report = scan_pairs(paths)
    report.raise_for_errors(policy or ErrorPolicy())
    return examples, report


def wrong_file_count(count: int) -> UserError:
    """The error for too many files, or none."""
    return UserError(
        f"Pairs are read from one file or two, not from {count}.",
        hint="Give one table (.tsv, .csv, .jsonl), or two files: source lines and target lines.",
    )


def _for_further_files(rule: ColumnRule, choice: Columns | None) -> ColumnRule:
    """The rule for the other splits of a table with these columns."""
    if choice is None:
        return rule
    names = (choice.names[0].lower(), choice.names[1].lower())
    return replace(rule, names=(names, *rule.names) if choice.header else rule.names, fallback=choice.indices)


def scan_pairs(
    paths: Sequence[Path], report: DataReport | None = None, rule: ColumnRule | None = None
) -> tuple[list[Example], DataReport]:
    """The pairs that can be used, and the data report with all issues, without raising an error for them."""
    collector = collect_pairs(paths, report or DataReport(), rule or ColumnRule())
    return collector.examples, collector.report


def collect_pairs(paths: Sequence[Path], report: DataReport, rule: ColumnRule) -> PairCollector:
    """All pairs of one table or two aligned files, with the columns that were read."""
    collector = PairCollector(report, rule)
    suffixes = [without_compression_suffix(path).suffix.lower() for path in paths]
    if len(paths) == 1:
        if suffixes[0] not in TABLE_READERS:
            raise UserError(
                f"The format is unknown: the file has the suffix '{suffixes[0]}'.",
                location=str(paths[0]),
                hint=f"Use one of {', '.join(TABLE_READERS)}, or give two files: source lines and target lines.",
            )
        TABLE_READERS[suffixes[0]](paths[0], collector)
    elif len(paths) == 2:
        for path, suffix in zip(paths, suffixes, strict=True):
            if suffix in TABLE_READERS and suffix != ".txt":
                raise UserError(
                    "Two files are read as source lines and target lines, but this one is a table.",
                    location=str(path),
                    hint="Give one table, or two files with one text per line.",
                )
        read_aligned(paths[0], paths[1], collector)
    else:
        raise wrong_file_count(len(paths))
    collector.finish()
    return collector
