"""The view "Decode step by step": how an answer is made, told as a tree of all that was followed and left.

The search is the one that `predict` runs (`decoding/search_tree.py` looks over its shoulder), with the same settings and
the same seed: what the page shows as the winner is what `model(text, ...)` answers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from seq2see.decoding.hypotheses import Hypothesis
from seq2see.decoding.length_penalties import GNMT, Average, LengthPenalty, NoPenalty
from seq2see.decoding.search_tree import SearchTree
from seq2see.decoding.settings import Decoding
from seq2see.explorer.views.next_token import PrefixRequest, generation_scorer
from seq2see.explorer.workspace import Workspace
from seq2see.runs.generation_context import GenerationContext
from seq2see.runs.model import Model

MAX_BEAMS = 8
"""Hypotheses side by side, at most: more cannot be told apart on a page."""
MAX_STEPS = 200
"""Turns of a search that are shown, at most."""


class SearchTreeRequest(PrefixRequest):
    """A search that is to be watched."""

    strategy: Literal["greedy", "sample", "beam"] = "greedy"
    num_beams: Annotated[int, Field(ge=2, le=MAX_BEAMS)] = 4
    length_penalty: Literal["default", "none", "average", "gnmt"] = "default"
    """The length penalty; `default` is that of the model's recipe."""
    alpha: Annotated[float, Field(ge=-5, le=5)] = 1.0
    """The strength of an average or GNMT penalty."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_new_tokens: Annotated[int, Field(ge=1, le=MAX_STEPS)] = 24
    """A language model with a window is shown going on for half of it, at most."""


def search_tree(workspace: Workspace, request: SearchTreeRequest) -> dict[str, Any]:
    """The whole search that goes on from what is written, and its answer."""
    scorer = generation_scorer(workspace, request)
    own, most = scorer.model.config.decoding, min(request.max_new_tokens, max_shown_tokens(scorer.model))
    decoding = own.with_(
        num_beams=request.num_beams if request.strategy == "beam" else 1,
        do_sample=request.strategy == "sample",
        num_return_sequences=1,
        max_new_tokens=most,
        min_new_tokens=min(own.min_new_tokens, most),
        length_penalty=_penalty(own, request),
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
    )
    return search_tree_of(scorer, decoding, request.seed)


def _penalty(own: Decoding, request: SearchTreeRequest) -> LengthPenalty:
    if request.length_penalty == "default":
        return own.length_penalty
    if request.length_penalty == "none":
        return NoPenalty()
    return Average(alpha=request.alpha) if request.length_penalty == "average" else GNMT(alpha=request.alpha)


def search_tree_of(scorer: GenerationContext, decoding: Decoding, seed: int) -> dict[str, Any]:
    """The whole search that goes on from what is written, and its answer."""
    result = scorer.search(decoding, seed)
    answer = result.hypotheses[0]
    return {
        "prefix_tokens": scorer.tokenizer.tokens(scorer.ids),
        "branches": _columns(scorer, result),
        "best_path": result.path(answer, len(scorer.ids)),
        "answer": _answer_fields(scorer, answer),
        "max_new_tokens": decoding.max_new_tokens,
        "truncated": scorer.truncated,
    }


def max_shown_tokens(model: Model) -> int:
    """Tokens that are shown at most: a language model with a window goes on for half of it in one stretch."""
    return MAX_STEPS if model.has_source else min(model.config.max_prompt_tokens, MAX_STEPS)


def _columns(scorer: GenerationContext, result: SearchTree) -> dict[str, list[Any]]:
    """The branches column by column, which takes a third of the space."""
    nodes = result.nodes
    return {
        "parent": [each.parent for each in nodes],
        "time": [each.time for each in nodes],
        "token_id": [each.token for each in nodes],
        "token": scorer.tokenizer.tokens([each.token for each in nodes]),
        "log_probability": [each.log_probability for each in nodes],
        "total": [each.total for each in nodes],
        "score": [each.score for each in nodes],
        "outcome": [each.outcome for each in nodes],
    }


def _answer_fields(scorer: GenerationContext, answer: Hypothesis) -> dict[str, Any]:
    return {
        "text": scorer.tokenizer.decode(answer.tokens),
        "score": answer.score,
        "log_probability": answer.log_probability,
        "finished": answer.finished,
        "length": len(answer.tokens) + answer.finished,
    }
