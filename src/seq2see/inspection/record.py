"""Activation records: the activations of a model for one example, as plain data (names, tokens and arrays).

A record does not depend on the model: it is one file (safetensors, with the names as JSON in the header), it contains
no code, and torch is not needed to read it. Pages and tests work on records alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from seq2see.core.errors import UserError, missing_file
from seq2see.core.files import write_bytes

VERSION = 1
"""The version of the file format."""
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
"""The kind of a signal; `inspection/trace.py` lists the origin and the shape of each."""
Side = Literal["source", "target", "pooled"]
"""The sequence that a signal belongs to: the source, the target, or the pooled vector."""


@dataclass(frozen=True)
class Signal:
    """One array that was recorded in one module of a model."""

    name: str
    """The name of the module in the model, such as `decoder.blocks.0.cross_attention`."""
    kind: SignalKind
    values: NDArray[np.float32]
    side: Side
    """The sequence of its time steps (or queries)."""
    key_side: Side | None = None
    """For attention, the sequence of its keys."""
    component: str = ""
    """Which of several signals of this kind: the name of a gate, or `cell` for the cell state of an LSTM."""
    score_function: str = ""
    """For attention, the score of a query and a key: `scaled-dot`, `dot` or `additive`."""

    @property
    def is_cross_attention(self) -> bool:
        """Whether the queries and the keys belong to different sequences."""
        return self.key_side is not None and self.key_side != self.side


@dataclass(frozen=True)
class ActivationRecord:
    """All recorded signals of one example; the arrays have no batch dimension."""

    model: str
    """The class name of the model."""
    tokens: dict[str, list[str]]
    """The tokens of each side, and under `labels` the token to predict at each position of the target."""
    special: dict[str, list[bool]] = field(default_factory=dict)
    """For each of these lists, which tokens are special: <bos>, <eos>, the class token of an image."""
    signals: tuple[Signal, ...] = ()
    grid: tuple[int, int] | None = None
    """For an image, the number of rows and columns of patches."""

    def of(self, kind: SignalKind, side: Side | None = None) -> list[Signal]:
        """All signals of a kind, in the order of the layers."""
        return [each for each in self.signals if each.kind == kind and side in (None, each.side)]

    def find(self, name: str, kind: SignalKind, component: str = "") -> Signal:
        """The signal of one module of the model."""
        for each in self.signals:
            if (each.name, each.kind, each.component) == (name, kind, component):
                return each
        names = sorted({each.name for each in self.signals if each.kind == kind})
        raise UserError(
            f"This record has no '{component or kind}' of a module '{name}'.",
            hint=f"Modules with '{kind}': {', '.join(names) or 'none'}.",
        )

    def query_tokens(self, signal: Signal) -> list[str]:
        """The names of the rows of an attention map: the labels for decoder cross-attention, else the input tokens."""
        return self.tokens["labels" if signal.is_cross_attention and signal.side == "target" else signal.side]

    @property
    def bytes(self) -> int:
        """The memory of its arrays, in bytes."""
        return sum(each.values.nbytes for each in self.signals)

    def save(self, path: str | Path) -> None:
        """Write the record to one file, atomically."""
        arrays = {str(number): np.ascontiguousarray(each.values) for number, each in enumerate(self.signals)}
        write_bytes(Path(path), serialize(arrays, {"record": json.dumps(self._header())}))

    @staticmethod
    def load(path: str | Path) -> ActivationRecord:
        """Read a file that `save` has written; any other file is an error."""
        if not Path(path).is_file():
            raise missing_file(Path(path))
        try:
            header, arrays = _read(Path(path))
            return _record(header, arrays)
        except (ValueError, KeyError, TypeError) as problem:
            raise UserError(
                f"This is no activation record, or it is damaged: {problem}.", location=str(path), hint="Save it again."
            ) from None

    def _header(self) -> dict[str, Any]:
        signals = [{**asdict(each), "values": list(each.values.shape)} for each in self.signals]
        return {"version": VERSION, **asdict(self), "signals": signals}


def _read(path: Path) -> tuple[dict[str, Any], list[NDArray[np.float32]]]:
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
            raise ValueError(f"'{stored['kind']}' of shape {list(values.shape)} does not match the header")
        signals.append(Signal(**{**stored, "values": values}))
    grid = header["grid"]
    return ActivationRecord(
        header["model"], header["tokens"], header["special"], tuple(signals), tuple(grid) if grid else None
    )
