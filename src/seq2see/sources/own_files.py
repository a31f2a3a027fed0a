"""The user's own files, read strictly and divided into train, valid and test.

The format follows from the name: `.tsv` and `.txt` (columns between tabs), `.csv`, `.jsonl` and `.json`
(one object a line); two files are source lines and target lines. Each may be packed as `.gz` or `.xz`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.sources.complaints import DataReport, OnBad
from seq2see.sources.compression import bare_name
from seq2see.sources.csv_table import read_csv
from seq2see.sources.examples import Example
from seq2see.sources.json_table import read_jsonl
from seq2see.sources.tables import Intake, read_aligned, read_tsv

TABLES: dict[str, Callable[[Path, Intake], None]] = {
    ".tsv": read_tsv,
    ".txt": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
    ".json": read_jsonl,
}

HELD_OUT = 0.05
"""The share of the examples that becomes each of valid and test: 5 %, ..."""

MOST_HELD_OUT = 1000
"""... at least one and at most 1,000."""


def read_pairs(paths: Sequence[Path], on_bad: OnBad | None = None) -> tuple[list[Example], DataReport]:
    """The pairs of one table or two aligned files, and the report about them; bad data raise `UserError`."""
    examples, report = _read(paths)
    report.judge(on_bad or OnBad())
    return examples, report


def check(paths: Sequence[Path]) -> DataReport:
    """Everything there is to say about files, without stopping at what is wrong with the data in them."""
    return _read(paths)[1]


def _read(paths: Sequence[Path]) -> tuple[list[Example], DataReport]:
    report = DataReport()
    intake = Intake(report)
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
        raise UserError(
            f"Pairs are read from one file or two, not from {len(paths)}.",
            remedy="Give one table (.tsv, .csv, .jsonl), or source lines and target lines.",
        )
    intake.finish()
    return intake.examples, report


def hold_out(
    examples: Sequence[Example],
    valid: Sequence[Example] | None = None,
    test: Sequence[Example] | None = None,
    *,
    allow_overlap: bool = False,
) -> dict[str, list[Example]]:
    """Divide examples into train, valid and test; what is given as valid or test is used as it is.

    What is held out depends on the texts alone: sources are put in the order of a hash, test is taken from
    its beginning and valid from its end, so growing data hardly change who is where. Examples with
    the same source stay together: no held-out source is learnt from.
    """
    groups: dict[str, list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault(example.source, []).append(index)
    needed = 1 + (valid is None) + (test is None)
    if len(groups) < needed:
        raise UserError(
            f"There are {len(groups)} different sources, and at least {needed} are needed: "
            "one each to train, to validate and to test on.",
            remedy="Give more pairs, or files for valid and test.",
        )
    order = sorted(groups, key=lambda source: hashlib.blake2b(source.encode(), digest_size=16).digest())
    wanted = min(max(round(HELD_OUT * len(examples)), 1), MOST_HELD_OUT)
    place = dict.fromkeys(order, "train")
    if test is None:
        place.update(dict.fromkeys(_first_fitting(order, groups, wanted), "test"))
    if valid is None:
        free = [source for source in reversed(order) if place[source] == "train"]
        place.update(dict.fromkeys(_first_fitting(free, groups, wanted), "valid"))
    splits: dict[str, list[Example]] = {"train": [], "valid": list(valid or []), "test": list(test or [])}
    for example in examples:
        splits[place[example.source]].append(example)
    if test is not None and not allow_overlap:
        _check_overlap(splits["train"], test)
    return splits


def _first_fitting(order: Sequence[str], groups: dict[str, list[int]], wanted: int) -> list[str]:
    """Sources in order, as long as their examples fit into the number wanted; at least one source."""
    chosen: list[str] = []
    room = wanted
    for source in order:
        if len(groups[source]) <= room:
            chosen.append(source)
            room -= len(groups[source])
        if not room:
            break
    return chosen or [min(order, key=lambda source: len(groups[source]))]


def _check_overlap(train: Sequence[Example], test: Sequence[Example]) -> None:
    """A test source that was learnt from makes the score a lie."""
    learnt = {example.source: example for example in reversed(train)}
    shared = [example for example in test if example.source in learnt]
    if shared:
        first = shared[0]
        raise UserError(
            f"{len(shared):,} of {len(test):,} test sources are in the training data too; "
            f"the first stands at {learnt[first.source].place or 'some place'}.",
            where=first.place,
            remedy="Take them out of one of the two, or set corpus.overlap=allow.",
        )
