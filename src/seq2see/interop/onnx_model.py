"""An exported pair of ONNX graphs as a model for seq2see's own decoding loop.

The graphs may run in any engine; `OnnxModel.open` runs them in onnxruntime on the CPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.interop.folders import require_packages

Graph = Callable[[Sequence[Tensor]], list[Tensor]]
"""A graph as a function: its inputs in order to its outputs in order."""


@dataclass(frozen=True)
class OnnxState:
    """The decoder state between two steps; the first axis of every tensor is the batch."""

    lengths: Int[Tensor, "row"]
    memory: tuple[Tensor, ...]
    past: tuple[Tensor, ...]


@dataclass(frozen=True)
class OnnxModel:
    """Two graphs with the interface of a model for `decoding.engine.decode`."""

    encoder: Graph
    decoder_step: Graph
    heads: int
    head_dim: int

    @staticmethod
    def open(folder: Path, threads: int = 1) -> OnnxModel:
        """The graphs of a folder that `write_onnx` wrote, in onnxruntime."""
        require_packages("onnx", "onnxruntime")
        try:
            description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            encoder, step = (_graph(folder / name, threads) for name in ("encoder.onnx", "decoder_step.onnx"))
            return OnnxModel(encoder, step, description["heads"], description["head_dim"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"This is not an ONNX folder of seq2see: {error}.", location=str(folder)) from None

    def start(self, source: Sequences | None, rows: int, max_length: int) -> OnnxState:
        """Encode the source; the past is empty and grows, so no memory is reserved."""
        assert source is not None, "sequence to sequence needs a source"
        memory = tuple(self.encoder([source.values, source.lengths]))
        empty = torch.zeros(rows, self.heads, 0, self.head_dim)
        return OnnxState(source.lengths, memory, tuple(empty for _ in memory))

    def step(
        self, tokens: Int[Tensor, "row new"], state: OnnxState
    ) -> tuple[Float[Tensor, "row new vocab"], OnnxState]:
        """The logits of the token after each new token, and the next state."""
        logits, *past = self.decoder_step([tokens, state.lengths, *state.memory, *state.past])
        return logits, OnnxState(state.lengths, state.memory, tuple(past))


def _graph(file: Path, threads: int) -> Graph:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        runtime: Any = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base class
        raise UserError(f"onnxruntime cannot open this: {error}.", location=str(file)) from None
    names = [each.name for each in runtime.get_inputs()]

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        arrays = {name: tensor.contiguous().numpy() for name, tensor in zip(names, inputs, strict=True)}
        return [torch.from_numpy(output) for output in runtime.run(None, arrays)]

    return run
