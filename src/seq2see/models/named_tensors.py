"""A model as a flat table of named tensors, the form in which files hold it.

A safetensors file holds names and tensors and nothing else, and no two of its tensors may share memory.
So a weight used under two names (a tied embedding) is stored once. Unpacking puts values into the
tensors that are there, so what was tied stays tied, and it is strict: a name or shape that differs is
an error that names it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from seq2see.core.errors import UserError
from seq2see.models.ngram_lm import NgramTable


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The weights and buffers of a model by name; of a shared one only the first name."""
    packed: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            packed[name] = tensor.detach()
    return packed


def load_named_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put stored values into a model that must have exactly these names, shapes and kinds of number."""
    for name, part in module.named_modules():
        if isinstance(part, NgramTable):  # only the text knew how much there would be to count
            inside = f"{name}."
            part.resize({key[len(inside) :]: tensor for key, tensor in tensors.items() if key.startswith(inside)})
    copy_tensors(named_tensors(module), tensors, "weight")


@torch.no_grad()
def copy_tensors(places: Mapping[str, Tensor], tensors: Mapping[str, Tensor], kind: str) -> None:
    """Put stored values where their names are, if all of them fit."""
    check_names(places, tensors, kind)
    for name, place in places.items():
        stored = tensors[name]
        if stored.shape != place.shape or stored.dtype != place.dtype:
            raise UserError(
                f"The stored {kind} '{name}' is {_shape_and_dtype(stored)}, and the model's is {_shape_and_dtype(place)}.",
                hint="The weights belong to a model with other settings.",
            )
    for name, place in places.items():  # only now: a model is never left half filled
        place.copy_(tensors[name])


def check_names(wanted: Collection[str], stored: Collection[str], kind: str) -> None:
    """Refuse what was stored under other names than are wanted."""
    missing = [name for name in wanted if name not in stored]
    if missing:
        raise UserError(f"The {kind} '{missing[0]}' is missing from what was stored.", hint=_more(missing))
    unexpected = [name for name in stored if name not in wanted]
    if unexpected:
        raise UserError(f"The stored {kind} '{unexpected[0]}' has no place here.", hint=_more(unexpected))


def _more(names: list[str]) -> str:
    return f"So it is with {len(names) - 1} more." if len(names) > 1 else ""


def _shape_and_dtype(tensor: Tensor) -> str:
    shape = " x ".join(map(str, tensor.shape)) or "a single number"
    return f"{shape} of {str(tensor.dtype).removeprefix('torch.')}"
