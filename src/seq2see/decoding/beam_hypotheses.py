"""The stored hypotheses of a beam search: for each input the best ones so far.

`torch_add_finished` defines how newly finished hypotheses are merged into them. On a CPU `native_add_finished` does
this in one call of C++ (`cpp/beam_hypotheses.hpp`). A test checks that both results are equal to the last bit.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.decoding.beam_step import NAN_SCORES, is_native_compatible
from seq2see.decoding.compiler import native_library_if_loaded
from seq2see.decoding.hypotheses import History
from seq2see.decoding.topk import stable_topk_indices

AddFinishedFields = ctypes.c_int64 * 19
"""The fields of `AddFinished` in cpp/beam_hypotheses.hpp (numbers and addresses), in its order."""


@dataclass(frozen=True)
class BeamHypotheses:
    """The best hypotheses of each input so far, best first; an empty slot has the score minus infinity."""

    scores: Float[Tensor, "input width"]
    lengths: Int[Tensor, "input width"]
    tokens: Int[Tensor, "input width max_length"]
    log_probabilities: Float[Tensor, "input width max_length"]

    @staticmethod
    def of(scores: Float[Tensor, "input width"], history: History) -> BeamHypotheses:
        """The rows of a history as hypotheses with these scores."""
        lengths = torch.zeros_like(scores, dtype=torch.long) + history.time
        tables = (history.tokens, history.log_probabilities)
        return BeamHypotheses(scores, lengths, *(table.view(*scores.shape, -1) for table in tables))

    def merge(self, others: BeamHypotheses) -> BeamHypotheses:
        """The best `width` hypotheses of both; among equal scores those of `self` come first."""
        pairs = [(getattr(self, name), getattr(others, name)) for name in BeamHypotheses.__dataclass_fields__]
        both = [torch.cat(pair, dim=1) for pair in pairs]
        indices = stable_topk_indices(both[0], self.scores.size(1))
        inputs = torch.arange(indices.size(0), device=indices.device)[:, None]
        return BeamHypotheses(*(values[inputs, indices] for values in both))


@dataclass(frozen=True)
class FinishedCandidates:
    """Hypotheses that end at this step; the score minus infinity marks rows that do not end."""

    scores: Float[Tensor, "input width"]
    parents: Int[Tensor, "input width"]
    """The rows that end."""
    history: History
    """The tokens of those rows, without <eos>."""


def add_finished(
    beam_hypotheses: BeamHypotheses, finished: FinishedCandidates, scores: Float[Tensor, "row vocab"]
) -> BeamHypotheses:
    """Merge finished hypotheses, in C++ where possible; `scores` are those of the next tokens, including <eos>."""
    if scores.is_cuda:
        return torch_add_finished(beam_hypotheses, finished, scores)
    return native_add_finished(beam_hypotheses, finished, scores) or torch_add_finished(
        beam_hypotheses, finished, scores
    )


def torch_add_finished(
    beam_hypotheses: BeamHypotheses, finished: FinishedCandidates, scores: Float[Tensor, "row vocab"]
) -> BeamHypotheses:
    """Append <eos> to the finished hypotheses, and merge."""
    rows = finished.parents.flatten()
    ended = finished.history.reorder_and_append(rows, torch.full_like(rows, EOS), scores[rows, EOS])
    return beam_hypotheses.merge(BeamHypotheses.of(finished.scores, ended))


def native_add_finished(
    beam_hypotheses: BeamHypotheses, finished: FinishedCandidates, scores: Float[Tensor, "row vocab"]
) -> BeamHypotheses | None:
    """`torch_add_finished` in one call of C++; None if the library is not available, or if a score is NaN."""
    library: Any = native_library_if_loaded()
    history, (inputs, width) = finished.history, finished.scores.shape
    floats = (finished.scores, history.log_probabilities, beam_hypotheses.scores, beam_hypotheses.log_probabilities)
    integers = (finished.parents, history.tokens, beam_hypotheses.lengths, beam_hypotheses.tokens)
    if library is None or not is_native_compatible(scores, width, floats, integers):
        return None
    new = BeamHypotheses(
        *(torch.empty_like(getattr(beam_hypotheses, name)) for name in BeamHypotheses.__dataclass_fields__)
    )
    sizes = (inputs, width, scores.stride(0), history.tokens.size(1), history.time, EOS)
    tensors = (
        scores, finished.scores, finished.parents, history.tokens, history.log_probabilities,
        beam_hypotheses.scores, beam_hypotheses.lengths, beam_hypotheses.tokens, beam_hypotheses.log_probabilities,
        new.scores, new.lengths, new.tokens, new.log_probabilities,
    )  # fmt: skip
    flags = library.native_add_finished(AddFinishedFields(*sizes, *[tensor.data_ptr() for tensor in tensors]))
    return None if flags == NAN_SCORES else new
