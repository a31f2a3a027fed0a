"""Watching a model without touching it.

`with trace(model) as seen:` lets the parts of a model show what passes through them, and leaves nothing behind. They
compute their outputs as always; weights and gates, which fused kernels hide, are computed again beside them. A traced
model gives the same outputs as an untraced one, bit for bit, and whoever else uses it meanwhile is not seen.

| kind | what it is | shape |
|---|---|---|
| attention | how much each query takes from each key, in every attention | head, query, key |
| query, key, value | of the same, what is compared and taken (turned, if positions turn it) | head, time, size |
| allowed, lean | of the same, who may look at whom (1, 0), and what positions add | head or 1, query, key |
| vector | of additive attention, the v of v · tanh(W q + U k) | size |
| hidden | states of every recurrent cell; part `cell`: what an LSTM keeps to itself | time, width |
| gate | gates of every recurrent cell, each a part | time, width |
| embedding | what enters a body | time, width |
| stream | what leaves each block of a body; one without blocks counts as one | time, width |
| logits | the scores of all answers | time, answer |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.inspection.hooks import Hook, attach_hooks
from seq2see.inspection.record import ActivationRecord, Side, Signal, SignalKind
from seq2see.layers.attention import Attention, AttentionRecord, CrossAttention
from seq2see.layers.records import CellRecord, MemoryAttentionRecord
from seq2see.layers.recurrent_attention import AdditiveAttention, MemoryAttention
from seq2see.layers.recurrent_cells import RecurrentCell
from seq2see.layers.recurrent_stack import BidirectionalRNN
from seq2see.models.classifier import Classifier
from seq2see.models.embedding_model import EmbeddingModel
from seq2see.models.tagger import Tagger

ATTENTION: tuple[SignalKind, ...] = ("attention",)
BY_HAND: tuple[SignalKind, ...] = (
    "attention",
    "query",
    "key",
    "value",
    "attention_mask",
    "attention_bias",
    "score_vector",
)
"""All it takes to compute an attention once more."""
ALL_KINDS: tuple[SignalKind, ...] = get_args(SignalKind)
TIME_AXES: dict[SignalKind, int] = {
    "attention": 2, "query": 2, "attention_mask": 2, "attention_bias": 2,
    "hidden": 1, "gate": 1, "embedding": 1, "stream": 1, "logits": 1,
}  # fmt: skip
"""Which axis of what is shown, rows first, is time: along it steps are joined. Keys are shown whole at every step."""


@dataclass
class RecordedSignal:
    """One signal of one part, with rows: as the part was called, all at once, or one step after another."""

    name: str
    kind: SignalKind
    side: Side
    key_side: Side | None = None
    part: str = ""
    formula: str = ""
    is_reversed: bool = False
    """Of a cell that reads from the end."""
    values_by_step: list[Tensor] = field(default_factory=list)

    @property
    def is_cross_attention(self) -> bool:
        """Whether one sequence looks at another here."""
        return self.key_side != self.side

    @property
    def values(self) -> Float[Tensor, "row ..."]:
        """Everything that was shown, steps joined."""
        return (
            torch.cat(self.values_by_step, dim=TIME_AXES[self.kind])
            if self.kind in TIME_AXES
            else self.values_by_step[-1]
        )

    def signal(self) -> Signal:
        """The same of the only row, as plain data."""
        values = self.values
        if len(values) != 1:
            raise ValueError(f"a record is of one example, and {len(values)} were read")
        array = np.ascontiguousarray(values[0].float().cpu().numpy())
        if self.is_reversed:
            array = array[::-1]
        return Signal(self.name, self.kind, array, self.side, self.key_side, self.part, self.formula)


class Trace:
    """What a trace has seen, by part and kind."""

    def __init__(self, kinds: Collection[SignalKind]):
        self.kinds, self.signals = kinds, dict[tuple[str, SignalKind, str], RecordedSignal]()

    def of(self, kind: SignalKind) -> list[RecordedSignal]:
        """All signals of a kind, in the order in which their parts were called."""
        return [each for each in self.signals.values() if each.kind == kind]

    def to_record(self, model: str, tokens: dict[str, list[str]], **metadata: Any) -> ActivationRecord:
        """The same as plain data, if one example was read."""
        return ActivationRecord(
            model, tokens, signals=tuple(each.signal() for each in self.signals.values()), **metadata
        )

    @torch.no_grad()
    def add(self, template: RecordedSignal, values: Callable[[], Tensor | None]) -> None:
        """Keep something, if it is of a wanted kind and there is such a thing."""
        if template.kind in self.kinds and (found := values()) is not None:
            self.signals.setdefault((template.name, template.kind, template.part), template).values_by_step.append(
                found.detach()
            )

    def add_attention(
        self,
        template: RecordedSignal,
        layer: Attention | MemoryAttention,
        looked: AttentionRecord | MemoryAttentionRecord,
    ) -> None:
        """What an attention shows."""
        attention_bias = looked.attention_mask.attention_bias if isinstance(looked, AttentionRecord) else None
        vector = layer.value.weight if isinstance(layer, AdditiveAttention) else None
        found: dict[SignalKind, Callable[[], Tensor | None]] = {
            "attention": lambda: looked.weights,
            "query": lambda: looked.queries,
            "key": lambda: looked.keys,
            "value": lambda: looked.values,
            "attention_mask": lambda: looked.mask.float(),
            "attention_bias": lambda: attention_bias,
            "score_vector": lambda: vector,
        }
        for kind, values in found.items():
            self.add(replace(template, kind=kind, values_by_step=[]), values)

    def add_cell(self, template: RecordedSignal, cell: RecurrentCell, read: CellRecord) -> None:
        """What a recurrent cell shows."""
        self.add(replace(template, kind="hidden", values_by_step=[]), lambda: read.hidden)
        self.add(replace(template, kind="hidden", part="cell", values_by_step=[]), lambda: read.cell)
        for part, gate in read.gates.items():
            self.add(replace(template, kind="gate", part=part, values_by_step=[]), lambda gate=gate: gate)  # type: ignore[misc]

    def add_output(self, template: RecordedSignal, part: nn.Module, output: Any) -> None:
        """What any other part gives; numbers of tokens are no vectors."""
        values = output.values if isinstance(output, Sequences) else output
        self.add(replace(template, values_by_step=[]), lambda: values if values.is_floating_point() else None)


@contextlib.contextmanager
def trace(
    model: nn.Module, kinds: Collection[SignalKind] = ATTENTION, part_names: Collection[str] = ()
) -> Iterator[Trace]:
    """See what is wanted of all parts called inside the block, or of those alone that are named by `part_names`."""
    seen = Trace(frozenset(kinds))
    parts = {part: hook for name, part, hook in _parts(model, seen) if not part_names or name in part_names}
    with attach_hooks(parts):
        yield seen


def _parts(model: nn.Module, seen: Trace) -> Iterator[tuple[str, nn.Module, Hook]]:
    """Everything in a model that can be watched, with its name and what shall be done with what it shows."""
    is_reversed = backward_cells(model)
    for name, part in model.named_modules():
        side = _side(name)
        if isinstance(part, Attention | MemoryAttention):
            key_side: Side = "source" if isinstance(part, CrossAttention | MemoryAttention) else side
            template = RecordedSignal(name, "attention", side, key_side, formula=part.formula)
            yield name, part, partial(seen.add_attention, template)
        elif isinstance(part, RecurrentCell):
            yield (
                name,
                part,
                partial(seen.add_cell, RecordedSignal(name, "hidden", side, is_reversed=part in is_reversed)),
            )
    for template, part in _stream_points(model):
        yield template.name, part, partial(seen.add_output, template)


def backward_cells(model: nn.Module) -> set[nn.Module]:
    """The cells whose first time is the last of the text."""
    return {cell for part in model.modules() if isinstance(part, BidirectionalRNN) for cell in part.backward_cells}


def _stream_points(model: nn.Module) -> Iterator[tuple[RecordedSignal, nn.Module]]:
    """Where vectors enter a model, pass from block to block, and leave it as scores."""
    pairs: tuple[tuple[Side, str], ...] = (("source", "encoder"), ("target", "decoder"))
    for side, name in pairs:
        if (embedding := getattr(model, side, None)) is None:
            continue
        yield RecordedSignal(side, "embedding", side), embedding
        body: Any = getattr(model, name)
        blocks = {f"{name}.blocks.{number}": block for number, block in enumerate(getattr(body, "blocks", []))}
        for each, block in (blocks or {name: body}).items():
            yield RecordedSignal(each, "stream", side), block
    if isinstance(head := getattr(model, "head", None), nn.Module):
        summed_up = isinstance(model, Classifier | EmbeddingModel) and not isinstance(model, Tagger)
        answers: Side = "target" if hasattr(model, "decoder") else "pooled" if summed_up else "source"
        yield RecordedSignal("head", "logits", answers), head


def _side(name: str) -> Side:
    """Of which sequence the vectors are that a part of this name works on."""
    first = name.split(".")[0]
    return "source" if first == "encoder" else "pooled" if first == "pool" else "target"
