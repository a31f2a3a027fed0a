"""The logit lens of the view "Next token": the predictions of every layer at one position."""

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
"""The number of most probable tokens for each layer."""


def logit_lens_at(context: GenerationContext | MaskedContext, position: int) -> dict[str, Any]:
    """The most probable tokens of every layer at one position, and the probability of the final prediction in each."""
    scores = layer_predictions(context, position)
    final = int(scores[-1].argmax())
    names = context.tokenizer.tokens
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
    """The entropy of the distribution at each position, in bits: 0 if only one token is possible."""
    scores = scores.log_softmax(dim=1)
    return -(scores.exp() * scores.clamp(min=-1e9)).sum(dim=1) / math.log(2)
