"""A GPU wakes up in the background: what it does before its first product takes a second or two.

First the driver looks for it, and makes the context in which everything on it will be done. That takes neither torch
nor Python, so it can be over before torch is imported (`create_cuda_context`). Then torch finds the context made, loads its libraries
and computes something, while everything else is imported and data are read (`warm_up_cuda`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

DRIVER = "libcuda.so.1"
LIBRARY = "libtorch_cuda.so"
"""What torch's builds for a GPU have, and others have not."""


def run_in_background(work: Callable[[], Any]) -> Thread:
    """Begin in the background what will be needed soon."""
    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread


def create_cuda_context() -> None:
    """Let the driver make the context of the first GPU, which all libraries share; without a GPU nothing happens.

    Nor does anything where torch is built for CPUs alone: it would take a GPU's memory from others for nothing.
    """
    found = find_spec("torch")
    if not (found and found.origin and Path(found.origin).with_name("lib").joinpath(LIBRARY).exists()):
        return
    # The driver reads once how kernels are to be loaded. Torch says this too, but would come too late.
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def warm_up_cuda() -> None:
    """Compute something on the GPU, if there is one."""
    import torch  # here, because the driver is roused before it is imported

    if torch.cuda.is_available():
        some = torch.ones(8, 8, device="cuda")
        some @ some


@cache
def cuda_warmup() -> Thread:
    """The one thread in which the GPU wakes up; whoever asks first begins it."""
    return run_in_background(warm_up_cuda)
