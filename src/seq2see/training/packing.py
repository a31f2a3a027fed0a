"""An optimiser as a flat table of named tensors, the form in which checkpoints store it.

What an optimiser remembers of a weight is stored under the name of that weight, `encoder.weight/exp_avg`. Unpacking is
strict: another kind of optimiser, or a name or shape that differs, is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.models.packing import fill
from seq2see.training.steps import Steps


def pack_optimiser(optimiser: Steps) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What an optimiser remembers, by `weight/what`, and which kind it is."""
    tensors = {
        f"{name}/{what}": tensor for what, by_name in optimiser.memory.items() for name, tensor in by_name.items()
    }
    return tensors, {"kind": optimiser.kind}


def unpack_optimiser(optimiser: Steps, tensors: Mapping[str, Tensor], options: Mapping[str, Any]) -> None:
    """Make an optimiser of the same kind, over the same weights, remember what was packed."""
    if options["kind"] != optimiser.kind:
        raise UserError(f"The stored optimiser is {options['kind']}, and the one to restore is {optimiser.kind}.")
    places, _ = pack_optimiser(optimiser)
    fill(places, tensors, "memory of the optimiser")
