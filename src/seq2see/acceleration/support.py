"""What acceleration needs: triton, a C compiler, and streams for CUDA graphs."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor


def has_triton(environment: Mapping[str, str]) -> bool:
    """Whether triton is installed with a C compiler: `CC`, gcc or clang; not every container with a GPU has one."""
    compilers = [environment["CC"]] if environment.get("CC") else ["gcc", "clang"]
    return find_spec("triton") is not None and any(map(shutil.which, compilers))


TRITON = has_triton(os.environ)
"""Whether our own kernels can run: they are written in triton, which the CUDA builds of torch include.

Without them, everything is computed by torch's kernels, only slower: every kernel has a plain equivalent.
"""


def can_use_kernels(vectors: Tensor) -> bool:
    """Whether our own training kernels support these tensors: bf16 autocast on a GPU, with gradients enabled."""
    if not (vectors.is_cuda and torch.is_grad_enabled()):
        return False
    return torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16


WARMUP_RUNS = 2
"""The warm-up runs before a CUDA graph is captured: libraries choose algorithms, and torch allocates memory."""


@contextlib.contextmanager
def side_stream() -> Iterator[None]:
    """Run on a side stream, as the capture of a CUDA graph requires; at the end the current stream waits for it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


@contextlib.contextmanager
def captured_in(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """Capture the kernels of the block in a CUDA graph.

    No garbage is collected meanwhile: a capture fails if another graph is freed while it runs.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, pool=pool):
            yield
    finally:
        if was_enabled:
            gc.enable()
