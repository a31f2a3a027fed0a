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
from seq2see.decoding.ranking import highest
from seq2see.explorer.bench import Bench
from seq2see.explorer.inputs import refuse_long, refuse_wordless
from seq2see.explorer.messages import MOST_TOKENS, AboutGiven, AboutRun, Words
from seq2see.explorer.records import given
from seq2see.explorer.views.lens import entropies, layers_at
from seq2see.workbench.ask import Asker
from seq2see.workbench.fill import Fill
from seq2see.workbench.hiding import Hiding, hiding
from seq2see.workbench.predict import Model
from seq2see.workbench.writing import Writing, refuse_unknown, writing

TEMPERATURES = tuple(step / 20 for step in range(1, 41))
"""Those that the page's slider has: 0.05 to 2."""
EXPECTED = 5
"""Tokens that are named at each place as expected."""


Taken = Annotated[tuple[Annotated[int, Field(ge=0, le=10_000_000)], ...], Field(max_length=MOST_TOKENS)]
"""Tokens that somebody took one by one, as numbers of the vocabulary."""


class StandingAsked(AboutGiven):
    """What a model stands before: what it is given, or a text with blanks in it, and the beginning of its answer."""

    target: Words = ""
    """The beginning of its answer."""
    taken: Taken = ()
    """Tokens behind that."""


Part = Literal["strip", "candidates", "layers"]


class ToldAsked(StandingAsked):
    """What a model makes of a text: several things are asked for at once, so that a page waits for one answer."""

    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=3)]
    """Every token of the text; what may stand at one place; what each layer would say there."""
    place: Annotated[int, Field(ge=-1, le=MOST_TOKENS)] = -1
    """Counted from 0; -1 is the place behind all, or that of the first blank."""
    most: Annotated[int, Field(ge=1, le=10_000_000)] = 200
    """Candidates that are told one by one."""


class TextAsked(AboutRun):
    """What tokens are as a text."""

    ids: Taken


def told(bench: Bench, asked: ToldAsked) -> dict[str, Any]:
    """The parts that are asked for, by their names; the text is read once for all of them."""
    before = standing(bench, asked)
    parts: dict[Part, Callable[[], dict[str, Any]]] = {
        "strip": lambda: strip_of(before),
        "candidates": lambda: candidates_at(before, asked.place, asked.most),
        "layers": lambda: layers_at(before, asked.place),
    }
    return {part: parts[part]() for part in asked.parts}


def text_of(bench: Bench, asked: TextAsked) -> dict[str, Any]:
    """The text of tokens, so that the page can put another in the place of one."""
    run = bench.run(asked.run)
    if not run.settings.writes:
        refuse_wordless(run)
    tokeniser = run.model.tokenisers.target if run.settings.writes else run.model.tokenisers.source
    refuse_unknown(tokeniser, asked.ids)
    return {"text": tokeniser.decode(asked.ids)}


def standing(bench: Bench, asked: StandingAsked) -> Writing | Hiding:
    """What the model stands before."""
    run = bench.run(asked.run)
    if fills(run.model):
        found = hiding(run.model, asked.text)
        refuse_long(len(found.ids))
        return found
    return written(bench, asked)


def written(bench: Bench, asked: StandingAsked) -> Writing:
    """The same of a model that writes."""
    run = bench.run(asked.run)
    if not run.settings.writes:
        raise UserError("This model writes no texts.", where=run.name, remedy="Take one that translates or writes.")
    found = writing(run.model, given(bench, asked), asked.target, asked.taken)
    refuse_long(found.read.values.size(1) if isinstance(found.read, Sequences) else 0)
    refuse_long(len(found.ids))
    return found


def fills(model: Model) -> bool:
    """Whether it is a model that guesses hidden tokens."""
    return isinstance(model, Asker) and isinstance(model.question, Fill)


def candidates_at(before: Writing | Hiding, place: int, most: int) -> dict[str, Any]:
    """The `most` probable tokens for one place, and what a softmax needs to know of the others.

    -1 is the place behind all, or that of the first blank.
    """
    place = before.place(place)
    scores, said = before.at(place), before.said(place)
    best = highest(scores[None], most)[0].tolist()
    listed = [token for token in dict.fromkeys([*best, *sorted(said)]) if scores[token] > -math.inf]
    others = scores.double()
    others[listed] = -math.inf
    sums = [float((others / temperature).logsumexp(0)) for temperature in TEMPERATURES]
    return {
        "place": place,
        "ids": listed,
        "pieces": before.tokeniser.pieces(listed),
        "scores": scores[listed].tolist(),
        "said": [token in said for token in listed],
        "rest": {
            "count": int((others > -math.inf).sum()),
            "highest": _finite(float(others.max())),
            "temperatures": list(TEMPERATURES),
            "sums": [_finite(each) for each in sums],
        },
        "entropy": float(entropies(scores[None])[0]),
    }


def strip_of(before: Writing | Hiding) -> dict[str, Any]:
    """Every token of the text: how surprising it is, how open the question was, and what was expected, in bits."""
    scores = before.along()
    ids = before.ids[: scores.size(0)]
    best = highest(scores, EXPECTED) if ids else scores.long()[:, :0]
    pieces = before.tokeniser.pieces
    return {
        "ids": before.ids,
        "pieces": pieces(before.ids),
        "text": before.tokeniser.decode(before.ids),
        "blanks": before.blanks,
        "surprise": [_bits(float(row[token])) for row, token in zip(scores, ids, strict=True)],
        "entropy": entropies(scores).tolist(),
        "expected": [
            [{"piece": piece, "probability": math.exp(float(row[token]))} for piece, token in named]
            for row, named in zip(
                scores, [list(zip(pieces(row), row, strict=True)) for row in best.tolist()], strict=True
            )
        ],
        "cut": before.cut,
    }


def _finite(score: float) -> float | None:
    """A number that JSON has; there is none for what is impossible."""
    return score if score > -math.inf else None


def _bits(score: float) -> float | None:
    """-log₂ p; None where the model holds it for impossible."""
    return -score / math.log(2) if score > -math.inf else None
