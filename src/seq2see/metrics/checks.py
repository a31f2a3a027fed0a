"""What is compared comes in pairs: an output, and what it should have been."""

from __future__ import annotations

from collections.abc import Sequence

from seq2see.core.errors import UserError


def check_same_length(outputs: Sequence[object], references: Sequence[object]) -> None:
    """Refuse to score nothing, or outputs that do not belong to the references."""
    if len(outputs) != len(references):
        raise UserError(
            f"There are {len(outputs)} outputs but {len(references)} references.",
            hint="Each output needs the reference of the same line.",
        )
    if not outputs:
        raise UserError("There are no outputs to score.")
