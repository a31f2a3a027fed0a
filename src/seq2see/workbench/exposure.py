"""Teacher forcing against free running: the same sentence once with the truth at every step, once with own words.

In training a model is shown the true beginning at every step (teacher forcing). When it writes, it goes on from what it
has written itself, and a first mistake is a beginning that it has perhaps never seen: exposure bias (Ranzato et al.
2016). So three surprises are told of each step: that of the truth after the truth, that of the model's own choice after
its own words, and that of the truth after the model's own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seq2see.core.errors import UserError
from seq2see.decoding.choosers import Greedy
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.ranking import very_highest
from seq2see.sequences.tokenisers import EOS
from seq2see.workbench.writing import Writing

EXTRA = 10
"""Steps that a free run may take more than the truth has."""


@dataclass(frozen=True)
class Exposure:
    """A target step by step, and what is written in its place; losses are -ln p."""

    truth: list[str]
    free: list[str]
    """What the model writes by itself, the most probable token each time."""
    guess: list[str]
    """What it would have written at each step of the truth."""
    forced_loss: list[float]
    """Of the truth, after the truth."""
    free_loss: list[float]
    """Of the model's own words, after its own words."""
    truth_after_own_loss: list[float]
    """Of the truth, after the model's own words."""
    divergence: int | None
    """The first step at which the model's own words are not the truth."""
    text: str
    """What the model writes by itself, as a text."""


def exposure(before: Writing, target: str) -> Exposure:
    """How a target is read step by step from where a model stands, and what it writes instead."""
    truth = truth_of(before, target)
    free, own = _free_run(before, len(truth) + (EXTRA if before.model.reads else 0))
    forced = before.scores([*before.ids, *truth[:-1]])[len(before.ids) :]
    after_own = before.scores([*before.ids, *free[:-1]])[len(before.ids) :]
    pieces = before.tokeniser.pieces
    same = [one == other for one, other in zip(truth, free, strict=False)]
    return Exposure(
        truth=pieces(truth),
        free=pieces(free),
        guess=pieces(very_highest(forced).tolist()),
        forced_loss=[-float(row[token]) for row, token in zip(forced, truth, strict=True)],
        free_loss=[-each for each in own],
        truth_after_own_loss=[-float(row[token]) for row, token in zip(after_own, truth, strict=False)],
        divergence=same.index(False) if False in same else None,
        text=before.tokeniser.decode(free),
    )


def truth_of(before: Writing, target: str) -> list[int]:
    """A target as numbers, with its end; running text has none."""
    ids = before.model.tokenisers.target.encode(target)
    if not ids:
        raise UserError("There is no target to compare with.", remedy="Type what the right answer is.")
    return [*ids, EOS] if before.model.reads else ids


def _free_run(before: Writing, most: int) -> tuple[list[int], list[float]]:
    """What the model writes by itself, the most probable token each time, its end among them; and their log p."""
    module: Any = before.model.module
    ((answer,),) = decode(module, before.read, Greedy(), Limits(most), prefix=before.prefix)
    known = len(before.ids)
    said = [*answer.tokens[known:], *[EOS] * answer.finished]
    return said, list(answer.token_log_probabilities[known:])
