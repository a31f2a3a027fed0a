"""Results by processor: the rows of one processor replace its own earlier rows, and those of others stay.

Which library is faster depends on the processor: oneDNN and MKL choose other kernels for AMD and for Intel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seq2see.core.devices import processor_name

Row = dict[str, Any]
COLUMN = {"key": "processor", "title": "processor"}


def replace_rows(stored: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """The stored rows of other processors, and before them the new rows, each with the name of this processor."""
    name = processor_name()
    return [*({"processor": name, **row} for row in rows), *(row for row in stored if row.get("processor") != name)]
