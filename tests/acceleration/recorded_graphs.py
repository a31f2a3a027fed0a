"""CUDA graphs without a GPU: a recorder of operators with the interface of `torch.cuda.graph`.

While a graph is captured, the operators run and are recorded with their tensors; then the tensors from before the
capture get their numbers back, because a GPU does not run what it captures. A replay runs the operators again on the
same tensors, and writes the results into the tensors of the capture. So, as on a GPU, a replay sees only what is in
memory: numbers of Python are constants, and reading a number of a tensor is an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS = ("__bool__", "__int__", "__float__", "item", "tolist", "nonzero")


def storages(values: Any) -> list[Any]:
    """The memory of all tensors."""
    return [each.untyped_storage() for each in tree_leaves(values) if isinstance(each, Tensor)]


class RecordedGraph(TorchDispatchMode):
    """The operators between the start and the end of a capture."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[tuple[Any, Any, Any, list[Any]]] = []
        self.memory_before: dict[int, tuple[Any, Any]] = {}
        self.own_memory: set[int] = set()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        options = options or {}
        for storage in storages((arguments, options)):
            if storage.data_ptr() not in self.own_memory:
                self.memory_before.setdefault(storage.data_ptr(), (storage, storage.clone()))
        result = function(*arguments, **options)
        self.own_memory |= {each.data_ptr() for each in storages(result)} - self.memory_before.keys()
        self.operators.append((function, arguments, options, tree_leaves(result)))
        return result

    def undo(self) -> None:
        """Give all memory from before the capture its content back."""
        for storage, content in self.memory_before.values():
            storage.copy_(content)

    def replay(self) -> None:
        """Run all operators again."""
        for function, arguments, options, results in self.operators:
            for old, new in zip(results, tree_leaves(function(*arguments, **options)), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@contextlib.contextmanager
def capture(graph: RecordedGraph, pool: Any = None) -> Iterator[None]:
    """Record, and fail if a number of a tensor is read."""

    def forbidden(name: str) -> Any:
        return lambda *arguments: pytest.fail(f"a captured graph reads a number of a tensor with {name}")

    with pytest.MonkeyPatch.context() as patch:
        for name in READS:
            patch.setattr(Tensor, name, forbidden(name))
        with graph:
            yield
    graph.undo()


@pytest.fixture
def recorded_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of a GPU are recorded on the CPU."""
    from seq2see.acceleration import graphed_decoding

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", RecordedGraph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(graphed_decoding, "side_stream", contextlib.nullcontext)
    monkeypatch.setattr(graphed_decoding, "TRITON", False)
