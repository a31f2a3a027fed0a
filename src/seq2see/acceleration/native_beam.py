"""The step of beam search on a CPU as one call of C++, and the merge of finished hypotheses as another.

With a small model and few inputs, the thirty operators of a step take longer than the model. The definitions are
`BeamSearch.advance` and `BeamSearch.store_finished` (decoding/beam.py), `cpp/beam_step.hpp` and
`cpp/beam_hypotheses.hpp` compute the same; tests/acceleration/test_native_beam.py checks that both results are equal to
the last bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.acceleration.compiler import native_library_if_loaded
from seq2see.data.tokenizers.tokenizer import EOS, PAD
from seq2see.decoding.beam import BeamHypotheses
from seq2see.decoding.samplers import DecodingStep, History

MAX_NATIVE_BEAMS = 32
"""The maximum `width` in C++, which sorts the best candidates by insertion."""
SOME_ENDED, SOME_EXHAUSTED, NAN_SCORES = 1, 2, -1  # return values of `native_beam_step`, as in cpp/beam_step.hpp
BeamStepFields = ctypes.c_int64 * 22
"""The fields of `BeamStep` in cpp/beam_step.hpp (numbers and addresses), in its order."""
AddFinishedFields = ctypes.c_int64 * 19
"""The fields of `AddFinished` in cpp/beam_hypotheses.hpp (numbers and addresses), in its order."""


@dataclass(frozen=True)
class EndedCandidates:
    """The `width` best continuations of each input, and which of them end in <eos>."""

    sums: Float[Tensor, "input width"]
    parents: Int[Tensor, "input width"]
    is_eos: Bool[Tensor, "input width"]


@dataclass(frozen=True)
class NativeStep:
    """The result of a step: the best `width` continuations of each input that do not end in <eos>."""

    sums: Float[Tensor, "input width"]
    step: DecodingStep
    history: History
    ended: EndedCandidates | None
    """None if no hypothesis of an unfinished input ended."""
    maybe_exhausted: bool
    """False if every input certainly has a live hypothesis with a probability above 0."""


def native_beam_step(
    scores: Float[Tensor, "row vocab"],
    sums: Float[Tensor, "input width"],
    done: Bool[Tensor, "input"],
    history: History,
) -> NativeStep | None:
    """Extend every hypothesis and find the best; None if the library is not available, or if a score is NaN."""
    library: Any = native_library_if_loaded()
    inputs, width = sums.shape
    if library is None or not is_compatible(scores, width, (sums, history.log_probabilities), (done, history.tokens)):
        return None
    rows = inputs * width
    new_sums, log_probabilities, ended_sums = torch.empty_like(sums), scores.new_empty(rows), scores.new_empty(rows)
    parents, tokens, ended_parents = (history.tokens.new_empty(rows) for _ in range(3))
    is_eos = done.new_empty(rows)
    new_tokens, new_log_probabilities = torch.empty_like(history.tokens), torch.empty_like(history.log_probabilities)
    sizes = (inputs, width, scores.size(1), scores.stride(0), new_tokens.size(1), history.time, EOS, PAD)
    tensors = (
        scores, sums, done, history.tokens, history.log_probabilities,
        new_sums, parents, tokens, log_probabilities, new_tokens, new_log_probabilities,
        ended_sums, ended_parents, is_eos,
    )  # fmt: skip
    flags = library.native_beam_step(BeamStepFields(*sizes, *[tensor.data_ptr() for tensor in tensors]))
    if flags == NAN_SCORES:
        return None
    ended = None
    if flags & SOME_ENDED:
        shape = (inputs, width)
        ended = EndedCandidates(ended_sums.view(shape), ended_parents.view(shape), is_eos.view(shape))
    return NativeStep(
        new_sums,
        DecodingStep(tokens, log_probabilities, parents),
        History(new_tokens, new_log_probabilities, history.prompt_lengths, history.time + 1),
        ended,
        maybe_exhausted=bool(flags & SOME_EXHAUSTED),
    )


def native_add_finished(
    stored: BeamHypotheses,
    scores: Float[Tensor, "row vocab"],
    finished_scores: Float[Tensor, "input width"],
    parents: Int[Tensor, "input width"],
    history: History,
) -> BeamHypotheses | None:
    """Append <eos> to the parents and merge them into the stored hypotheses; None as in `native_beam_step`.

    `finished_scores` is minus infinity for continuations that do not end.
    """
    library: Any = native_library_if_loaded()
    inputs, width = finished_scores.shape
    floats = (finished_scores, history.log_probabilities, stored.scores, stored.log_probabilities)
    integers = (parents, history.tokens, stored.lengths, stored.tokens)
    if library is None or not is_compatible(scores, width, floats, integers):
        return None
    new = BeamHypotheses(*(torch.empty_like(getattr(stored, field.name)) for field in fields(BeamHypotheses)))
    sizes = (inputs, width, scores.stride(0), history.tokens.size(1), history.time, EOS)
    tensors = (
        scores, finished_scores, parents, history.tokens, history.log_probabilities,
        stored.scores, stored.lengths, stored.tokens, stored.log_probabilities,
        new.scores, new.lengths, new.tokens, new.log_probabilities,
    )  # fmt: skip
    flags = library.native_add_finished(AddFinishedFields(*sizes, *[tensor.data_ptr() for tensor in tensors]))
    return None if flags == NAN_SCORES else new


def is_compatible(scores: Tensor, width: int, floats: Sequence[Tensor], integers: Sequence[Tensor]) -> bool:
    """Whether C++ supports the devices, types and layouts of the tensors, and the sizes of beam and vocabulary."""
    if not scores.is_cpu or scores.dtype != torch.float32 or scores.stride(1) != 1:
        return False
    if width > MAX_NATIVE_BEAMS or scores.size(1) < 2:
        return False
    if not all(tensor.is_contiguous() for tensor in (*floats, *integers)):
        return False
    return all(tensor.dtype == torch.float32 for tensor in floats)
