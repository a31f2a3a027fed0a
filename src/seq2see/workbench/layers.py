"""What each layer of a model would say of one place: the same place as it is seen by a model that ended earlier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.inspection.lens import layer_lens
from seq2see.inspection.record import Kind
from seq2see.inspection.trace import trace
from seq2see.workbench.hiding import Hiding
from seq2see.workbench.writing import Writing

STREAM: tuple[Kind, ...] = ("embedding", "stream")


@torch.no_grad()
def layers_before(before: Writing | Hiding, place: int = -1) -> Float[Tensor, "layer vocab"]:
    """Log-probabilities of what stands at a place, layer by layer; see `inspection.lens.layer_lens`.

    The first layer is what enters the stack, the last is what the model says. -1 is the place behind all, or that of
    the first blank.
    """
    if before.model.config.members:
        raise UserError("The members of an ensemble have layers of their own.", remedy="Open one of its runs.")
    module: Any = before.model.module
    batch, time = before.batch_at(before.place(place))
    with trace(module, STREAM) as seen:
        module(batch)
    record, side = seen.record("", {}), "target" if isinstance(before, Writing) else "source"
    # Of all times one is looked at; the first stays, because some heads treat it in a way of its own.
    times = sorted({0, time})
    signals = tuple(replace(each, values=each.values[times]) for each in record.signals if each.side == side)
    return torch.from_numpy(layer_lens(module, replace(record, signals=signals))[:, -1].copy())
