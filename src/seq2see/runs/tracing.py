"""Looking inside a model while it reads one example: decode first, then read the answer once more under a trace.

Nothing is watched while an answer is searched for: rows move there, and times come one by one. The answer that was
found is read at once, with the source, as in training; that gives the same numbers, and they lie in order.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from seq2see.core.batch import Batch
from seq2see.core.errors import UserError
from seq2see.inspection.record import ActivationRecord, SignalKind
from seq2see.inspection.trace import ATTENTION, trace
from seq2see.sequences.tokenizers import BOS, EOS, PAD, Tokenizer

if TYPE_CHECKING:
    from seq2see.runs.model import Model


@dataclass(frozen=True)
class NamedBatch:
    """One example as a model reads it, and what its tokens are called."""

    batch: Batch
    tokens: dict[str, list[str]]
    """Of the source, of the target as it is read, and of what is `query_tokens` at each time of the target."""
    special: dict[str, list[bool]] = field(default_factory=dict)
    grid: tuple[int, int] | None = None

    @staticmethod
    def of(batch: Batch, ids: dict[str, tuple[Tokenizer, list[int]]]) -> NamedBatch:
        """A reading of texts: tokenizers know what numbers are called."""
        tokens = {side: tokenizer.tokens(numbers) for side, (tokenizer, numbers) in ids.items()}
        special = {side: [number in (PAD, BOS, EOS) for number in numbers] for side, (_, numbers) in ids.items()}
        return NamedBatch(batch, tokens, special)


def trace_text(
    model: Model,
    text: Any,
    target: str | None = None,
    kinds: Collection[SignalKind] = ATTENTION,
    part_names: Collection[str] = (),
) -> ActivationRecord:
    """What passes through a model that reads this text (or image) and writes this target (its own, if none is given).

    `kinds` says what is wanted (`inspection/trace.py` lists it), `part_names` of which parts, by their names; of all, if
    none is named. A model that only reads writes nothing, and needs no target.
    """
    if model.config.members:
        raise UserError(
            "An ensemble cannot be traced: its members look at different places.",
            hint="Load one of its runs and trace that.",
        )
    return trace_batch(model, model.named_batch(text, target), kinds, part_names)


def trace_batch(
    model: Model, reading: NamedBatch, kinds: Collection[SignalKind] = ATTENTION, part_names: Collection[str] = ()
) -> ActivationRecord:
    """The same of an example that was prepared before."""
    with torch.inference_mode(), trace(model.module, kinds, part_names) as seen:
        model.module(reading.batch)
    tokens = {**reading.tokens, "pooled": ["Σ"]}
    return seen.to_record(type(model.module).__name__, tokens, special=reading.special, grid=reading.grid)
