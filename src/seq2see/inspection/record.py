"""What was seen inside a model while it read one example, as plain data: names, tokens and arrays.

A record outlives the model it was taken from: it is one file (safetensors, with its names as JSON in the header),
nothing in it can run, and reading it needs no torch. Pages and tests work on records alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError, missing_file
from seq2see.core.files import write_bytes

VERSION = 1
"""Of the file; one that says another was written by another seq2see."""
SignalKind = Literal[
    "attention",
    "query",
    "key",
    "value",
    "attention_mask",
    "attention_bias",
    "score_vector",
    "gate",
    "hidden",
    "stream",
    "embedding",
    "logits",
]
"""What a signal is; `inspection/trace.py` says of each where it comes from, and which shape it has."""
Side = Literal["source", "target", "pooled"]
"""Which sequence a signal is of: what is read, what is written, or the one place that sums all up."""


@dataclass(frozen=True)
class Signal:
    """One array that passed through one part of a model."""

    name: str
    """Of the part, as the model calls it: `decoder.blocks.0.look_across`."""
    kind: SignalKind
    values: NDArray[np.float32]
    side: Side
    """The sequence that its times (or queries) belong to."""
    key_side: Side | None = None
    """Of attention: the sequence that its keys belong to."""
    component: str = ""
    """Which of several signals of this kind: a gate by its name, or an LSTM's `cell`."""
    formula: str = ""
    """Of attention: how a query and a key are scored, `scaled-dot`, `dot` or `additive`."""

    @property
    def is_cross_attention(self) -> bool:
        """Whether one sequence looks at another here."""
        return self.key_side is not None and self.key_side != self.side


@dataclass(frozen=True)
class ActivationRecord:
    """Everything that was seen of one example; arrays have no axis for rows, because there is one."""

    model: str
    """What the model is called."""
    tokens: dict[str, list[str]]
    """The pieces of each side, and under `query_tokens` what each time of the target was to write."""
    special: dict[str, list[bool]] = field(default_factory=dict)
    """For each of these, which are no text: <bos>, <eos>, the class token of an image."""
    signals: tuple[Signal, ...] = ()
    grid: tuple[int, int] | None = None
    """Of an image: how many patches it has from top to bottom, and from left to right."""

    def of(self, kind: SignalKind, side: Side | None = None) -> list[Signal]:
        """All signals of a kind, in the order of the layers."""
        return [each for each in self.signals if each.kind == kind and side in (None, each.side)]

    def find(self, name: str, kind: SignalKind, part: str = "") -> Signal:
        """The signal of one part of the model."""
        for each in self.signals:
            if (each.name, each.kind, each.component) == (name, kind, part):
                return each
        known = sorted({each.name for each in self.signals if each.kind == kind})
        raise UserError(
            f"Nothing called '{name}' shows {part or kind} in this record.",
            hint=f"There is: {', '.join(known) or 'nothing of that kind'}.",
        )

    def query_tokens(self, signal: Signal) -> list[str]:
        """What the rows of an attention are called: who looks across writes something, who looks around reads."""
        return self.tokens["labels" if signal.is_cross_attention and signal.side == "target" else signal.side]

    @property
    def bytes(self) -> int:
        """How much memory its arrays take."""
        return sum(each.values.nbytes for each in self.signals)

    def save(self, path: str | Path) -> None:
        """Write it as one file, all at once."""
        from safetensors.numpy import save  # only where files are written: the rest is numpy's

        arrays = {str(number): np.ascontiguousarray(each.values) for number, each in enumerate(self.signals)}
        write_bytes(Path(path), save(arrays, {"record": json.dumps(self._header())}))

    @staticmethod
    def load(path: str | Path) -> ActivationRecord:
        """Read what `save` wrote; anything else is refused."""
        if not Path(path).is_file():
            raise missing_file(Path(path))
        try:
            header, arrays = _read(Path(path))
            return _record(header, arrays)
        except (ValueError, KeyError, TypeError) as problem:
            raise UserError(
                f"This is not a record, or a damaged one: {problem}.", location=str(path), hint="Save it again."
            ) from None

    def _header(self) -> dict[str, Any]:
        signals = [{**asdict(each), "values": list(each.values.shape)} for each in self.signals]
        return {"version": VERSION, **asdict(self), "signals": signals}


def _read(path: Path) -> tuple[dict[str, Any], list[NDArray[np.float32]]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["record"])
            arrays = [file.get_tensor(str(number)) for number in range(len(header["signals"]))]
    except SafetensorError as problem:
        raise ValueError(str(problem)) from None
    return header, arrays


def _record(header: dict[str, Any], arrays: list[NDArray[np.float32]]) -> ActivationRecord:
    if header["version"] != VERSION:
        raise UserError(
            f"This record has version {header['version']}, and this seq2see reads version {VERSION}.",
            hint="Save it again with this seq2see.",
        )
    signals = []
    for stored, values in zip(header["signals"], arrays, strict=True):
        if stored["kind"] not in get_args(SignalKind) or list(values.shape) != stored["values"]:
            raise ValueError(f"'{stored['kind']}' of shape {list(values.shape)} is not what its header says")
        signals.append(Signal(**{**stored, "values": values}))
    grid = header["grid"]
    return ActivationRecord(
        header["model"], header["tokens"], header["special"], tuple(signals), tuple(grid) if grid else None
    )
