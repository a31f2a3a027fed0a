"""What each layer of a model would say of one place: the same place as it is seen by a model that ended earlier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.inspection.logit_lens import logit_lens
from seq2see.inspection.record import SignalKind
from seq2see.inspection.trace import trace
from seq2see.runs.generation_context import GenerationContext
from seq2see.runs.masked_context import MaskedContext

KINDS: tuple[SignalKind, ...] = ("embedding", "stream")


@torch.no_grad()
def layer_predictions(context: GenerationContext | MaskedContext, place: int = -1) -> Float[Tensor, "layer vocab"]:
    """Log-probabilities of what stands at a place, layer by layer; see `inspection.lens.logit_lens`.

    The first layer is what enters the stack, the last is what the model says. -1 is the place behind all, or that of
    the first blank.
    """
    if context.model.config.members:
        raise UserError("The members of an ensemble have layers of their own.", hint="Open one of its runs.")
    module: Any = context.model.module
    batch, time = context.batch_at(context.position(place))
    with trace(module, KINDS) as seen:
        module(batch)
    record, side = seen.to_record("", {}), "target" if isinstance(context, GenerationContext) else "source"
    # Of all times one is looked at; the first stays, because some heads treat it in a way of its own.
    times = sorted({0, time})
    signals = tuple(replace(each, values=each.values[times]) for each in record.signals if each.side == side)
    return torch.from_numpy(logit_lens(module, replace(record, signals=signals))[:, -1].copy())
