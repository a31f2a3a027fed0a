"""What there is to say about files of pairs, for several tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.pair_files import scan_pairs


def check(paths: Sequence[Path]) -> DataReport:
    """Everything, without stopping at what is wrong with the data in them."""
    return scan_pairs(paths)[1]
