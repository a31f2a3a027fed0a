"""A model as a flat table of named tensors, the content of a safetensors file.

A safetensors file holds only names and tensors, and no two tensors may share memory. So a weight with two names (a tied
embedding) is stored once. Loading copies values into the existing tensors, so tied weights stay tied, and it is strict:
a name or a shape that differs is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from seq2see.core.errors import UserError
from seq2see.models.ngram_lm import NgramTable


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The weights and buffers of a model by name; a shared tensor only under its first name."""
    tensors: dict[str, Tensor] = {}
    ids: set[int] = set()
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in ids:
            ids.add(id(tensor))
            tensors[name] = tensor.detach()
    return tensors


def load_named_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy stored values into a model that must have exactly these names, shapes and dtypes."""
    for name, part in module.named_modules():
        if isinstance(part, NgramTable):  # its sizes depend on the training text
            prefix = f"{name}."
            part.resize({key[len(prefix) :]: tensor for key, tensor in tensors.items() if key.startswith(prefix)})
    copy_tensors(named_tensors(module), tensors, "weight")


@torch.no_grad()
def copy_tensors(targets: Mapping[str, Tensor], tensors: Mapping[str, Tensor], kind: str) -> None:
    """Copy stored tensors into the tensors of the same names, if all of them have the same shapes and dtypes."""
    check_names(targets, tensors, kind)
    for name, target in targets.items():
        stored = tensors[name]
        if stored.shape != target.shape or stored.dtype != target.dtype:
            raise UserError(
                f"The stored {kind} '{name}' is {_shape_and_dtype(stored)}, "
                f"and the model's is {_shape_and_dtype(target)}.",
                hint="The weights belong to a model with other settings.",
            )
    for name, target in targets.items():  # after all checks, so that no model is loaded in part
        target.copy_(tensors[name])


def check_names(expected: Collection[str], stored: Collection[str], kind: str) -> None:
    """Raise an error if the stored names are not the expected ones."""
    missing = [name for name in expected if name not in stored]
    if missing:
        raise UserError(f"The {kind} '{missing[0]}' is missing from the stored tensors.", hint=_more(missing))
    unexpected = [name for name in stored if name not in expected]
    if unexpected:
        raise UserError(f"The stored {kind} '{unexpected[0]}' is unexpected.", hint=_more(unexpected))


def _more(names: list[str]) -> str:
    return f"The same holds for {len(names) - 1} more." if len(names) > 1 else ""


def _shape_and_dtype(tensor: Tensor) -> str:
    shape = " x ".join(map(str, tensor.shape)) or "a single number"
    return f"{shape} of {str(tensor.dtype).removeprefix('torch.')}"
