"""The device of a model, its precision and its class of definition; and a description of the machine."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


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


def scalar_on(device: torch.device, value: float) -> Tensor:
    """A number that kernels read on this device: those of a GPU read float32, a CPU keeps Python's precision."""
    return torch.tensor(value, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The name of the processor, and whether it multiplies 8-bit integers (VNNI), as far as the system reports them."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    name = facts.get("model name") or platform.machine()
    return f"{name} with AVX-512 VNNI" if "avx512_vnni" in facts.get("flags", "").split() else name


def describe_machine() -> dict[str, Any]:
    """The parts of the environment that a result depends on: versions, device, threads."""
    device = pick_device()
    return {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def plain_class(module: nn.Module) -> type[nn.Module]:
    """The class with the definition that this module computes; a fast subclass names it as `plain`."""
    plain: type[nn.Module] = getattr(type(module), "plain", type(module))
    return plain
