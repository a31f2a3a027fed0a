"""Logits processors: they forbid tokens, or make them less probable, before the sampler selects one.

A processor gets the history of every row and the log-probabilities of the next tokens, and sets those of forbidden
tokens to minus infinity. The other log-probabilities stay those of the model; only `RepetitionPenalty`, which forbids
no token, changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.data.tokenizers.tokenizer import EOS, PAD
from seq2see.decoding.samplers import History

LogitsProcessor = Callable[[History, Tensor], Tensor]
"""(history, scores (row, vocab)) -> scores (row, vocab)"""


@dataclass(frozen=True)
class MinNewTokens:
    """Forbid <eos> before `min_new_tokens` tokens; a forced prefix is not counted."""

    min_new_tokens: int

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        is_eos = torch.arange(scores.size(1), device=scores.device) == EOS
        too_short = history.time - history.prompt_lengths < self.min_new_tokens
        return scores.masked_fill(too_short[:, None] & is_eos, -torch.inf)


@dataclass(frozen=True)
class NoRepeatNGram:
    """Forbid tokens that would complete an n-gram of `ngram_size` tokens for the second time."""

    ngram_size: int

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        if history.time < self.ngram_size:
            return scores
        ngrams = history.past_tokens.unfold(1, self.ngram_size, 1)  # (row, ngram, ngram_size)
        last_tokens = history.past_tokens[:, history.time - self.ngram_size + 1 :]
        is_repeated = (ngrams[:, :, :-1] == last_tokens[:, None]).all(-1)
        # PAD stands for "no token is forbidden": it is never generated in any case.
        forbidden = torch.where(is_repeated, ngrams[:, :, -1], PAD)
        return scores.scatter(1, forbidden, -torch.inf)


@dataclass(frozen=True)
class RepetitionPenalty:
    """Multiply the log-probabilities of tokens that occurred before by `penalty` (after Keskar et al. 2019).

    The paper divides logits. They are defined only up to a constant, so the effect of a division depends on their sign.
    Log-probabilities are unique and never positive, so one rule fits all. A token that is nearly certain stays so
    unless the factor is large. The result is normalized: all probabilities sum to 1.
    """

    penalty: float
    """The factor; 1 has no effect."""

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        is_repeated = torch.zeros_like(scores, dtype=torch.bool).scatter(1, history.past_tokens, True)
        return torch.where(is_repeated, scores * self.penalty, scores).log_softmax(dim=1)
