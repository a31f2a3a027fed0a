"""What decoding writes down while it runs (`History`) and what it hands back (`Hypothesis`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2see.sequences.tokenizers import EOS, PAD


@dataclass(frozen=True)
class Hypothesis:
    """One answer to one input, and how much the model thinks of it."""

    tokens: tuple[int, ...]
    """What was said, a forced prefix included, without <bos> and <eos>."""
    score: float
    """What answers are ranked by: the log-probability after the length penalty."""
    log_probability: float
    """The sum of `token_log_probabilities`."""
    token_log_probabilities: tuple[float, ...]
    """One number a token; a finished answer has one more, for its <eos>."""
    finished: bool
    """False if the answer was cut off before it came to its <eos>."""


@dataclass(frozen=True)
class History:
    """What every row has said so far. Like a model's state it has one owner, and `append` writes into it."""

    tokens: Int[Tensor, "row room"]
    log_probabilities: Float[Tensor, "row room"]
    prompt_lengths: Int[Tensor, "row"]
    """How many tokens at the head of each row were given to it, not chosen."""
    time: Any
    """How many tokens are written, in every row alike. In a recorded round (`graphs.py`) it is a tensor of one
    number, because a plain number would be recorded as it is; so nothing is done with it that only numbers can.
    """

    @staticmethod
    def empty(prompt_lengths: Int[Tensor, "row"], max_length: int) -> History:
        """Nothing said yet, with space for `max_length` tokens a row."""
        shape = (prompt_lengths.size(0), max_length)
        tokens = torch.full(shape, PAD, dtype=torch.long, device=prompt_lengths.device)
        return History(tokens, torch.zeros(shape, device=prompt_lengths.device), prompt_lengths, 0)

    @property
    def past_tokens(self) -> Int[Tensor, "row time"]:
        """The tokens written so far."""
        return self.tokens[:, : self.time]

    def append(self, tokens: Int[Tensor, "row"], log_probabilities: Float[Tensor, "row"]) -> History:
        """One more token for every row."""
        _write(self.tokens, self.time, tokens)
        _write(self.log_probabilities, self.time, log_probabilities)
        return History(self.tokens, self.log_probabilities, self.prompt_lengths, self.time + 1)

    def reorder_and_append(
        self, rows: Int[Tensor, "row"], tokens: Int[Tensor, "row"], log_probabilities: Float[Tensor, "row"]
    ) -> History:
        """One more token for every row, which goes on with the story of another row of its input; a copy.

        All rows of an input were forced alike, so `prompt_lengths` stays as it is.
        """
        said = (self.tokens.index_select(0, rows), self.log_probabilities.index_select(0, rows))
        return History(*said, self.prompt_lengths, self.time).append(tokens, log_probabilities)


def _write(table: Tensor, time: int | Tensor, column: Tensor) -> None:
    if isinstance(time, int):
        table[:, time] = column
    else:
        table.index_copy_(1, time, column[:, None])


def make_hypothesis(tokens: list[int], log_probabilities: list[float], length: int, score: float) -> Hypothesis:
    """Read one written row; `length` counts its tokens, a last <eos> among them.

    >>> hypothesis([5, 2, 0], [-1.0, -0.5, 0.0], 2, -1.5).tokens
    (5,)
    """
    finished = tokens[length - 1] == EOS
    counted = tuple(log_probabilities[:length])
    return Hypothesis(tuple(tokens[: length - finished]), score, math.fsum(counted), counted, finished)
