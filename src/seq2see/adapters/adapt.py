"""Put adapters on a model from outside, train them, and merge them into its matrices.

Matrices have the names of their linear layers: `decoder.blocks.0.feed_forward.up_proj`. A layer that computes several
matrices at once is split into its parts, each with its own name: `qkv_proj` into `q_proj`, `k_proj` and `v_proj`,
`kv_proj` of cross-attention into `k_proj` and `v_proj`, `up_proj` of a gated feed-forward layer into `gate_proj` and
`up_proj`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from seq2see.adapters.layers import Adapter, StackedLinear, split_rows
from seq2see.adapters.settings import AdapterSettings
from seq2see.core.errors import UserError
from seq2see.core.seeds import seed_torch
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.feed_forward import GatedFeedForward
from seq2see.models.build import copy_tensors

BLOCKS = ("encoder.", "decoder.")
"""The parts of a model whose linear layers are adapted by default; embeddings and heads are outside of both."""
SHOWN = 8
"""The number of names that an error lists."""


def stacked_rows(parent: nn.Module, name: str) -> dict[str, int]:
    """The parts of a linear layer of a module that computes several matrices at once, with their rows; else none."""
    if isinstance(parent, SelfAttention) and name == "qkv_proj":
        size = parent.width // parent.heads
        return {"q_proj": parent.width, "k_proj": parent.kv_heads * size, "v_proj": parent.kv_heads * size}
    if isinstance(parent, CrossAttention) and name == "kv_proj":
        return {"k_proj": parent.width, "v_proj": parent.width}
    if isinstance(parent, GatedFeedForward) and name == "up_proj":
        half = parent.down_proj.in_features
        return {"gate_proj": half, "up_proj": half}
    return {}


def matrix_shapes(model: nn.Module) -> dict[str, tuple[int, int]]:
    """The rows and columns of all matrices that can be adapted, by name, in the order of the model."""
    return {name: shape for shapes in _parts_by_layer(model).values() for name, shape in shapes.items()}


def chosen_matrices(model: nn.Module, settings: AdapterSettings) -> set[str]:
    """The names of the matrices that an adapter is for; an error if there are none, or if it does not fit one."""
    shapes = matrix_shapes(model)
    matches = {pattern: {name for name in shapes if fnmatchcase(name, pattern)} for pattern in settings.matrices}
    matches = matches or {"": {name for name in shapes if name.startswith(BLOCKS)}}
    for pattern, names in matches.items():
        if not names:
            kinds = list(dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name) for name in shapes))
            more = f" and {len(kinds) - SHOWN} more" if len(kinds) > SHOWN else ""
            hint = f"The matrices are {', '.join(kinds[:SHOWN])}{more}." if kinds else "It has no linear layers."
            place = f"matches '{pattern}'" if pattern else "is in an encoder or a decoder"
            raise UserError(f"No matrix of this model {place}.", location="adapter.matrices", hint=hint)
    chosen = set().union(*matches.values())
    for name in sorted(chosen):
        try:
            settings.check(*shapes[name])
        except UserError as error:
            raise UserError(error.message, location=name, hint=error.hint) from None
    return chosen


def adapt(model: nn.Module, settings: AdapterSettings, seed: int = 1, new: Collection[str] = ()) -> list[str]:
    """Freeze all weights, except those in `new`, and put an adapter on each chosen matrix; return the matrices' names.

    Random initial weights of an adapter depend on the seed and on the name of its matrix.
    """
    if is_adapted(model):
        raise UserError("This model has adapters already.", hint="Merge them first.")
    chosen = chosen_matrices(model, settings)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name in new)
    for layer_name, shapes in _parts_by_layer(model).items():
        layer = model.get_submodule(layer_name)
        assert isinstance(layer, nn.Linear)
        if layer_name in chosen and list(shapes) == [layer_name]:
            _replace(model, layer_name, _wrap(layer, settings, seed, layer_name))
        elif chosen.intersection(shapes):
            rows = {name.rpartition(".")[2]: count for name, (count, _) in shapes.items()}
            parts: dict[str, nn.Module] = {
                part: _wrap(linear, settings, seed, name) if name in chosen else linear.requires_grad_(False)
                for name, (part, linear) in zip(shapes, split_rows(layer, rows).items(), strict=True)
            }
            _replace(model, layer_name, StackedLinear(parts))
    return list(adapters_of(model))


def adapters_of(model: nn.Module) -> dict[str, Adapter]:
    """The adapters of a model by the names of their matrices."""
    modules = model.named_modules()
    return {_STACK.sub(".", name): each for name, each in modules if isinstance(each, Adapter)}


_STACK = re.compile(r"\.\w+\.parts\.")
"""The layer of a stacked matrix, between the module and the part: `.qkv_proj.parts.`."""


def is_adapted(model: nn.Module) -> bool:
    """Whether a model has adapters."""
    return any(isinstance(each, Adapter) for each in model.modules())


def adapter_weights(model: nn.Module) -> dict[str, Tensor]:
    """The trained weights of all adapters, by matrix and weight: `decoder.blocks.0.feed_forward.up_proj.scales`."""
    return {
        f"{matrix}.{name}": weight.detach()
        for matrix, adapter in adapters_of(model).items()
        for name, weight in adapter.named_parameters(recurse=False)
    }


def load_adapter_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy stored weights into the adapters of a model, which must have exactly these names and shapes."""
    copy_tensors(adapter_weights(model), weights, "adapter weight")


@torch.no_grad()
def merge(model: nn.Module) -> nn.Module:
    """Replace all adapters by plain linear layers with the changed matrices; all weights can be trained again."""
    for name, layer in _outermost(model):
        _replace(model, name, layer.merged())
    return model.requires_grad_(True)


@contextmanager
def merged(model: nn.Module) -> Iterator[nn.Module]:
    """The model with merged matrices inside this context, and with its adapters again after it."""
    layers = _outermost(model)
    try:
        with torch.no_grad():
            for name, layer in layers:
                _replace(model, name, layer.merged())
        yield model
    finally:
        for name, layer in layers:
            _replace(model, name, layer)


def _outermost(model: nn.Module) -> list[tuple[str, Adapter | StackedLinear]]:
    """The modules in the places of linear layers; a part of a stacked matrix is none."""
    modules = model.named_modules()
    return [
        (name, each) for name, each in modules if isinstance(each, Adapter | StackedLinear) and ".parts." not in name
    ]


def _parts_by_layer(model: nn.Module) -> dict[str, dict[str, tuple[int, int]]]:
    """The names of the matrices of each linear layer, with their rows and columns."""
    by_layer = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            parent, _, child = name.rpartition(".")
            rows = stacked_rows(model.get_submodule(parent), child)
            parts = {f"{parent}.{part}": count for part, count in rows.items()} or {name: layer.out_features}
            by_layer[name] = {part: (count, layer.in_features) for part, count in parts.items()}
    return by_layer


def _wrap(layer: nn.Linear, settings: AdapterSettings, seed: int, name: str) -> Adapter:
    """The adapter of a layer, whose random initial weights depend on seed and name."""
    seed_torch(seed, f"adapter of {name}")
    return settings.wrap(layer)


def _replace(model: nn.Module, name: str, layer: nn.Module) -> None:
    """Put a module in the place of the one with this name."""
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, layer.train(model.training))
