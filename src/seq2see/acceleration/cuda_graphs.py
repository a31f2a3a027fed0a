"""A whole optimizer step as one CUDA graph: one launch, not one launch for each kernel.

A step of a small model is a thousand small kernels, and the GPU finishes each of them faster than Python launches the
next. A CUDA graph captures the launches once and replays them with a single call. Shapes and addresses of a graph are
fixed. So there is one graph for each shape of batch (batches have few shapes), and a batch is copied into the graph's
input tensors first. Dropout differs at every replay, because torch passes the current seed to a graph at replay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.acceleration.support import WARMUP_RUNS, captured_in, side_stream
from seq2see.core.batch import Batch, tensors_of


@dataclass(frozen=True)
class CapturedGraph:
    """One captured graph with its input and output tensors."""

    inputs: tuple[Any, ...]
    graph: torch.cuda.CUDAGraph
    outputs: Any


class GraphedCallable:
    """A function as CUDA graphs, with the same call signature; each new shape of inputs is captured at its first call.

    The outputs are valid until the next call. `warmup` is the context of the warm-up runs, which must have no effect.
    """

    def __init__(
        self, function: Callable[..., Any], warmup: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    ):
        self.function, self.warmup = function, warmup
        self.captured: dict[tuple[tuple[int, ...], ...], CapturedGraph] = {}
        self.pool = torch.cuda.graph_pool_handle()  # graphs run one after another, so all share one memory pool

    def __call__(self, *inputs: Batch | Tensor) -> Any:
        """Run the function on these inputs."""
        tensors = tensors_of(inputs)
        shape = tuple(tuple(tensor.shape) for tensor in tensors)
        if shape not in self.captured:
            self.captured[shape] = self._capture(inputs)
        captured = self.captured[shape]
        for target, source in zip(tensors_of(captured.inputs), tensors, strict=True):
            target.copy_(source, non_blocking=True)
        captured.graph.replay()
        return captured.outputs

    def _capture(self, inputs: tuple[Batch | Tensor, ...]) -> CapturedGraph:
        static_inputs = tuple(each.to(torch.device("cuda")) for each in inputs)
        with self.warmup():
            with side_stream():
                for _ in range(WARMUP_RUNS):
                    self.function(*static_inputs)
            graph = torch.cuda.CUDAGraph()
            with captured_in(graph, pool=self.pool):
                outputs = self.function(*static_inputs)
        return CapturedGraph(static_inputs, graph, outputs)


def compile_blocks(model: nn.Module) -> None:
    """Compile each block of a stack with torch.compile, which fuses its operations; equal blocks are compiled once."""
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList)]
    for block in [block for stack in stacks for block in stack]:
        block.compile(dynamic=False)
