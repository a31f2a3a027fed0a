"""A check for metrics that compare outputs with references."""

from __future__ import annotations

from collections.abc import Sequence

from seq2see.core.errors import UserError


def check_same_length(outputs: Sequence[object], references: Sequence[object]) -> None:
    """Raise an error if there are no outputs, or if the numbers of outputs and references differ."""
    if len(outputs) != len(references):
        raise UserError(
            f"There are {len(outputs)} outputs but {len(references)} references.",
            hint="Each output needs one reference, in the same order.",
        )
    if not outputs:
        raise UserError("There are no outputs to score.")
