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
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import GreedySampler
from seq2see.decoding.topk import stable_argmax
from seq2see.runs.generation_context import GenerationContext
from seq2see.sequences.tokenizers import EOS

EXTRA = 10
"""Steps that a free run may take more than the truth has."""


@dataclass(frozen=True)
class ExposureBias:
    """A target step by step, and what is written in its place; losses are -ln p."""

    truth: list[str]
    free_running: list[str]
    """What the model writes by itself, the most probable token each time."""
    teacher_forced: list[str]
    """What it would have written at each step of the truth."""
    forced_loss: list[float]
    """Of the truth, after the truth."""
    free_loss: list[float]
    """Of the model's own words, after its own words."""
    truth_after_free_loss: list[float]
    """Of the truth, after the model's own words."""
    divergence: int | None
    """The first step at which the model's own words are not the truth."""
    text: str
    """What the model writes by itself, as a text."""


def exposure_bias(context: GenerationContext, target: str) -> ExposureBias:
    """How a target is read step by step from where a model stands, and what it writes instead."""
    truth = target_ids(context, target)
    free_running, own = _free_run(context, len(truth) + (EXTRA if context.model.has_source else 0))
    forced = context.scores([*context.ids, *truth[:-1]])[len(context.ids) :]
    after_own = context.scores([*context.ids, *free_running[:-1]])[len(context.ids) :]
    pieces = context.tokenizer.tokens
    same = [one == other for one, other in zip(truth, free_running, strict=False)]
    return ExposureBias(
        truth=pieces(truth),
        free_running=pieces(free_running),
        teacher_forced=pieces(stable_argmax(forced).tolist()),
        forced_loss=[-float(row[token]) for row, token in zip(forced, truth, strict=True)],
        free_loss=[-each for each in own],
        truth_after_free_loss=[-float(row[token]) for row, token in zip(after_own, truth, strict=False)],
        divergence=same.index(False) if False in same else None,
        text=context.tokenizer.decode(free_running),
    )


def target_ids(context: GenerationContext, target: str) -> list[int]:
    """A target as numbers, with its end; running text has none."""
    ids = context.model.tokenizers.target.encode(target)
    if not ids:
        raise UserError("There is no target to compare with.", hint="Type what the right answer is.")
    return [*ids, EOS] if context.model.has_source else ids


def _free_run(context: GenerationContext, max_tokens: int) -> tuple[list[int], list[float]]:
    """What the model writes by itself, the most probable token each time, its end among them; and their log p."""
    module: Any = context.model.module
    ((answer,),) = decode(module, context.source, GreedySampler(), Limits(max_tokens), prefix=context.prefix)
    known = len(context.ids)
    said = [*answer.tokens[known:], *[EOS] * answer.finished]
    return said, list(answer.token_log_probabilities[known:])
