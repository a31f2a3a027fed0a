"""Strict reading of the user's own pairs of texts.

The format follows from the suffix: `.tsv` and `.txt` (columns separated by tabs), `.csv`, `.jsonl` and `.json`
(one object per line); two files are source lines and target lines. Each may be compressed as `.gz` or `.xz`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.sources.compression import without_compression_suffix
from seq2see.sources.csv_table import read_csv
from seq2see.sources.data_report import DataReport, ErrorPolicy
from seq2see.sources.examples import Example
from seq2see.sources.json_table import read_jsonl
from seq2see.sources.tables import COLUMN_NAMES, ColumnNames, PairCollector, read_aligned, read_tsv

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


def scan_pairs(
    paths: Sequence[Path], report: DataReport | None = None, names: tuple[ColumnNames, ...] = COLUMN_NAMES
) -> tuple[list[Example], DataReport]:
    """The pairs that can be used, and the data report with all issues, without raising an error for them.

    `names` are the possible names of source and target.
    """
    report = report or DataReport()
    collector = PairCollector(report, names)
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
    return collector.examples, report
