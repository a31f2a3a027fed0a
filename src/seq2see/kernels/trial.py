"""Whether kernels of our own run on this machine, found out by trying one."""

from functools import cache

import torch

from seq2see.core.devices import TRITON


@cache
def kernels_run(device: torch.device) -> bool:
    """Triton compiles at first use, and for that asks for a C compiler, and in bf16 for a GPU that knows it.

    Where one of these is missing, nothing is lost but speed: whoever asks goes on without the kernels.
    """
    if not TRITON:
        return False
    try:
        from seq2see.kernels.few_rows import Layer, product

        numbers = torch.ones(1, 16, dtype=torch.bfloat16, device=device)
        product(numbers, Layer(numbers))
    except Exception:  # triton, its compiler and the driver each fail in ways of their own
        return False
    return True
