"""The start of a command: large modules are imported without garbage collection, and a GPU is initialized meanwhile.

The initialization of a GPU takes a second or two. First the driver finds the GPU and creates its CUDA context. This
needs neither torch nor Python, so it can be done before torch is imported (`create_cuda_context`). Then torch uses that
context, loads its libraries and computes a small matmul, while other modules are imported and data are read
(`warm_up_cuda`).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection during imports, and exclude the imported objects from later collections.

    Collections during the import of torch take a third of a second. If torch is already imported, nothing is done,
    because freezing would also keep the garbage of the caller.
    """
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


DRIVER = "libcuda.so.1"
LIBRARY = "libtorch_cuda.so"
"""A file that only the CUDA builds of torch contain."""


def run_in_background(work: Callable[[], Any]) -> Thread:
    """Start a function in a background thread, because its result will be needed soon."""
    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread


def create_cuda_context() -> None:
    """Create the CUDA context of the first GPU, which all libraries share; without a GPU nothing happens.

    Nothing happens with a CPU build of torch either, since the context would use GPU memory without need.
    """
    torch_spec = find_spec("torch")
    if not (torch_spec and torch_spec.origin and Path(torch_spec.origin).with_name("lib").joinpath(LIBRARY).exists()):
        return
    # The driver reads this variable once, at its initialization. Torch sets it too, but later.
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def warm_up_cuda() -> None:
    """Compute a small matmul on the GPU, if there is one."""
    import torch  # here, because the CUDA context is created before torch is imported

    if torch.cuda.is_available():
        matrix = torch.ones(8, 8, device="cuda")
        matrix @ matrix


@cache
def cuda_warmup() -> Thread:
    """The warm-up thread of this process; the first call starts it."""
    return run_in_background(warm_up_cuda)
