"""A whole optimiser step as one CUDA graph: launched once, not kernel by kernel.

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
from seq2see.core.devices import REHEARSALS, aside
from seq2see.core.rows import tensors_of


@dataclass(frozen=True)
class Recorded:
    """One recording: the tensors it reads, the graph, and what it writes."""

    given: tuple[Any, ...]
    graph: torch.cuda.CUDAGraph
    found: Any


class GraphedStep:
    """Calls like the step it was made from: a batch in, figures out; records each new shape when it first comes.

    What it gives is valid until the next call. A rehearsal is what surrounds runs that shall leave no trace.
    """

    def __init__(
        self, step: Callable[..., Any], rehearsal: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    ):
        self.step, self.rehearsal = step, rehearsal
        self.recorded: dict[tuple[tuple[int, ...], ...], Recorded] = {}
        self.pool = torch.cuda.graph_pool_handle()  # no two graphs run at once, so all share their memory

    def __call__(self, *given: Batch | Tensor) -> Any:
        """Take one step."""
        tensors = tensors_of(given)
        shape = tuple(tuple(tensor.shape) for tensor in tensors)
        if shape not in self.recorded:
            self.recorded[shape] = self._record(given)
        recorded = self.recorded[shape]
        for mine, theirs in zip(tensors_of(recorded.given), tensors, strict=True):
            mine.copy_(theirs, non_blocking=True)
        recorded.graph.replay()
        return recorded.found

    def _record(self, given: tuple[Batch | Tensor, ...]) -> Recorded:
        own = tuple(each.to(torch.device("cuda")) for each in given)
        with self.rehearsal():
            with aside():
                for _ in range(REHEARSALS):
                    self.step(*own)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                found = self.step(*own)
        return Recorded(own, graph, found)


def compile_blocks(model: nn.Module) -> None:
    """Let torch.compile fuse the operations of each block of a stack: equal blocks are compiled once."""
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList)]
    for block in [block for stack in stacks for block in stack]:
        block.compile(dynamic=False)
