"""The view "Decode step by step": how an answer is made, told as a tree of all that was followed and left.

The search is the one that `predict` runs (`decoding/watching.py` looks over its shoulder), with the same settings and
the same seed: what the page shows as the winner is what `model(text, ...)` answers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from seq2see.decoding.hypotheses import Hypothesis
from seq2see.decoding.penalties import GNMT, Average, NoPenalty, Penalty
from seq2see.decoding.settings import Decoding
from seq2see.decoding.watching import Tree
from seq2see.explorer.bench import Bench
from seq2see.explorer.views.next_token import StandingAsked, written
from seq2see.workbench.predict import Model
from seq2see.workbench.writing import Writing

WIDEST = 8
"""Hypotheses side by side, at most: more cannot be told apart on a page."""
LONGEST = 200
"""Turns of a search that are shown, at most."""


class TreeAsked(StandingAsked):
    """A search that is to be watched."""

    way: Literal["greedy", "sample", "beam"] = "greedy"
    num_beams: Annotated[int, Field(ge=2, le=WIDEST)] = 4
    penalty: Literal["own", "none", "average", "gnmt"] = "own"
    """How answers of different length are compared; `own` is as the model's recipe says."""
    alpha: Annotated[float, Field(ge=-5, le=5)] = 1.0
    """The strength of an average or GNMT penalty."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_new_tokens: Annotated[int, Field(ge=1, le=LONGEST)] = 24
    """A language model with a window is shown going on for half of it, at most."""


def tree(bench: Bench, asked: TreeAsked) -> dict[str, Any]:
    """The whole search that goes on from what is written, and its answer."""
    before = written(bench, asked)
    own, most = before.model.config.decoding, min(asked.max_new_tokens, longest(before.model))
    decoding = own.with_(
        num_beams=asked.num_beams if asked.way == "beam" else 1,
        do_sample=asked.way == "sample",
        num_return_sequences=1,
        max_new_tokens=most,
        min_new_tokens=min(own.min_new_tokens, most),
        length_penalty=_penalty(own, asked),
        temperature=asked.temperature,
        top_k=asked.top_k,
        top_p=asked.top_p,
    )
    return tree_of(before, decoding, asked.seed)


def _penalty(own: Decoding, asked: TreeAsked) -> Penalty:
    if asked.penalty == "own":
        return own.length_penalty
    if asked.penalty == "none":
        return NoPenalty()
    return Average(alpha=asked.alpha) if asked.penalty == "average" else GNMT(alpha=asked.alpha)


def tree_of(before: Writing, decoding: Decoding, seed: int) -> dict[str, Any]:
    """The whole search that goes on from what is written, and its answer."""
    grown = before.search(decoding, seed)
    answer = grown.answers[0]
    return {
        "given": before.tokeniser.pieces(before.ids),
        "branches": _columns(before, grown),
        "winner": grown.path(answer, len(before.ids)),
        "answer": _told(before, answer),
        "max_new_tokens": decoding.max_new_tokens,
        "cut": before.cut,
    }


def longest(model: Model) -> int:
    """Tokens that are shown at most: a language model with a window goes on for half of it in one stretch."""
    return LONGEST if model.reads else min(model.config.sight, LONGEST)


def _columns(before: Writing, grown: Tree) -> dict[str, list[Any]]:
    """The branches column by column, which takes a third of the space."""
    names = ("parent", "time", "token", "log_probability", "total", "score", "fate")
    columns: dict[str, list[Any]] = {name: [getattr(each, name) for each in grown.branches] for name in names}
    return columns | {"piece": before.tokeniser.pieces(columns["token"])}


def _told(before: Writing, answer: Hypothesis) -> dict[str, Any]:
    return {
        "text": before.tokeniser.decode(answer.tokens),
        "score": answer.score,
        "log_probability": answer.log_probability,
        "finished": answer.finished,
        "length": len(answer.tokens) + answer.finished,
    }
