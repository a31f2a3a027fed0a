"""Tracing the activations of a model on one example: decode first, then run one traced forward pass.

Decoding itself is not traced: it reorders rows and computes one time step at a time. The decoded output is the input of
one forward pass with teacher forcing, which gives the same activations, in the order of time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from seq2see.core.batch import Batch
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2see.inspection.record import ActivationRecord, SignalKind
from seq2see.inspection.trace import ATTENTION, trace

if TYPE_CHECKING:
    from seq2see.runs.model import Model


@dataclass(frozen=True)
class NamedBatch:
    """One example as a batch of one, and the names of its tokens."""

    batch: Batch
    tokens: dict[str, list[str]]
    """The names of the `source` tokens, the `target` inputs, and the `labels` at each time step of the target."""
    special: dict[str, list[bool]] = field(default_factory=dict)
    grid: tuple[int, int] | None = None

    @staticmethod
    def of(batch: Batch, ids: dict[str, tuple[Tokenizer, list[int]]]) -> NamedBatch:
        """Name the tokens of a batch of texts with their tokenizers."""
        tokens = {side: tokenizer.tokens(side_ids) for side, (tokenizer, side_ids) in ids.items()}
        special = {side: [each in (PAD, BOS, EOS) for each in side_ids] for side, (_, side_ids) in ids.items()}
        return NamedBatch(batch, tokens, special)


def trace_text(
    model: Model,
    text: Any,
    target: str | None = None,
    kinds: Collection[SignalKind] = ATTENTION,
    module_names: Collection[str] = (),
) -> ActivationRecord:
    """Record the activations for a text (or image) and a target (default: the model's own output).

    `kinds` selects the kinds of activations (see `inspection/trace.py`), `module_names` the modules (default: all). An
    encoder-only model needs no target.
    """
    if model.config.members:
        raise UserError(
            "An ensemble cannot be traced: each member has its own activations.",
            hint="Load and trace one of its runs.",
        )
    return trace_batch(model, model.named_batch(text, target), kinds, module_names)


def trace_batch(
    model: Model, named_batch: NamedBatch, kinds: Collection[SignalKind] = ATTENTION, module_names: Collection[str] = ()
) -> ActivationRecord:
    """Record the activations for a prepared example."""
    with torch.inference_mode(), trace(model.module, kinds, module_names) as activations:
        model.module(named_batch.batch)
    tokens = {**named_batch.tokens, "pooled": ["Σ"]}
    return activations.to_record(
        type(model.module).__name__, tokens, special=named_batch.special, grid=named_batch.grid
    )
