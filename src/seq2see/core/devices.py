"""Devices: the GPU or the CPU, mixed precision, the use of triton kernels, and a description of the machine."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn


def has_triton(environment: Mapping[str, str]) -> bool:
    """Whether triton is installed with a C compiler: `CC`, gcc or clang; not every container with a GPU has one."""
    compilers = [environment["CC"]] if environment.get("CC") else ["gcc", "clang"]
    return find_spec("triton") is not None and any(map(shutil.which, compilers))


TRITON = has_triton(os.environ)
"""Whether our own kernels can run: they are written in triton, which the CUDA builds of torch include.

Without them, everything is computed by torch's kernels, only slower: every kernel has a plain equivalent.
"""


_allowed = [True]


@contextlib.contextmanager
def use_kernels(allowed: bool) -> Iterator[None]:
    """Allow or forbid our own training kernels inside this context."""
    _allowed.append(allowed)
    try:
        yield
    finally:
        _allowed.pop()


def kernels_enabled(device: torch.device) -> bool:
    """Whether our own training kernels are allowed and available on this device."""
    return TRITON and _allowed[-1] and device.type == "cuda"


def pick_device() -> torch.device:
    """The GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_of(module: nn.Module) -> torch.device:
    """The device of a model: that of its parameters, or of its buffers if it has none."""
    return next(chain(module.parameters(), module.buffers())).device


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[Any]:
    """Mixed precision: in bf16, matmuls are computed in bf16; weights, sums and losses stay float32."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def can_use_kernels(vectors: Tensor) -> bool:
    """Whether our own training kernels support these tensors: bf16 autocast on a GPU, with gradients enabled."""
    if not (kernels_enabled(vectors.device) and torch.is_grad_enabled()):
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


def describe_machine() -> dict[str, Any]:
    """The parts of the environment that a result depends on: versions, device, threads."""
    device = pick_device()
    return {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
