"""The view "Next token": what a model thinks comes next, and how surprised it is by what there is.

Temperature, top-k, top-p and the penalty for repeating are the page's own arithmetic (`page/parts/chances.js`): from
here it gets the most probable tokens, every token that was said before, and for all the others together the sum that a
softmax needs, at each temperature that can be set. So nothing is asked again when a slider moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.topk import stable_topk_indices
from seq2see.explorer.inputs import check_length, require_text_model
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS, InputRequest, InputText, RunRequest
from seq2see.explorer.traces import model_input
from seq2see.explorer.views.logit_lens import entropies, logit_lens_at
from seq2see.explorer.workspace import Workspace
from seq2see.runs.fill_mask import FillMask
from seq2see.runs.generation_context import GenerationContext, check_token_ids, generation_context
from seq2see.runs.masked_context import MaskedContext, masked_context
from seq2see.runs.model import Model
from seq2see.runs.predictor import Predictor

TEMPERATURES = tuple(step / 20 for step in range(1, 41))
"""Those that the page's slider has: 0.05 to 2."""
TOP_PREDICTIONS = 5
"""Tokens that are named at each place as expected."""


TokenIds = Annotated[tuple[Annotated[int, Field(ge=0, le=10_000_000)], ...], Field(max_length=MAX_SHOWN_TOKENS)]
"""Tokens that somebody took one by one, as numbers of the vocabulary."""


class PrefixRequest(InputRequest):
    """What a model stands before: what it is given, or a text with blanks in it, and the beginning of its answer."""

    target: InputText = ""
    """The beginning of its answer."""
    forced_ids: TokenIds = ()
    """Tokens behind that."""


NextTokenPart = Literal["surprisal", "candidates", "lens"]


class NextTokenRequest(PrefixRequest):
    """What a model makes of a text: several things are asked for at once, so that a page waits for one answer."""

    parts: Annotated[tuple[NextTokenPart, ...], Field(min_length=1, max_length=3)]
    """Every token of the text; what may stand at one place; what each layer would say there."""
    position: Annotated[int, Field(ge=-1, le=MAX_SHOWN_TOKENS)] = -1
    """Counted from 0; -1 is the place behind all, or that of the first blank."""
    max_candidates: Annotated[int, Field(ge=1, le=10_000_000)] = 200
    """Candidates that are told one by one."""


class DetokenizeRequest(RunRequest):
    """What tokens are as a text."""

    ids: TokenIds


def analyze(workspace: Workspace, request: NextTokenRequest) -> dict[str, Any]:
    """The parts that are asked for, by their names; the text is read once for all of them."""
    scorer = token_scorer(workspace, request)
    parts: dict[NextTokenPart, Callable[[], dict[str, Any]]] = {
        "surprisal": lambda: token_surprisals(scorer),
        "candidates": lambda: candidates_at(scorer, request.position, request.max_candidates),
        "lens": lambda: logit_lens_at(scorer, request.position),
    }
    return {part: parts[part]() for part in request.parts}


def detokenize(workspace: Workspace, request: DetokenizeRequest) -> dict[str, Any]:
    """The text of tokens, so that the page can put another in the place of one."""
    run = workspace.run(request.run)
    if not run.settings.generates:
        require_text_model(run)
    tokenizer = run.model.tokenizers.target if run.settings.generates else run.model.tokenizers.source
    check_token_ids(tokenizer, request.ids)
    return {"text": tokenizer.decode(request.ids)}


def token_scorer(workspace: Workspace, request: PrefixRequest) -> GenerationContext | MaskedContext:
    """What the model stands before."""
    run = workspace.run(request.run)
    if is_masked_model(run.model):
        found = masked_context(run.model, request.text)
        check_length(len(found.ids))
        return found
    return generation_scorer(workspace, request)


def generation_scorer(workspace: Workspace, request: PrefixRequest) -> GenerationContext:
    """The same of a model that writes."""
    run = workspace.run(request.run)
    if not run.settings.generates:
        raise UserError("This model writes no texts.", location=run.name, hint="Take one that translates or writes.")
    found = generation_context(run.model, model_input(workspace, request), request.target, request.forced_ids)
    check_length(found.source.values.size(1) if isinstance(found.source, Sequences) else 0)
    check_length(len(found.ids))
    return found


def is_masked_model(model: Model) -> bool:
    """Whether it is a model that guesses hidden tokens."""
    return isinstance(model, Predictor) and isinstance(model.task, FillMask)


def candidates_at(scorer: GenerationContext | MaskedContext, position: int, max_candidates: int) -> dict[str, Any]:
    """The `max_candidates` probable tokens for one place, and what a softmax needs to know of the others.

    -1 is the place behind all, or that of the first blank.
    """
    position = scorer.position(position)
    scores, previous = scorer.scores_at(position), scorer.previous_tokens(position)
    best = stable_topk_indices(scores[None], max_candidates)[0].tolist()
    listed = [token for token in dict.fromkeys([*best, *sorted(previous)]) if scores[token] > -math.inf]
    others = scores.double()
    others[listed] = -math.inf
    logsumexps = [float((others / temperature).logsumexp(0)) for temperature in TEMPERATURES]
    return {
        "position": position,
        "ids": listed,
        "tokens": scorer.tokenizer.tokens(listed),
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


def token_surprisals(scorer: GenerationContext | MaskedContext) -> dict[str, Any]:
    """Every token of the text: how surprising it is, how open the question was, and what was expected, in bits."""
    scores = scorer.position_scores()
    ids = scorer.ids[: scores.size(0)]
    best = stable_topk_indices(scores, TOP_PREDICTIONS) if ids else scores.long()[:, :0]
    names = scorer.tokenizer.tokens
    return {
        "ids": scorer.ids,
        "tokens": names(scorer.ids),
        "text": scorer.tokenizer.decode(scorer.ids),
        "mask_positions": scorer.masked_positions,
        "surprisal": [_bits(float(row[token])) for row, token in zip(scores, ids, strict=True)],
        "entropy": entropies(scores).tolist(),
        "top_predictions": [
            [{"token": name, "probability": math.exp(float(row[token]))} for name, token in named]
            for row, named in zip(
                scores, [list(zip(names(row), row, strict=True)) for row in best.tolist()], strict=True
            )
        ],
        "truncated": scorer.truncated,
    }


def _finite(score: float) -> float | None:
    """A number that JSON has; there is none for what is impossible."""
    return score if score > -math.inf else None


def _bits(score: float) -> float | None:
    """-log₂ p; None where the model holds it for impossible."""
    return -score / math.log(2) if score > -math.inf else None
