"""What each layer would say: below "Next token", the same place as it is seen by a model that ended earlier."""

from __future__ import annotations

import math
from typing import Any

from jaxtyping import Float
from torch import Tensor

from seq2see.decoding.ranking import highest
from seq2see.workbench.hiding import Hiding
from seq2see.workbench.layers import layers_before
from seq2see.workbench.writing import Writing

NAMED = 4
"""Tokens that are named of each layer."""


def layers_at(before: Writing | Hiding, place: int) -> dict[str, Any]:
    """The most probable tokens of every layer for one place, and what each thinks of the last one's choice."""
    scores = layers_before(before, place)
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


def entropies(scores: Float[Tensor, "time vocab"]) -> Float[Tensor, "time"]:
    """How open the question is at each place, in bits: 0 if only one of the tokens that can be said is possible."""
    scores = scores.log_softmax(dim=1)
    return -(scores.exp() * scores.clamp(min=-1e9)).sum(dim=1) / math.log(2)
