"""What each layer would say: below "Next token", the same place as it is seen by a model that ended earlier."""

from __future__ import annotations

import math
from typing import Any

from jaxtyping import Float
from torch import Tensor

from seq2see.decoding.topk import stable_topk_indices
from seq2see.runs.generation_context import GenerationContext
from seq2see.runs.layer_predictions import layer_predictions
from seq2see.runs.masked_context import MaskedContext

TOP_TOKENS = 4
"""Tokens that are named of each layer."""


def logit_lens_at(scorer: GenerationContext | MaskedContext, place: int) -> dict[str, Any]:
    """The most probable tokens of every layer for one place, and what each thinks of the last one's choice."""
    scores = layer_predictions(scorer, place)
    final = int(scores[-1].argmax())
    names = scorer.tokenizer.tokens
    return {
        "final_token": names([final])[0],
        "probability": scores[:, final].exp().tolist(),
        "entropy": entropies(scores).tolist(),
        "top_tokens": [
            [
                {"token": name, "probability": math.exp(row[token])}
                for name, token in zip(names(best), best, strict=True)
            ]
            for row, best in zip(scores.tolist(), stable_topk_indices(scores, TOP_TOKENS).tolist(), strict=True)
        ],
    }


def entropies(scores: Float[Tensor, "time vocab"]) -> Float[Tensor, "time"]:
    """How open the question is at each place, in bits: 0 if only one of the tokens that can be said is possible."""
    scores = scores.log_softmax(dim=1)
    return -(scores.exp() * scores.clamp(min=-1e9)).sum(dim=1) / math.log(2)
