"""Tracing the activations of a model on one example: decode first, then run one traced forward pass.

Decoding itself is not traced: it reorders rows and computes one time step at a time. The decoded output is the input of
one forward pass with teacher forcing, which gives the same activations, in the order of time.

The attention weights of one example as plain data.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2see.inspection.record import ActivationRecord, SignalKind
from seq2see.inspection.trace import ATTENTION, trace

if TYPE_CHECKING:
    from seq2see.tasks.model import Model


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


@dataclass(frozen=True)
class TextAttention:
    """The source and target tokens, and for each layer the weights (head, target token, source token)."""

    source: list[str]
    target: list[str]
    layers: list[str]
    weights: list[NDArray[np.float32]]
    page: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Renders an interactive page for notebooks, if available."""

    @staticmethod
    def of(record: ActivationRecord, page: Callable[[], str] | None = None) -> TextAttention:
        """The cross-attention of a record with source and target, otherwise the self-attention."""
        is_cross = "source" in record.tokens and "target" in record.tokens
        layers = [each for each in record.of("attention") if each.is_cross_attention == is_cross]
        layers = [each for each in layers if each.side != "pooled"]
        keys = record.tokens["source" if "source" in record.tokens else "target"]
        queries = record.tokens.get("labels", keys)
        used = slice(None) if is_cross else slice(len(queries))  # the last token of running text has no label
        return TextAttention(
            source=keys[used],
            target=queries,
            layers=[each.name for each in layers],
            weights=[each.values[:, : len(queries), used] for each in layers],
            page=page,
        )

    @property
    def matrix(self) -> NDArray[np.float32]:
        """(target, source): the mean of the heads of the last layer."""
        if not self.weights:
            return np.zeros((len(self.target), len(self.source)), dtype=np.float32)
        return self.weights[-1].mean(axis=0)

    def _repr_html_(self) -> str:
        return self.page() if self.page else self.html()

    def html(self) -> str:
        """A table for notebooks: darker cells have more attention."""
        header = "".join(f"<th>{html.escape(token)}</th>" for token in self.source)
        rows = "".join(
            f"<tr><th>{html.escape(token)}</th>{''.join(map(_cell, row))}</tr>"
            for token, row in zip(self.target, self.matrix, strict=True)
        )
        return f"<table><tr><th></th>{header}</tr>{rows}</table>"


def _cell(weight: float) -> str:
    return f'<td style="background:rgba(31,119,180,{weight:.2f})" title="{weight:.3f}">&nbsp;</td>'
