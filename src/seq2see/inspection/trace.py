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
from seq2see.inspection.record import Kind, Record, Side, Signal
from seq2see.inspection.watching import Notice, watching
from seq2see.layers.attention import Attention, CrossAttention, Looked
from seq2see.layers.recurrent import Cell
from seq2see.layers.recurrent_attention import AdditiveAttention, MemoryAttention
from seq2see.layers.recurrent_stack import ReadBothWays
from seq2see.layers.shown import Read, Remembered
from seq2see.models.classifier import Classifier
from seq2see.models.embedder import Embedder
from seq2see.models.tagger import Tagger

ATTENTION: tuple[Kind, ...] = ("attention",)
BY_HAND: tuple[Kind, ...] = ("attention", "query", "key", "value", "allowed", "lean", "vector")
"""All it takes to compute an attention once more."""
ALL: tuple[Kind, ...] = get_args(Kind)
TIMES: dict[Kind, int] = {
    "attention": 2, "query": 2, "allowed": 2, "lean": 2,
    "hidden": 1, "gate": 1, "embedding": 1, "stream": 1, "logits": 1,
}  # fmt: skip
"""Which axis of what is shown, rows first, is time: along it steps are joined. Keys are shown whole at every step."""


@dataclass
class Shown:
    """One signal of one part, with rows: as the part was called, all at once, or one step after another."""

    name: str
    kind: Kind
    side: Side
    looks_at: Side | None = None
    part: str = ""
    formula: str = ""
    backwards: bool = False
    """Of a cell that reads from the end."""
    parts: list[Tensor] = field(default_factory=list)

    @property
    def across(self) -> bool:
        """Whether one sequence looks at another here."""
        return self.looks_at != self.side

    @property
    def values(self) -> Float[Tensor, "row ..."]:
        """Everything that was shown, steps joined."""
        return torch.cat(self.parts, dim=TIMES[self.kind]) if self.kind in TIMES else self.parts[-1]

    def signal(self) -> Signal:
        """The same of the only row, as plain data."""
        values = self.values
        if len(values) != 1:
            raise ValueError(f"a record is of one example, and {len(values)} were read")
        array = np.ascontiguousarray(values[0].float().cpu().numpy())
        if self.backwards:
            array = array[::-1]
        return Signal(self.name, self.kind, array, self.side, self.looks_at, self.part, self.formula)


class Seen:
    """What a trace has seen, by part and kind."""

    def __init__(self, kinds: Collection[Kind]):
        self.kinds, self.shown = kinds, dict[tuple[str, Kind, str], Shown]()

    def of(self, kind: Kind) -> list[Shown]:
        """All signals of a kind, in the order in which their parts were called."""
        return [each for each in self.shown.values() if each.kind == kind]

    def record(self, model: str, tokens: dict[str, list[str]], **about: Any) -> Record:
        """The same as plain data, if one example was read."""
        return Record(model, tokens, signals=tuple(each.signal() for each in self.shown.values()), **about)

    @torch.no_grad()
    def take(self, like: Shown, values: Callable[[], Tensor | None]) -> None:
        """Keep something, if it is of a wanted kind and there is such a thing."""
        if like.kind in self.kinds and (found := values()) is not None:
            self.shown.setdefault((like.name, like.kind, like.part), like).parts.append(found.detach())

    def looked(self, like: Shown, layer: Attention | MemoryAttention, looked: Looked | Remembered) -> None:
        """What an attention shows."""
        lean = looked.may_look.lean if isinstance(looked, Looked) else None
        vector = layer.value.weight if isinstance(layer, AdditiveAttention) else None
        found: dict[Kind, Callable[[], Tensor | None]] = {
            "attention": lambda: looked.weights,
            "query": lambda: looked.queries,
            "key": lambda: looked.keys,
            "value": lambda: looked.values,
            "allowed": lambda: looked.allowed.float(),
            "lean": lambda: lean,
            "vector": lambda: vector,
        }
        for kind, values in found.items():
            self.take(replace(like, kind=kind, parts=[]), values)

    def read(self, like: Shown, cell: Cell, read: Read) -> None:
        """What a recurrent cell shows."""
        self.take(replace(like, kind="hidden", parts=[]), lambda: read.hidden)
        self.take(replace(like, kind="hidden", part="cell", parts=[]), lambda: read.cell)
        for part, gate in read.gates.items():
            self.take(replace(like, kind="gate", part=part, parts=[]), lambda gate=gate: gate)  # type: ignore[misc]

    def passed(self, like: Shown, part: nn.Module, gives: Any) -> None:
        """What any other part gives; numbers of tokens are no vectors."""
        values = gives.values if isinstance(gives, Sequences) else gives
        self.take(replace(like, parts=[]), lambda: values if values.is_floating_point() else None)


@contextlib.contextmanager
def trace(model: nn.Module, kinds: Collection[Kind] = ATTENTION, only: Collection[str] = ()) -> Iterator[Seen]:
    """See what is wanted of all parts called inside the block, or of those alone that are named by `only`."""
    seen = Seen(frozenset(kinds))
    parts = {part: notice for name, part, notice in _parts(model, seen) if not only or name in only}
    with watching(parts):
        yield seen


def _parts(model: nn.Module, seen: Seen) -> Iterator[tuple[str, nn.Module, Notice]]:
    """Everything in a model that can be watched, with its name and what shall be done with what it shows."""
    backwards = read_from_the_end(model)
    for name, part in model.named_modules():
        side = _side(name)
        if isinstance(part, Attention | MemoryAttention):
            looks_at: Side = "source" if isinstance(part, CrossAttention | MemoryAttention) else side
            like = Shown(name, "attention", side, looks_at, formula=part.formula)
            yield name, part, partial(seen.looked, like)
        elif isinstance(part, Cell):
            yield name, part, partial(seen.read, Shown(name, "hidden", side, backwards=part in backwards))
    for like, part in _stations(model):
        yield like.name, part, partial(seen.passed, like)


def read_from_the_end(model: nn.Module) -> set[nn.Module]:
    """The cells whose first time is the last of the text."""
    return {cell for part in model.modules() if isinstance(part, ReadBothWays) for cell in part.back}


def _stations(model: nn.Module) -> Iterator[tuple[Shown, nn.Module]]:
    """Where vectors enter a model, pass from block to block, and leave it as scores."""
    pairs: tuple[tuple[Side, str], ...] = (("source", "encoder"), ("target", "decoder"))
    for side, name in pairs:
        if (frontend := getattr(model, side, None)) is None:
            continue
        yield Shown(side, "embedding", side), frontend
        body: Any = getattr(model, name)
        blocks = {f"{name}.blocks.{number}": block for number, block in enumerate(getattr(body, "blocks", []))}
        for each, block in (blocks or {name: body}).items():
            yield Shown(each, "stream", side), block
    if isinstance(head := getattr(model, "head", None), nn.Module):
        summed_up = isinstance(model, Classifier | Embedder) and not isinstance(model, Tagger)
        answers: Side = "target" if hasattr(model, "decoder") else "summary" if summed_up else "source"
        yield Shown("head", "logits", answers), head


def _side(name: str) -> Side:
    """Of which sequence the vectors are that a part of this name works on."""
    first = name.split(".")[0]
    return "source" if first == "encoder" else "summary" if first == "pool" else "target"
