"""The tokens generated so far (`History`), the results of decoding (`Hypothesis`), and their length penalties.

A length penalty converts a sum of log-probabilities to a score that can be compared across lengths. Every token makes
the sum smaller, so a plain sum prefers short outputs. A penalty is a small class that is its own setting. `lengths` is
the number of summed log-probabilities, including that of <eos>, so it is never 0. Every penalty is monotonic in the
length: beam search needs this property for the best attainable score of a hypothesis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from seq2see.core.settings import Settings
from seq2see.data.tokenizers.tokenizer import EOS, PAD


@dataclass(frozen=True)
class Hypothesis:
    """One output sequence for one input, with its log-probability."""

    tokens: tuple[int, ...]
    """The tokens, including a forced prefix, without <bos> and <eos>."""
    score: float
    """The log-probability after the length penalty; hypotheses are ranked by it."""
    log_probability: float
    """The sum of `token_log_probabilities`."""
    token_log_probabilities: tuple[float, ...]
    """One number for each token; a finished hypothesis has one more, for its <eos>."""
    finished: bool
    """False if decoding stopped before <eos>."""


@dataclass(frozen=True)
class History:
    """The tokens of every row so far. `append` writes in place, so a history, like a model's state, has one owner."""

    tokens: Int[Tensor, "row max_length"]
    log_probabilities: Float[Tensor, "row max_length"]
    prompt_lengths: Int[Tensor, "row"]
    """The number of forced tokens at the start of each row."""
    time: int
    """The number of tokens so far, the same for every row."""

    @staticmethod
    def empty(prompt_lengths: Int[Tensor, "row"], max_length: int) -> History:
        """A history without tokens, with a capacity of `max_length` tokens per row."""
        shape = (prompt_lengths.size(0), max_length)
        tokens = torch.full(shape, PAD, dtype=torch.long, device=prompt_lengths.device)
        return History(tokens, torch.zeros(shape, device=prompt_lengths.device), prompt_lengths, 0)

    @property
    def past_tokens(self) -> Int[Tensor, "row time"]:
        """The tokens so far."""
        return self.tokens[:, : self.time]

    def append(self, tokens: Int[Tensor, "row"], log_probabilities: Float[Tensor, "row"]) -> History:
        """Append one token to every row."""
        self.tokens[:, self.time] = tokens
        self.log_probabilities[:, self.time] = log_probabilities
        return type(self)(self.tokens, self.log_probabilities, self.prompt_lengths, self.time + 1)

    def reorder_and_append(
        self, rows: Int[Tensor, "row"], tokens: Int[Tensor, "row"], log_probabilities: Float[Tensor, "row"]
    ) -> History:
        """Return a copy in which row i is row `rows[i]` of the same input, with one more token.

        All rows of an input have the same prompt, so `prompt_lengths` does not change.
        """
        reordered = (self.tokens.index_select(0, rows), self.log_probabilities.index_select(0, rows))
        return type(self)(*reordered, self.prompt_lengths, self.time).append(tokens, log_probabilities)


def make_hypothesis(tokens: list[int], log_probabilities: list[float], length: int, score: float) -> Hypothesis:
    """Convert one row of a history; `length` is its number of tokens, including <eos>.

    >>> make_hypothesis([5, 2, 0], [-1.0, -0.5, 0.0], 2, -1.5).tokens
    (5,)
    """
    finished = tokens[length - 1] == EOS
    token_log_probabilities = tuple(log_probabilities[:length])
    return Hypothesis(
        tuple(tokens[: length - finished]),
        score,
        math.fsum(token_log_probabilities),
        token_log_probabilities,
        finished,
    )


Lengths = Int[Tensor, "*#any"] | int


class NoPenalty(Settings):
    """The log-probability of the whole output, without a length penalty."""

    kind: Literal["none"] = "none"

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums


class Average(Settings):
    """Divide by length ** alpha; alpha = 1 is the mean log-probability of a token.

    This is the length penalty of Hugging Face and fairseq.
    """

    kind: Literal["average"] = "average"
    alpha: float = 1.0
    """The exponent of the length: 0 is no penalty, 1 divides by the length."""

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums / lengths**self.alpha


class GNMT(Settings):
    """Divide by ((5 + length) / 6) ** alpha: a penalty with less effect on short outputs.

    Wu et al. 2016 (Google's Neural Machine Translation System), eq. 14, without the coverage term.
    """

    kind: Literal["gnmt"] = "gnmt"
    alpha: float = 0.6
    """The exponent: 0 is no penalty; the paper finds 0.6 to 0.7 best."""

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums / ((5 + lengths) / 6) ** self.alpha


LengthPenalty = Annotated[NoPenalty | Average | GNMT, Field(discriminator="kind")]
