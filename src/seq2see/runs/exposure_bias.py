"""Exposure bias: teacher forcing compared with free running on one example.

In training, the decoder input is the true prefix at every step (teacher forcing). In generation, it is the prefix that
the model generated itself, and after a first mistake this prefix may be unlike all training prefixes: exposure bias
(Ranzato et al. 2016). Three losses are reported for each step: of the true token after the true prefix, of the
generated token after the generated prefix, and of the true token after the generated prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import GreedySampler
from seq2see.tasks.generation_context import GenerationContext

EXTRA = 10
"""Additional steps of the free run beyond the length of the target."""


@dataclass(frozen=True)
class ExposureBias:
    """A target and a greedy output, step by step; losses are -ln p."""

    truth: list[str]
    free_running: list[str]
    """The greedy output of the model."""
    teacher_forced: list[str]
    """The most probable token at each step with the true prefix."""
    forced_loss: list[float]
    """Of the true token, after the true prefix."""
    free_loss: list[float]
    """Of the generated token, after the generated prefix."""
    truth_after_free_loss: list[float]
    """Of the true token, after the generated prefix."""
    divergence: int | None
    """The first step at which the generated token differs from the true one."""
    text: str
    """The greedy output as a text."""


def exposure_bias(context: GenerationContext, target: str) -> ExposureBias:
    """Compare a target with the greedy output from the same context."""
    truth = target_ids(context, target)
    free_running, log_probabilities = _free_run(context, len(truth) + (EXTRA if context.model.has_source else 0))
    forced = context.scores([*context.ids, *truth[:-1]])[len(context.ids) :]
    after_generated = context.scores([*context.ids, *free_running[:-1]])[len(context.ids) :]
    tokens = context.tokenizer.tokens
    equal = [true == generated for true, generated in zip(truth, free_running, strict=False)]
    return ExposureBias(
        truth=tokens(truth),
        free_running=tokens(free_running),
        teacher_forced=tokens(forced.argmax(dim=1).tolist()),
        forced_loss=[-float(row[token]) for row, token in zip(forced, truth, strict=True)],
        free_loss=[-each for each in log_probabilities],
        truth_after_free_loss=[-float(row[token]) for row, token in zip(after_generated, truth, strict=False)],
        divergence=equal.index(False) if False in equal else None,
        text=context.tokenizer.decode(free_running),
    )


def target_ids(context: GenerationContext, target: str) -> list[int]:
    """The token ids of a target, with <eos> except for running text."""
    ids = context.model.tokenizers.target.encode(target)
    if not ids:
        raise UserError("The target is empty.", hint="Enter the correct output.")
    return [*ids, EOS] if context.model.has_source else ids


def _free_run(context: GenerationContext, max_tokens: int) -> tuple[list[int], list[float]]:
    """The token ids of the greedy output, <eos> included, and their log-probabilities."""
    module: Any = context.model.module
    ((hypothesis,),) = decode(module, context.source, GreedySampler(), Limits(max_tokens), prefix=context.prefix)
    prefix_length = len(context.ids)
    output = [*hypothesis.tokens[prefix_length:], *[EOS] * hypothesis.finished]
    return output, list(hypothesis.token_log_probabilities[prefix_length:])
