"""The user's own files, read strictly.

The format follows from the name: `.tsv` and `.txt` (columns between tabs), `.csv`, `.jsonl` and `.json`
(one object a line); two files are source lines and target lines. Each may be packed as `.gz` or `.xz`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.sources.complaints import DataReport, OnBad
from seq2see.sources.compression import bare_name
from seq2see.sources.csv_table import read_csv
from seq2see.sources.examples import Example
from seq2see.sources.json_table import read_jsonl
from seq2see.sources.tables import NAMES, Intake, Sides, read_aligned, read_tsv

TABLES: dict[str, Callable[[Path, Intake], None]] = {
    ".tsv": read_tsv,
    ".txt": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
    ".json": read_jsonl,
}


def read_pairs(paths: Sequence[Path], on_bad: OnBad | None = None) -> tuple[list[Example], DataReport]:
    """The pairs of one table or two aligned files, and the report about them; bad data raise `UserError`."""
    examples, report = look_through(paths)
    report.judge(on_bad or OnBad())
    return examples, report


def wrong_number(count: int) -> UserError:
    """Too many files, or none."""
    return UserError(
        f"Pairs are read from one file or two, not from {count}.",
        remedy="Give one table (.tsv, .csv, .jsonl), or source lines and target lines.",
    )


def look_through(
    paths: Sequence[Path], report: DataReport | None = None, names: tuple[Sides, ...] = NAMES
) -> tuple[list[Example], DataReport]:
    """The pairs that can be used, and everything there is to say about the files; nothing is judged yet.

    `names` are what the two sides may be called.
    """
    report = report or DataReport()
    intake = Intake(report, names)
    suffixes = [bare_name(path).suffix.lower() for path in paths]
    if len(paths) == 1:
        if suffixes[0] not in TABLES:
            raise UserError(
                f"The name does not say which format this is ('{suffixes[0]}').",
                where=str(paths[0]),
                remedy=f"Call it {', '.join(TABLES)}, or give two files: source lines and target lines.",
            )
        TABLES[suffixes[0]](paths[0], intake)
    elif len(paths) == 2:
        for path, suffix in zip(paths, suffixes, strict=True):
            if suffix in TABLES and suffix != ".txt":
                raise UserError(
                    "Two files are read as source lines and target lines, but this one is a table.",
                    where=str(path),
                    remedy="Give one table, or two files with one text a line.",
                )
        read_aligned(paths[0], paths[1], intake)
    else:
        raise wrong_number(len(paths))
    intake.finish()
    return intake.examples, report
