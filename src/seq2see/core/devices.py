"""Where a model runs, in which precision, and what that machine is."""

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
    """Triton compiles with what CC names, else with gcc or clang; an image with a GPU need not have one."""
    compilers = [environment["CC"]] if environment.get("CC") else ["gcc", "clang"]
    return find_spec("triton") is not None and any(map(shutil.which, compilers))


TRITON = has_triton(os.environ)
"""Whether kernels of our own can run: they are written in triton, which torch's builds for a GPU bring along.

Where they cannot, nothing is lost but speed: every kernel has a plain twin.
"""


_allowed = [True]


@contextlib.contextmanager
def use_kernels(allowed: bool) -> Iterator[None]:
    """In here kernels of our own may be used for training, or may not."""
    _allowed.append(allowed)
    try:
        yield
    finally:
        _allowed.pop()


def kernels_enabled(device: torch.device) -> bool:
    """Whether kernels of our own may be used for training on this device."""
    return TRITON and _allowed[-1] and device.type == "cuda"


def pick_device() -> torch.device:
    """The GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_of(module: nn.Module) -> torch.device:
    """Where a model is: where its weights are, or, if it has none, its tables."""
    return next(chain(module.parameters(), module.buffers())).device


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[Any]:
    """Run matrix products in bf16 if asked to; weights, sums and losses stay float32."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def can_use_kernels(vectors: Tensor) -> bool:
    """Whether our own kernels for training are there for these: in bf16, on a GPU, where gradients are wanted."""
    if not (kernels_enabled(vectors.device) and torch.is_grad_enabled()):
        return False
    return torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16


WARMUP_RUNS = 2
"""Runs before a CUDA graph is recorded, in which libraries make their choices and torch reserves memory."""


@contextlib.contextmanager
def side_stream() -> Iterator[None]:
    """What is done in here is done on a stream of its own, as recording a CUDA graph demands, and over at the end."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def describe_machine() -> dict[str, Any]:
    """What a result depends on besides the recipe: versions, device, threads."""
    device = pick_device()
    return {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
