"""What each layer would say: below "Next token", the same place as it is seen by a model that ended earlier."""

from __future__ import annotations

import math
from typing import Any

from seq2see.decoding.ranking import highest
from seq2see.explorer.bench import Bench
from seq2see.explorer.views.next_token import CandidatesAsked, entropies, standing
from seq2see.workbench.hiding import Hiding
from seq2see.workbench.layers import layers_before
from seq2see.workbench.writing import Writing

NAMED = 4
"""Tokens that are named of each layer."""


def layers(bench: Bench, asked: CandidatesAsked) -> dict[str, Any]:
    """The most probable tokens of every layer for one place, and what each thinks of the last one's choice."""
    return layers_at(standing(bench, asked), asked.place)


def layers_at(before: Writing | Hiding, place: int) -> dict[str, Any]:
    """The same of what a model stands before."""
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
