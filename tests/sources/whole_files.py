"""What there is to say about files of pairs, for several tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2see.sources.complaints import DataReport
from seq2see.sources.own_files import look_through


def check(paths: Sequence[Path]) -> DataReport:
    """Everything, without stopping at what is wrong with the data in them."""
    return look_through(paths)[1]
