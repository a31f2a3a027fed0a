"""An optimizer as a flat table of named tensors, the form in which checkpoints store it.

The state of a weight is stored under the weight's name, `encoder.weight/exp_avg`. Loading is strict: a different kind
of optimizer, or a name or shape that differs, is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.models.named_tensors import copy_tensors
from seq2see.training.optimizers import Optimizer


def optimizer_state_dict(optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state tensors of an optimizer by `weight/state`, and its kind."""
    tensors = {
        f"{name}/{state}": tensor for state, by_name in optimizer.state.items() for name, tensor in by_name.items()
    }
    return tensors, {"kind": optimizer.kind}


def load_optimizer_state_dict(optimizer: Optimizer, tensors: Mapping[str, Tensor], options: Mapping[str, Any]) -> None:
    """Load a state into an optimizer of the same kind over the same weights."""
    if options["kind"] != optimizer.kind:
        raise UserError(f"The stored optimizer is {options['kind']}, and the one to restore is {optimizer.kind}.")
    state, _ = optimizer_state_dict(optimizer)
    copy_tensors(state, tensors, "state of the optimizer")
