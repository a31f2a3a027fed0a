"""The view "Decode step by step": the search of a prediction as a tree of expanded and pruned hypotheses.

The search is the one that `predict` runs, recorded by `decoding/search_tree.py`, with the same settings and the same
seed: the best path of the page is the output of `model(text, ...)`.

A part of the view "Decode step by step": teacher forcing compared with free running.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.decoding.engine import Decoding
from seq2see.decoding.samplers import GNMT, Average, Hypothesis, LengthPenalty, NoPenalty
from seq2see.decoding.search_tree import SearchTree
from seq2see.explorer.schemas import InputRequest, InputText
from seq2see.explorer.views.next_token import PrefixRequest, decoder_context
from seq2see.explorer.workspace import Workspace
from seq2see.tasks import token_context as comparison
from seq2see.tasks.model import Model
from seq2see.tasks.token_context import GenerationContext

MAX_BEAMS = 8
"""The maximum beam width."""
MAX_STEPS = 200
"""The maximum number of steps of a search."""


class SearchTreeRequest(PrefixRequest):
    """A search with its settings."""

    strategy: Literal["greedy", "sample", "beam"] = "greedy"
    num_beams: Annotated[int, Field(ge=2, le=MAX_BEAMS)] = 4
    length_penalty: Literal["default", "none", "average", "gnmt"] = "default"
    """The length penalty; `default` is that of the model's recipe."""
    alpha: Annotated[float, Field(ge=-5, le=5)] = 1.0
    """The strength of the penalty `average` or `gnmt`."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_new_tokens: Annotated[int, Field(ge=1, le=MAX_STEPS)] = 24
    """The maximum number of new tokens; for language models at most half of the context length."""


def search_tree(workspace: Workspace, request: SearchTreeRequest) -> dict[str, Any]:
    """The search tree of a generation that continues the prefix, and its output."""
    context = decoder_context(workspace, request)
    default, limit = context.model.config.decoding, min(request.max_new_tokens, max_shown_tokens(context.model))
    decoding = default.with_(
        num_beams=request.num_beams if request.strategy == "beam" else 1,
        do_sample=request.strategy == "sample",
        num_return_sequences=1,
        max_new_tokens=limit,
        min_new_tokens=min(default.min_new_tokens, limit),
        length_penalty=_length_penalty(default, request),
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
    )
    return search_tree_of(context, decoding, request.seed)


def _length_penalty(default: Decoding, request: SearchTreeRequest) -> LengthPenalty:
    if request.length_penalty == "default":
        return default.length_penalty
    if request.length_penalty == "none":
        return NoPenalty()
    return Average(alpha=request.alpha) if request.length_penalty == "average" else GNMT(alpha=request.alpha)


def search_tree_of(context: GenerationContext, decoding: Decoding, seed: int) -> dict[str, Any]:
    """The search tree of a generation, and its output."""
    result = context.search(decoding, seed)
    best = result.hypotheses[0]
    return {
        "prefix_tokens": context.tokenizer.tokens(context.ids),
        "branches": _columns(context, result),
        "best_path": result.path(best, len(context.ids)),
        "answer": _hypothesis_fields(context, best),
        "max_new_tokens": decoding.max_new_tokens,
        "truncated": context.truncated,
    }


def max_shown_tokens(model: Model) -> int:
    """The maximum number of new tokens: a language model generates at most half of its context length at once."""
    return MAX_STEPS if model.has_source else min(model.config.max_prompt_tokens, MAX_STEPS)


def _columns(context: GenerationContext, result: SearchTree) -> dict[str, list[Any]]:
    """The nodes of the tree as columns, which take a third of the size of rows in JSON."""
    nodes = result.nodes
    return {
        "parent": [each.parent for each in nodes],
        "time": [each.time for each in nodes],
        "token_id": [each.token for each in nodes],
        "token": context.tokenizer.tokens([each.token for each in nodes]),
        "log_probability": [each.log_probability for each in nodes],
        "total": [each.total for each in nodes],
        "score": [each.score for each in nodes],
        "outcome": [each.outcome for each in nodes],
    }


def _hypothesis_fields(context: GenerationContext, hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "text": context.tokenizer.decode(hypothesis.tokens),
        "score": hypothesis.score,
        "log_probability": hypothesis.log_probability,
        "finished": hypothesis.finished,
        "length": len(hypothesis.tokens) + hypothesis.finished,
    }


class ExposureBiasRequest(InputRequest):
    """An input and its reference; for language models, a text and its true continuation."""

    target: InputText


def exposure_bias(workspace: Workspace, request: ExposureBiasRequest) -> dict[str, Any]:
    """Step by step, the losses with teacher forcing and with free running."""
    context = decoder_context(workspace, PrefixRequest(**request.model_dump(exclude={"target"})))
    count, limit = len(comparison.target_ids(context, request.target)), max_shown_tokens(context.model)
    if count > limit:
        message = f"The target has {count} tokens, and the maximum is {limit}."
        raise UserError(message, hint="Give a shorter one.")
    return asdict(comparison.exposure_bias(context, request.target))
