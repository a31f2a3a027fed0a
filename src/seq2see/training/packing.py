"""An optimiser as a flat table of named tensors, the form in which checkpoints store it.

What an optimiser remembers of a weight is stored under the name of that weight, `encoder.weight/exp_avg`;
its options, which are plain values, go to JSON. Unpacking is strict: a name that differs is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.core.errors import UserError
from seq2see.models.packing import same_names


def pack_optimiser(
    optimiser: torch.optim.Optimizer, names: Mapping[str, nn.Parameter]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What an optimiser remembers: tensors by `weight/what`, and everything else as plain values.

    `names` are the model's weights, `dict(model.named_parameters())`.
    """
    name_of = {id(weight): name for name, weight in names.items()}
    tensors: dict[str, Tensor] = {}
    plain: dict[str, dict[str, Any]] = {}
    for weight, memory in optimiser.state.items():
        name = name_of[id(weight)]
        plain[name] = {what: value for what, value in memory.items() if not isinstance(value, Tensor)}
        tensors |= {f"{name}/{what}": value for what, value in memory.items() if isinstance(value, Tensor)}
    groups = [
        {**_plain(group), "params": [name_of[id(weight)] for weight in group["params"]]}
        for group in optimiser.param_groups
    ]
    return tensors, {"kind": type(optimiser).__name__, "groups": groups, "memory": plain}


def unpack_optimiser(
    optimiser: torch.optim.Optimizer,
    names: Mapping[str, nn.Parameter],
    tensors: Mapping[str, Tensor],
    options: Mapping[str, Any],
) -> None:
    """Make an optimiser of the same kind, over the same weights, remember what was packed."""
    name_of = {id(weight): name for name, weight in names.items()}
    now = [[name_of[id(weight)] for weight in group["params"]] for group in optimiser.param_groups]
    _same_optimiser(optimiser, now, options)
    memory: dict[str, dict[str, Any]] = {name: dict(values) for name, values in options["memory"].items()}
    for key, tensor in tensors.items():
        name, _, what = key.rpartition("/")
        if name not in memory:
            raise UserError(f"The stored optimiser remembers '{key}', but has no weight of that name.")
        memory[name][what] = tensor.clone()
    # torch numbers the weights through all groups; its own loader then puts each tensor where the
    # optimiser wants it (a fused Adam keeps its step counts beside the weights).
    number = {name: place for place, name in enumerate(name for group in now for name in group)}
    groups = [
        {**_as_here(stored, group), "params": [number[name] for name in group_names]}
        for stored, group, group_names in zip(options["groups"], optimiser.param_groups, now, strict=True)
    ]
    state = {number[name]: values for name, values in memory.items()}
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def _same_optimiser(optimiser: torch.optim.Optimizer, now: list[list[str]], options: Mapping[str, Any]) -> None:
    kind, stored = type(optimiser).__name__, options["groups"]
    if options["kind"] != kind:
        raise UserError(f"The stored optimiser is {options['kind']}, and the one to restore is {kind}.")
    if len(stored) != len(now):
        raise UserError(f"The stored optimiser has {len(stored)} groups of weights instead of {len(now)}.")
    for group, names, before in zip(optimiser.param_groups, now, stored, strict=True):
        same_names(names, before["params"], "optimised weight")
        same_names(group, before, "option of the optimiser")


def _plain(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group's options as JSON can hold them."""
    return {key: value.item() if isinstance(value, Tensor) else value for key, value in group.items()}


def _as_here(stored: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """JSON knows neither tuples nor tensors: what is one in this optimiser becomes one again.

    Whether a CUDA graph may record the optimiser (`capturable`) is up to the machine it is on now.
    """
    return {key: now[key] if key == "capturable" else _like(now[key], value) for key, value in stored.items()}


def _like(now: Any, value: Any) -> Any:
    if isinstance(now, Tensor):
        return torch.full_like(now, value)
    return tuple(value) if isinstance(now, tuple) else value
