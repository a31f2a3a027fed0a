"""The user's own pairs of texts, or texts with labels, as a corpus of a recipe."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.hold_out import check_hold_out, hold_out
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.pair_files import read_pairs, scan_pairs


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

    overlap: Literal["error", "allow"] = "error"
    """What happens if a test source is also in the training pairs: stop with an error, or allow it."""

    def splits(self) -> dict[str, list[Example]]:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[dict[str, list[Example]], list[DataReport]]:
        """The splits, and the data report of each reading."""
        policy = ErrorPolicy(self.on_error, self.max_errors)
        readings = [
            read_pairs([Path(path) for path in paths], policy) if paths else None
            for paths in (self.paths, self.valid, self.test)
        ]
        reports = [reading[1] for reading in readings if reading]
        for report in reports:
            self._drop_irrelevant_issues(report)
        train, valid, test = (reading[0] if reading else None for reading in readings)
        allow = self.overlap == "allow"
        return hold_out(train or [], valid, test, allow_overlap=allow, labels=self._labels), reports

    def check(self) -> list[DataReport]:
        """The data report of each reading, without raising an error for invalid data."""
        files = (self.paths, self.valid, self.test)
        readings = [scan_pairs([Path(path) for path in paths]) if paths else None for paths in files]
        reports = [reading[1] for reading in readings if reading]
        for report in reports:
            self._drop_irrelevant_issues(report)
        train, valid, test = (reading[0] if reading else None for reading in readings)
        hold = partial(hold_out, train or [], valid, test, allow_overlap=True, labels=self._labels)
        check_hold_out(hold, reports[0])
        return reports

    def _drop_irrelevant_issues(self, report: DataReport) -> None:
        """Remove the issues that do not apply to data of this kind."""

    def _labels(self, example: Example) -> Collection[str]:
        """The labels of an example, which hold-out must keep in training; pairs of texts have none."""
        return ()


class UserLabeledTexts(UserPairs):
    """Your own texts with labels: one table, or two files aligned by line."""

    kind: Literal["labeled"] = "labeled"  # type: ignore[assignment]

    def _drop_irrelevant_issues(self, report: DataReport) -> None:
        """A label is short, whatever the length of its text."""
        report.discard_issues("length ratio")

    def _labels(self, example: Example) -> Collection[str]:
        """Its label."""
        return (example.target,)
