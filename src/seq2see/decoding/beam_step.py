"""One turn of beam search: from the scores of all next tokens to the hypotheses that live on.

`torch_beam_step` says what is done; it is what a GPU runs, and a CPU without a compiler. With a small model and few
inputs its thirty operators take longer than the model itself, so on a CPU `native_beam_step` does the same in one call
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

from seq2see.decoding.compiler import native_library_if_loaded
from seq2see.decoding.hypotheses import History
from seq2see.decoding.samplers import DecodingStep
from seq2see.decoding.topk import maybe_any, stable_topk
from seq2see.sequences.tokenizers import EOS, PAD

MAX_NATIVE_BEAMS = 32
"""Hypotheses side by side, at most, in C++: it keeps the best by moving them up one by one."""
SOME_ENDED, SOME_EXHAUSTED, NAN_SCORES = 1, 2, -1  # what `native_beam_step` answers, as in cpp/beam.hpp
BeamStepFields = ctypes.c_int64 * 22
"""The numbers and addresses of `BeamStepResult` in cpp/beam.hpp, in its order."""


@dataclass(frozen=True)
class LiveBeams:
    """Where a search stands before a turn; its inputs have `width` rows each, one after another."""

    sums: Float[Tensor, "input width"]
    done: Bool[Tensor, "input"]
    history: History
    rows: Int[Tensor, "input width"]
    """The number of every row."""


@dataclass(frozen=True)
class EndedCandidates:
    """The `width` best continuations of each input, those that end among them."""

    sums: Float[Tensor, "input width"]
    parents: Int[Tensor, "input width"]
    is_eos: Bool[Tensor, "input width"]


@dataclass(frozen=True)
class BeamStepResult:
    """What a turn came to: the best `width` continuations of each input that do not end."""

    sums: Float[Tensor, "input width"]
    step: DecodingStep
    history: History
    ended_candidates: EndedCandidates | None
    """None if nothing ended that anybody waits for."""
    maybe_exhausted: bool
    """False if every input still has a hypothesis to follow."""


def beam_step(scores: Float[Tensor, "row vocab"], beams: LiveBeams) -> BeamStepResult:
    """The same by whichever twin is faster here."""
    if scores.is_cuda:
        return torch_beam_step(scores, beams)
    return native_beam_step(scores, beams) or torch_beam_step(scores, beams)


def torch_beam_step(scores: Float[Tensor, "row vocab"], beams: LiveBeams) -> BeamStepResult:
    """Continue every hypothesis by every token, set those aside that end, and write down what the best others say."""
    width = beams.sums.size(1)
    totals, parents, tokens = top_continuations(scores, beams, 2 * width)
    is_eos, ended_candidates = tokens == EOS, None
    if maybe_any(is_eos):
        ended_candidates = EndedCandidates(totals[:, :width], parents[:, :width], is_eos[:, :width])
        # A stable sort moves those that end behind the others and leaves the order otherwise as it is.
        order = is_eos.byte().argsort(dim=1, stable=True)
        totals, parents, tokens = (values.gather(1, order) for values in (totals, parents, tokens))
    step = _step(scores, parents[:, :width], tokens[:, :width], beams)
    assert step.parents is not None
    history = beams.history.reorder_and_append(step.parents, step.tokens, step.log_probabilities)
    return BeamStepResult(totals[:, :width], step, history, ended_candidates, maybe_exhausted=True)


def top_continuations(scores: Tensor, beams: LiveBeams, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `most` best continuations of each input: their sums, the rows they continue, their tokens."""
    inputs, width = beams.sums.shape
    # First within each row, which spares adding and comparing whole vocabularies.
    best, tokens = stable_topk(scores, most)
    each = tokens.size(1)
    totals = (beams.sums[:, :, None] + best.view(inputs, width, each)).view(inputs, -1)
    totals, indices = stable_topk(totals, most)
    parents = beams.rows[:, :1] + indices.div(each, rounding_mode="floor")
    return totals, parents, tokens.reshape(inputs, -1).gather(1, indices)


def _step(scores: Tensor, parents: Tensor, tokens: Tensor, beams: LiveBeams) -> DecodingStep:
    """What the live hypotheses say; inputs that are done say PAD and stay where they are."""
    done, any_done = beams.done[:, None], maybe_any(beams.done)
    if any_done:
        parents, tokens = torch.where(done, beams.rows, parents), tokens.masked_fill(done, PAD)
    rows, tokens = parents.flatten(), tokens.flatten()
    log_probabilities = scores[rows, tokens]
    if any_done:
        log_probabilities = log_probabilities.masked_fill(done.expand(beams.rows.shape).flatten(), 0)
    return DecodingStep(tokens, log_probabilities, rows)


def native_beam_step(scores: Float[Tensor, "row vocab"], beams: LiveBeams) -> BeamStepResult | None:
    """The same in one call of C++; None where that is not to be had, or where a score is not a number."""
    library: Any = native_library_if_loaded()
    history, (inputs, width) = beams.history, beams.sums.shape
    floats, whole = (beams.sums, history.log_probabilities), (beams.done, history.tokens)
    if library is None or not is_native_compatible(scores, width, floats, whole):
        return None
    rows = inputs * width
    sums, log_probabilities, ended_sums = torch.empty_like(beams.sums), scores.new_empty(rows), scores.new_empty(rows)
    parents, tokens, ended_parents = (history.tokens.new_empty(rows) for _ in range(3))
    is_eos = beams.done.new_empty(rows)
    new_history_tokens, new_history_log_probabilities = (
        torch.empty_like(history.tokens),
        torch.empty_like(history.log_probabilities),
    )
    numbers = (inputs, width, scores.size(1), scores.stride(0), new_history_tokens.size(1), history.time, EOS, PAD)
    tensors = (
        scores, beams.sums, beams.done, history.tokens, history.log_probabilities,
        sums, parents, tokens, log_probabilities, new_history_tokens, new_history_log_probabilities, ended_sums, ended_parents, is_eos,
    )  # fmt: skip
    happened = library.native_beam_step(BeamStepFields(*numbers, *[tensor.data_ptr() for tensor in tensors]))
    if happened == NAN_SCORES:
        return None
    ended_candidates = (
        [part.view(inputs, width) for part in (ended_sums, ended_parents, is_eos)] if happened & SOME_ENDED else None
    )
    return BeamStepResult(
        sums,
        DecodingStep(tokens, log_probabilities, parents),
        History(new_history_tokens, new_history_log_probabilities, history.prompt_lengths, history.time + 1),
        EndedCandidates(*ended_candidates) if ended_candidates else None,
        maybe_exhausted=bool(happened & SOME_EXHAUSTED),
    )


def is_native_compatible(scores: Tensor, width: int, floats: Sequence[Tensor], whole: Sequence[Tensor]) -> bool:
    """Whether all numbers lie on a CPU as C++ expects them; a vocabulary of one leaves too few continuations."""
    if not scores.is_cpu or scores.dtype != torch.float32 or scores.stride(1) != 1:
        return False
    if width > MAX_NATIVE_BEAMS or scores.size(1) < 2:
        return False
    return all(part.dtype == torch.float32 and part.is_contiguous() for part in floats) and all(
        part.is_contiguous() for part in whole
    )
