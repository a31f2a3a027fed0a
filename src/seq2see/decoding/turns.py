"""One turn of beam search: from the scores of all next tokens to the hypotheses that live on.

`plain_turn` says what is done; it is what a GPU runs, and a CPU without a compiler. With a small model and few
inputs its thirty operators take longer than the model itself, so on a CPU `native_turn` does the same in one call
of C++ (`cpp/beam.hpp`), and a test says that both agree to the last bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.decoding.choosers import Step
from seq2see.decoding.compiler import loaded_library
from seq2see.decoding.hypotheses import History
from seq2see.decoding.ranking import highest_scores, perhaps
from seq2see.sequences.tokenisers import EOS, PAD

WIDEST = 32
"""Hypotheses side by side, at most, in C++: it keeps the best by moving them up one by one."""
ENDING, LOST, NOT_NUMBERS = 1, 2, -1  # what `native_turn` answers, as in cpp/beam.hpp
Fields = ctypes.c_int64 * 22
"""The numbers and addresses of `Turn` in cpp/beam.hpp, in its order."""


@dataclass(frozen=True)
class Live:
    """Where a search stands before a turn; its inputs have `width` rows each, one after another."""

    sums: Float[Tensor, "input width"]
    done: Bool[Tensor, "input"]
    history: History
    rows: Int[Tensor, "input width"]
    """The number of every row."""


@dataclass(frozen=True)
class Ended:
    """The `width` best continuations of each input, those that end among them."""

    sums: Float[Tensor, "input width"]
    parents: Int[Tensor, "input width"]
    ends: Bool[Tensor, "input width"]


@dataclass(frozen=True)
class Turn:
    """What a turn came to: the best `width` continuations of each input that do not end."""

    sums: Float[Tensor, "input width"]
    step: Step
    history: History
    ended: Ended | None
    """None if nothing ended that anybody waits for."""
    perhaps_lost: bool
    """False if every input still has a hypothesis to follow."""


def take_turn(scores: Float[Tensor, "row vocab"], live: Live) -> Turn:
    """The same by whichever twin is faster here."""
    if scores.is_cuda:
        return plain_turn(scores, live)
    return native_turn(scores, live) or plain_turn(scores, live)


def plain_turn(scores: Float[Tensor, "row vocab"], live: Live) -> Turn:
    """Continue every hypothesis by every token, set those aside that end, and write down what the best others say."""
    width = live.sums.size(1)
    totals, parents, tokens = candidates(scores, live, 2 * width)
    ends, ended = tokens == EOS, None
    if perhaps(ends):
        ended = Ended(totals[:, :width], parents[:, :width], ends[:, :width])
        # A stable sort moves those that end behind the others and leaves the order otherwise as it is.
        order = ends.byte().argsort(dim=1, stable=True)
        totals, parents, tokens = (values.gather(1, order) for values in (totals, parents, tokens))
    step = _step(scores, parents[:, :width], tokens[:, :width], live)
    assert step.parents is not None
    history = live.history.continued(step.parents, step.tokens, step.log_probabilities)
    return Turn(totals[:, :width], step, history, ended, perhaps_lost=True)


def candidates(scores: Tensor, live: Live, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `most` best continuations of each input: their sums, the rows they continue, their tokens."""
    inputs, width = live.sums.shape
    # First within each row, which spares adding and comparing whole vocabularies.
    best, tokens = highest_scores(scores, most)
    each = tokens.size(1)
    totals = (live.sums[:, :, None] + best.view(inputs, width, each)).view(inputs, -1)
    totals, places = highest_scores(totals, most)
    parents = live.rows[:, :1] + places.div(each, rounding_mode="floor")
    return totals, parents, tokens.reshape(inputs, -1).gather(1, places)


def _step(scores: Tensor, parents: Tensor, tokens: Tensor, live: Live) -> Step:
    """What the live hypotheses say; inputs that are done say PAD and stay where they are."""
    done, resting = live.done[:, None], perhaps(live.done)
    if resting:
        parents, tokens = torch.where(done, live.rows, parents), tokens.masked_fill(done, PAD)
    rows, tokens = parents.flatten(), tokens.flatten()
    log_probabilities = scores[rows, tokens]
    if resting:
        log_probabilities = log_probabilities.masked_fill(done.expand(live.rows.shape).flatten(), 0)
    return Step(tokens, log_probabilities, rows)


def native_turn(scores: Float[Tensor, "row vocab"], live: Live) -> Turn | None:
    """The same in one call of C++; None where that is not to be had, or where a score is not a number."""
    library: Any = loaded_library()
    history, (inputs, width) = live.history, live.sums.shape
    floats, whole = (live.sums, history.log_probabilities), (live.done, history.tokens)
    if library is None or not fit_for_native(scores, width, floats, whole):
        return None
    rows = inputs * width
    sums, log_probabilities, ended_sums = torch.empty_like(live.sums), scores.new_empty(rows), scores.new_empty(rows)
    parents, tokens, ended_parents = (history.tokens.new_empty(rows) for _ in range(3))
    ends = live.done.new_empty(rows)
    said, said_scores = torch.empty_like(history.tokens), torch.empty_like(history.log_probabilities)
    numbers = (inputs, width, scores.size(1), scores.stride(0), said.size(1), history.time, EOS, PAD)
    tensors = (
        scores, live.sums, live.done, history.tokens, history.log_probabilities,
        sums, parents, tokens, log_probabilities, said, said_scores, ended_sums, ended_parents, ends,
    )  # fmt: skip
    happened = library.native_turn(Fields(*numbers, *[tensor.data_ptr() for tensor in tensors]))
    if happened == NOT_NUMBERS:
        return None
    ended = [part.view(inputs, width) for part in (ended_sums, ended_parents, ends)] if happened & ENDING else None
    return Turn(
        sums,
        Step(tokens, log_probabilities, parents),
        History(said, said_scores, history.forced, history.time + 1),
        Ended(*ended) if ended else None,
        perhaps_lost=bool(happened & LOST),
    )


def fit_for_native(scores: Tensor, width: int, floats: Sequence[Tensor], whole: Sequence[Tensor]) -> bool:
    """Whether all numbers lie on a CPU as C++ expects them; a vocabulary of one leaves too few continuations."""
    if not scores.is_cpu or scores.dtype != torch.float32 or scores.stride(1) != 1:
        return False
    if width > WIDEST or scores.size(1) < 2:
        return False
    return all(part.dtype == torch.float32 and part.is_contiguous() for part in floats) and all(
        part.is_contiguous() for part in whole
    )
