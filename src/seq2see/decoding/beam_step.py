"""One step of beam search: from the scores of all next tokens to the next live hypotheses.

`torch_beam_step` is the definition; it runs on a GPU, and on a CPU without a compiler. With a small model and few
inputs its thirty operators take longer than the model, so on a CPU `native_beam_step` does the step in one call of C++
(`cpp/beam_step.hpp`). A test checks that both results are equal to the last bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.data.tokenizers.tokenizer import EOS, PAD
from seq2see.decoding.compiler import native_library_if_loaded
from seq2see.decoding.hypotheses import History
from seq2see.decoding.samplers import DecodingStep
from seq2see.decoding.topk import maybe_any, stable_topk

MAX_NATIVE_BEAMS = 32
"""The maximum `width` in C++, which sorts the best candidates by insertion."""
SOME_ENDED, SOME_EXHAUSTED, NAN_SCORES = 1, 2, -1  # return values of `native_beam_step`, as in cpp/beam_step.hpp
BeamStepFields = ctypes.c_int64 * 22
"""The fields of `BeamStep` in cpp/beam_step.hpp (numbers and addresses), in its order."""


@dataclass(frozen=True)
class LiveBeams:
    """The live hypotheses before a step; each input has `width` consecutive rows."""

    sums: Float[Tensor, "input width"]
    done: Bool[Tensor, "input"]
    history: History
    rows: Int[Tensor, "input width"]
    """The index of every row."""


@dataclass(frozen=True)
class EndedCandidates:
    """The `width` best continuations of each input, and which of them end in <eos>."""

    sums: Float[Tensor, "input width"]
    parents: Int[Tensor, "input width"]
    is_eos: Bool[Tensor, "input width"]


@dataclass(frozen=True)
class BeamStepResult:
    """The result of a step: the best `width` continuations of each input that do not end in <eos>."""

    sums: Float[Tensor, "input width"]
    step: DecodingStep
    history: History
    ended_candidates: EndedCandidates | None
    """None if no hypothesis of an unfinished input ended."""
    maybe_exhausted: bool
    """False if every input certainly has a live hypothesis with a probability above 0."""


def beam_step(scores: Float[Tensor, "row vocab"], beams: LiveBeams) -> BeamStepResult:
    """One step, in C++ where possible and otherwise in PyTorch."""
    if scores.is_cuda:
        return torch_beam_step(scores, beams)
    return native_beam_step(scores, beams) or torch_beam_step(scores, beams)


def torch_beam_step(scores: Float[Tensor, "row vocab"], beams: LiveBeams) -> BeamStepResult:
    """Extend every hypothesis by every token, separate those that end, and append the tokens of the best others."""
    width = beams.sums.size(1)
    totals, parents, tokens = top_continuations(scores, beams, 2 * width)
    is_eos, ended_candidates = tokens == EOS, None
    if maybe_any(is_eos):
        ended_candidates = EndedCandidates(totals[:, :width], parents[:, :width], is_eos[:, :width])
        # A stable sort moves those that end to the end of the list and does not change the order of the others.
        order = is_eos.byte().argsort(dim=1, stable=True)
        totals, parents, tokens = (values.gather(1, order) for values in (totals, parents, tokens))
    step = _step(scores, parents[:, :width], tokens[:, :width], beams)
    assert step.parents is not None
    history = beams.history.reorder_and_append(step.parents, step.tokens, step.log_probabilities)
    return BeamStepResult(totals[:, :width], step, history, ended_candidates, maybe_exhausted=True)


def top_continuations(scores: Tensor, beams: LiveBeams, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` best continuations of each input: their sums, parent rows and tokens."""
    inputs, width = beams.sums.shape
    # The best of each row first: this avoids adding the sums to whole vocabularies and comparing them.
    best, tokens = stable_topk(scores, count)
    count_per_row = tokens.size(1)
    totals = (beams.sums[:, :, None] + best.view(inputs, width, count_per_row)).view(inputs, -1)
    totals, indices = stable_topk(totals, count)
    parents = beams.rows[:, :1] + indices.div(count_per_row, rounding_mode="floor")
    return totals, parents, tokens.reshape(inputs, -1).gather(1, indices)


def _step(scores: Tensor, parents: Tensor, tokens: Tensor, beams: LiveBeams) -> DecodingStep:
    """The tokens of the live hypotheses; rows of inputs that are done get PAD and continue themselves."""
    done, any_done = beams.done[:, None], maybe_any(beams.done)
    if any_done:
        parents, tokens = torch.where(done, beams.rows, parents), tokens.masked_fill(done, PAD)
    rows, tokens = parents.flatten(), tokens.flatten()
    log_probabilities = scores[rows, tokens]
    if any_done:
        log_probabilities = log_probabilities.masked_fill(done.expand(beams.rows.shape).flatten(), 0)
    return DecodingStep(tokens, log_probabilities, rows)


def native_beam_step(scores: Float[Tensor, "row vocab"], beams: LiveBeams) -> BeamStepResult | None:
    """`torch_beam_step` in one call of C++; None if the library is not available, or if a score is NaN."""
    library: Any = native_library_if_loaded()
    history, (inputs, width) = beams.history, beams.sums.shape
    floats, integers = (beams.sums, history.log_probabilities), (beams.done, history.tokens)
    if library is None or not is_native_compatible(scores, width, floats, integers):
        return None
    rows = inputs * width
    sums, log_probabilities, ended_sums = torch.empty_like(beams.sums), scores.new_empty(rows), scores.new_empty(rows)
    parents, tokens, ended_parents = (history.tokens.new_empty(rows) for _ in range(3))
    is_eos = beams.done.new_empty(rows)
    new_history_tokens, new_history_log_probabilities = (
        torch.empty_like(history.tokens),
        torch.empty_like(history.log_probabilities),
    )
    sizes = (inputs, width, scores.size(1), scores.stride(0), new_history_tokens.size(1), history.time, EOS, PAD)
    tensors = (
        scores, beams.sums, beams.done, history.tokens, history.log_probabilities,
        sums, parents, tokens, log_probabilities, new_history_tokens, new_history_log_probabilities,
        ended_sums, ended_parents, is_eos,
    )  # fmt: skip
    flags = library.native_beam_step(BeamStepFields(*sizes, *[tensor.data_ptr() for tensor in tensors]))
    if flags == NAN_SCORES:
        return None
    ended_candidates = None
    if flags & SOME_ENDED:
        shape = (inputs, width)
        ended_candidates = EndedCandidates(ended_sums.view(shape), ended_parents.view(shape), is_eos.view(shape))
    return BeamStepResult(
        sums,
        DecodingStep(tokens, log_probabilities, parents),
        History(new_history_tokens, new_history_log_probabilities, history.prompt_lengths, history.time + 1),
        ended_candidates,
        maybe_exhausted=bool(flags & SOME_EXHAUSTED),
    )


def is_native_compatible(scores: Tensor, width: int, floats: Sequence[Tensor], integers: Sequence[Tensor]) -> bool:
    """Whether C++ supports the devices, types and layouts of the tensors, and the sizes of beam and vocabulary."""
    if not scores.is_cpu or scores.dtype != torch.float32 or scores.stride(1) != 1:
        return False
    if width > MAX_NATIVE_BEAMS or scores.size(1) < 2:
        return False
    if not all(tensor.is_contiguous() for tensor in (*floats, *integers)):
        return False
    return all(tensor.dtype == torch.float32 for tensor in floats)
