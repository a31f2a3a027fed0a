"""What each layer would say: below "Next token", the same place as it is seen by a model that ended earlier."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from seq2see.core.errors import UserError
from seq2see.decoding.ranking import highest
from seq2see.explorer.bench import Bench
from seq2see.explorer.views.hiding import Hiding
from seq2see.explorer.views.next_token import CandidatesAsked, entropies, standing
from seq2see.explorer.views.writing import Writing
from seq2see.inspection.lens import layer_lens
from seq2see.inspection.record import Kind
from seq2see.inspection.trace import trace

STREAM: tuple[Kind, ...] = ("embedding", "stream")
NAMED = 4
"""Tokens that are named of each layer."""


def layers(bench: Bench, asked: CandidatesAsked) -> dict[str, Any]:
    """The most probable tokens of every layer for one place, and what each thinks of the last one's choice."""
    before = standing(bench, asked)
    return layers_at(before, before.place(asked.place))


def layers_at(before: Writing | Hiding, place: int) -> dict[str, Any]:
    """The same of what a model stands before."""
    scores = _lens(before, place)
    final = int(scores[-1].argmax())
    pieces = before.tokeniser.pieces
    return {
        "final": pieces([final])[0],
        "chance": scores[:, final].exp().tolist(),
        "entropy": entropies(scores).tolist(),
        "best": [
            [
                {"piece": piece, "probability": math.exp(row[token])}
                for piece, token in zip(pieces(best), best, strict=True)
            ]
            for row, best in zip(scores.tolist(), highest(scores, NAMED).tolist(), strict=True)
        ],
    }


@torch.no_grad()
def _lens(before: Writing | Hiding, place: int) -> torch.Tensor:
    """(layer, vocab): the first is what enters, the last what the model says."""
    if before.model.config.members:
        raise UserError("The members of an ensemble have layers of their own.", remedy="Open one of its runs.")
    module: Any = before.model.module
    batch, time = before.batch_at(place)
    with trace(module, STREAM) as seen:
        module(batch)
    record = seen.record("", {})
    # Of all times one is looked at; the first stays, because some heads treat it in a way of its own.
    times = sorted({0, time})
    signals = tuple(replace(each, values=each.values[times]) for each in record.signals if each.side == _side(before))
    return torch.from_numpy(layer_lens(module, replace(record, signals=signals))[:, -1].copy())


def _side(before: Writing | Hiding) -> str:
    return "target" if isinstance(before, Writing) else "source"
