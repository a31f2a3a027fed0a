"""Teacher forcing against free running: the same sentence once with the truth at every step, once with own words.

In training a model is shown the true beginning at every step (teacher forcing). When it writes, it goes on from what it
has written itself, and a first mistake is a beginning that it has perhaps never seen: exposure bias (Ranzato et al.
2016). So three surprises are told of each step: that of the truth after the truth, that of the model's own choice after
its own words, and that of the truth after the model's own words.
"""

from __future__ import annotations

from typing import Any

from seq2see.core.errors import UserError
from seq2see.decoding.choosers import Greedy
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.ranking import very_highest
from seq2see.explorer.bench import Bench
from seq2see.explorer.messages import AboutRun, Words
from seq2see.explorer.views.decode import longest
from seq2see.explorer.views.next_token import StandingAsked, written
from seq2see.explorer.views.writing import Writing
from seq2see.sequences.tokenisers import EOS

EXTRA = 10
"""Steps that a free run may take more than the truth has."""


class ExposureAsked(AboutRun):
    """A text and its true answer, or how it truly goes on."""

    text: Words
    target: Words


def exposure(bench: Bench, asked: ExposureAsked) -> dict[str, Any]:
    """Step by step, how a target is read and what is written in its place."""
    return exposure_of(written(bench, StandingAsked(run=asked.run, text=asked.text)), asked.target)


def exposure_of(before: Writing, target: str) -> dict[str, Any]:
    """Step by step, how a target is read and what is written in its place; losses are -ln p."""
    model, end = before.model, [EOS] if before.model.reads else []  # running text does not end
    truth = [*model.tokenisers.target.encode(target), *end]
    if len(truth) == len(end):
        raise UserError("There is no target to compare with.", remedy="Type what the right answer is.")
    if len(truth) > longest(model):
        what = f"The target has {len(truth)} tokens, and up to {longest(model)} are compared."
        raise UserError(what, remedy="Give a shorter one.")
    free, own = _free_run(before, len(truth) + (EXTRA if model.reads else 0))
    forced = before.scores([*before.ids, *truth[:-1]])[len(before.ids) :]
    after_own = before.scores([*before.ids, *free[:-1]])[len(before.ids) :]
    pieces = before.tokeniser.pieces
    same = [one == other for one, other in zip(truth, free, strict=False)]
    return {
        "truth": pieces(truth),
        "free": pieces(free),
        "guess": pieces(very_highest(forced).tolist()),
        "forced_loss": [-float(row[token]) for row, token in zip(forced, truth, strict=True)],
        "free_loss": [-each for each in own],
        "truth_after_own_loss": [-float(row[token]) for row, token in zip(after_own, truth, strict=False)],
        "divergence": same.index(False) if False in same else None,
        "text": before.tokeniser.decode(free),
    }


def _free_run(before: Writing, most: int) -> tuple[list[int], list[float]]:
    """What the model writes by itself, the most probable token each time, its end among them; and their log p."""
    module: Any = before.model.module
    ((answer,),) = decode(module, before.read, Greedy(), Limits(most), prefix=before.prefix)
    known = len(before.ids)
    said = [*answer.tokens[known:], *[EOS] * answer.finished]
    return said, list(answer.token_log_probabilities[known:])
