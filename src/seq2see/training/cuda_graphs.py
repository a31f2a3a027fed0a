"""A whole optimizer step as one CUDA graph: launched once, not kernel by kernel.

A step of a small model is a thousand small kernels, and a GPU finishes each of them faster than Python
can ask for the next. A CUDA graph records the requests once and repeats them with a single call. What
it repeats is fixed: the shapes (so there is one graph for each shape of batch, and batches come in few
shapes) and the addresses (so a batch is copied into the graph's own tensors first). Dropout differs at
every repetition, because torch hands a graph the seed that is set when it is repeated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.core.batch import Batch
from seq2see.core.devices import WARMUP_RUNS, side_stream
from seq2see.core.rows import tensors_of


@dataclass(frozen=True)
class CapturedGraph:
    """One recording: the tensors it reads, the graph, and what it writes."""

    inputs: tuple[Any, ...]
    graph: torch.cuda.CUDAGraph
    outputs: Any


class GraphedStep:
    """Calls like the step it was made from: a batch in, figures out; records each new shape when it first comes.

    What it gives is valid until the next call. A rehearsal is what surrounds runs that shall leave no trace.
    """

    def __init__(
        self, step: Callable[..., Any], warmup: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    ):
        self.step, self.warmup = step, warmup
        self.captured: dict[tuple[tuple[int, ...], ...], CapturedGraph] = {}
        self.pool = torch.cuda.graph_pool_handle()  # no two graphs run at once, so all share their memory

    def __call__(self, *inputs: Batch | Tensor) -> Any:
        """Take one step."""
        tensors = tensors_of(inputs)
        shape = tuple(tuple(tensor.shape) for tensor in tensors)
        if shape not in self.captured:
            self.captured[shape] = self._capture(inputs)
        captured = self.captured[shape]
        for mine, theirs in zip(tensors_of(captured.inputs), tensors, strict=True):
            mine.copy_(theirs, non_blocking=True)
        captured.graph.replay()
        return captured.outputs

    def _capture(self, inputs: tuple[Batch | Tensor, ...]) -> CapturedGraph:
        own = tuple(each.to(torch.device("cuda")) for each in inputs)
        with self.warmup():
            with side_stream():
                for _ in range(WARMUP_RUNS):
                    self.step(*own)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                outputs = self.step(*own)
        return CapturedGraph(own, graph, outputs)


def compile_blocks(model: nn.Module) -> None:
    """Let torch.compile fuse the operations of each block of a stack: equal blocks are compiled once."""
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList)]
    for block in [block for stack in stacks for block in stack]:
        block.compile(dynamic=False)
