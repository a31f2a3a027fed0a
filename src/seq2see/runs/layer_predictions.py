"""Predictions from every layer at one position, with the logit lens."""

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
from seq2see.tasks.generation_context import GenerationContext
from seq2see.tasks.masked_context import MaskedContext

KINDS: tuple[SignalKind, ...] = ("embedding", "stream")


@torch.no_grad()
def layer_predictions(context: GenerationContext | MaskedContext, position: int = -1) -> Float[Tensor, "layer vocab"]:
    """Log-probabilities of the token at a position, layer by layer; see `inspection.logit_lens`.

    The first row is the input of the stack, the last is the prediction of the model. Position -1 is the next token, or
    the first [MASK].
    """
    if context.model.config.members:
        raise UserError("The members of an ensemble have separate layers.", hint="Open one of its runs.")
    module: Any = context.model.module
    batch, time = context.batch_at(context.position(position))
    with trace(module, KINDS) as activations:
        module(batch)
    record, side = activations.to_record("", {}), context.side
    # One time step is needed; the first is kept too, because some heads treat it separately.
    times = sorted({0, time})
    signals = tuple(replace(each, values=each.values[times]) for each in record.signals if each.side == side)
    return torch.from_numpy(logit_lens(module, replace(record, signals=signals))[:, -1].copy())
