"""The views of decoding: "Next token", and "Decode step by step" with the search of a prediction as a tree.

"Next token" has the probabilities of the next token, the surprisal of every token of a text, and the logit lens: the
predictions of every layer at one position. The page computes temperature, top-k, top-p and the repetition penalty
itself (`page/parts/token_probabilities.js`). A response contains the most probable tokens, every previous token, and
for all other tokens the logsumexp of their scores at each temperature of the slider. So a slider needs no new request.

"Decode step by step" has the expanded and pruned hypotheses of a search. The search is the one that `predict` runs,
recorded by `decoding/search_tree.py`, with the same settings and the same seed: the best path of the page is the output
of `model(text, ...)`. A part of this view compares teacher forcing with free running.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.engine import Decoding, GenerativeModel
from seq2see.decoding.samplers import GNMT, Average, Hypothesis, LengthPenalty, NoPenalty, stable_topk
from seq2see.decoding.search_tree import SearchTree
from seq2see.explorer.inputs import check_length, model_input, require_text_model
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS, InputRequest, InputText, RunRequest
from seq2see.explorer.workspace import Workspace
from seq2see.tasks import token_context as comparison
from seq2see.tasks.model import Model
from seq2see.tasks.token_context import GenerationContext, MaskedContext, check_token_ids, layer_predictions

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
            for row, best in zip(scores.tolist(), stable_topk(scores, TOP_TOKENS)[1].tolist(), strict=True)
        ],
    }


def entropies(scores: Float[Tensor, "time vocab"]) -> Float[Tensor, "time"]:
    """The entropy of the distribution at each position, in bits: 0 if only one token is possible."""
    scores = scores.log_softmax(dim=1)
    return -(scores.exp() * scores.clamp(min=-1e9)).sum(dim=1) / math.log(2)


TEMPERATURES = tuple(step / 20 for step in range(1, 41))
"""The temperatures of the page's slider: 0.05 to 2."""
TOP_PREDICTIONS = 5
"""The number of most probable tokens at each position."""


TokenIds = Annotated[tuple[Annotated[int, Field(ge=0, le=10_000_000)], ...], Field(max_length=MAX_SHOWN_TOKENS)]
"""A list of token ids."""


class PrefixRequest(InputRequest):
    """A request about an input and a prefix of the output, or about a text with masks."""

    target: InputText = ""
    """The prefix of the output."""
    forced_ids: TokenIds = ()
    """The ids of further tokens after the prefix."""


NextTokenPart = Literal["surprisal", "candidates", "lens"]


class NextTokenRequest(PrefixRequest):
    """A request for one or several parts of the analysis of a text."""

    parts: Annotated[tuple[NextTokenPart, ...], Field(min_length=1, max_length=3)]
    """The surprisal of every token; the candidates at one position; the logit lens at that position."""
    position: Annotated[int, Field(ge=-1, le=MAX_SHOWN_TOKENS)] = -1
    """Counted from 0; -1 is the position after the last token, or the first mask."""
    max_candidates: Annotated[int, Field(ge=1, le=10_000_000)] = 200
    """The number of candidates that are listed."""


class DetokenizeRequest(RunRequest):
    """A request for the text of tokens."""

    ids: TokenIds


def analyze(workspace: Workspace, request: NextTokenRequest) -> dict[str, Any]:
    """The requested parts of the analysis of a text, by name."""
    context = token_context(workspace, request)
    parts: dict[NextTokenPart, Callable[[], dict[str, Any]]] = {
        "surprisal": lambda: token_surprisals(context),
        "candidates": lambda: candidates_at(context, request.position, request.max_candidates),
        "lens": lambda: logit_lens_at(context, request.position),
    }
    return {part: parts[part]() for part in request.parts}


def detokenize(workspace: Workspace, request: DetokenizeRequest) -> dict[str, Any]:
    """The text of tokens, so that the page can replace one of them."""
    run = workspace.run(request.run)
    if not run.task.generates:
        require_text_model(run)
    tokenizer = run.model.tokenizers.target if run.task.generates else run.model.tokenizers.source
    check_token_ids(tokenizer, request.ids)
    return {"text": tokenizer.decode(request.ids)}


def token_context(workspace: Workspace, request: PrefixRequest) -> GenerationContext | MaskedContext:
    """The context of a masked language model or of a generative model."""
    run = workspace.run(request.run)
    try:
        context = run.task.token_context(run.model, model_input(workspace, request), request.target, request.forced_ids)
    except UserError as error:
        raise UserError(error.message, location=error.location or run.name, hint=error.hint) from None
    if isinstance(getattr(context, "source", None), Sequences):
        check_length(context.source.values.size(1))
    check_length(len(context.ids))
    return context


def decoder_context(workspace: Workspace, request: PrefixRequest) -> GenerationContext:
    """The context of a generative model: the source and the prefix."""
    run = workspace.run(request.run)
    # A speech recognizer with CTC or a transducer generates texts, but not token by token.
    if not run.task.generates or not isinstance(run.model.module, GenerativeModel):
        message = "This model does not generate texts token by token."
        raise UserError(message, location=run.name, hint="Choose a run that generates texts.")
    context: Any = token_context(workspace, request)
    return context


def candidates_at(context: GenerationContext | MaskedContext, position: int, max_candidates: int) -> dict[str, Any]:
    """The `max_candidates` most probable tokens at one position, and the logsumexps of all other tokens.

    -1 is the position after the last token, or the first mask.
    """
    position = context.position(position)
    scores, previous = context.scores_at(position), context.previous_tokens(position)
    best = stable_topk(scores[None], max_candidates)[1][0].tolist()
    listed = [token for token in dict.fromkeys([*best, *sorted(previous)]) if scores[token] > -math.inf]
    others = scores.double()
    others[listed] = -math.inf
    logsumexps = [float((others / temperature).logsumexp(0)) for temperature in TEMPERATURES]
    return {
        "position": position,
        "ids": listed,
        "tokens": context.tokenizer.tokens(listed),
        "scores": scores[listed].tolist(),
        "already_generated": [token in previous for token in listed],
        "rest": {
            "count": int((others > -math.inf).sum()),
            "max_score": _finite(float(others.max())),
            "temperatures": list(TEMPERATURES),
            "logsumexps": [_finite(each) for each in logsumexps],
        },
        "entropy": float(entropies(scores[None])[0]),
    }


def token_surprisals(context: GenerationContext | MaskedContext) -> dict[str, Any]:
    """The surprisal of every token of the text, the entropy at its position (both in bits), and the top predictions."""
    scores = context.position_scores()
    ids = context.ids[: scores.size(0)]
    best = stable_topk(scores, TOP_PREDICTIONS)[1] if ids else scores.long()[:, :0]
    names = context.tokenizer.tokens
    return {
        "ids": context.ids,
        "tokens": names(context.ids),
        "text": context.tokenizer.decode(context.ids),
        "mask_positions": context.masked_positions,
        "surprisal": [_bits(float(row[token])) for row, token in zip(scores, ids, strict=True)],
        "entropy": entropies(scores).tolist(),
        "top_predictions": [
            [
                {"token": name, "probability": math.exp(float(row[token]))}
                for name, token in zip(names(top), top, strict=True)
            ]
            for row, top in zip(scores, best.tolist(), strict=True)
        ],
        "truncated": context.truncated,
    }


def _finite(score: float) -> float | None:
    """The score, or None for minus infinity, which JSON does not have."""
    return score if score > -math.inf else None


def _bits(score: float) -> float | None:
    """-log₂ p, or None if the probability is 0."""
    return -score / math.log(2) if score > -math.inf else None


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
