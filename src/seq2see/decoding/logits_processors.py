"""Rules: what may not be said next, or should rather not be.

A rule sees what every row has said and the scores of what it could say next, and puts minus infinity on
what it forbids. It changes nothing else, so what is left are still the model's own log-probabilities; only
`RepetitionPenalty`, which forbids nothing, makes others of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.decoding.hypotheses import History
from seq2see.sequences.tokenizers import EOS, PAD

LogitsProcessor = Callable[[History, Tensor], Tensor]
"""(what was said, scores (row, vocab)) -> scores (row, vocab)"""


@dataclass(frozen=True)
class MinNewTokens:
    """No <eos> before `min_new_tokens` tokens were said, a forced prefix not counted."""

    min_new_tokens: int

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        ending = torch.arange(scores.ngram_size(1), device=scores.device) == EOS
        too_early = history.time - history.prompt_lengths < self.min_new_tokens
        return scores.masked_fill(too_early[:, None] & ending, -torch.inf)


@dataclass(frozen=True)
class NoRepeatNGram:
    """No `ngram_size` tokens in succession are said a second time."""

    ngram_size: int

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        if history.time < self.ngram_size:
            return scores
        windows = history.past_tokens.unfold(
            1, self.ngram_size, 1
        )  # (row, window, size): all that was said in succession
        ending = history.past_tokens[:, history.time - self.ngram_size + 1 :]
        begun_again = (windows[:, :, :-1] == ending[:, None]).all(-1)
        # Where nothing is begun again PAD is forbidden, which is never said anyway.
        forbidden = torch.where(begun_again, windows[:, :, -1], PAD)
        return scores.scatter(1, forbidden, -torch.inf)


@dataclass(frozen=True)
class RepetitionPenalty:
    """What was said before becomes less probable: its log-probability counts `penalty` times (Keskar et al. 2019).

    The paper divides logits, which are known only up to a constant: whether dividing makes one smaller depends on its
    sign. A log-probability has no such freedom and is never positive, so one rule does for all. What is nearly
    sure stays so unless the factor is large. Afterwards all probabilities add up to 1 again.
    """

    penalty: float
    """1 changes nothing."""

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        said = torch.zeros_like(scores, dtype=torch.bool).scatter(1, history.past_tokens, True)
        return torch.where(said, scores * self.penalty, scores).log_softmax(dim=1)
