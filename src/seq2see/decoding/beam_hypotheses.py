"""The answers that a beam search has kept aside: for each input the best it has found so far.

`torch_add_finished` says how those that have just ended join them; on a CPU `native_add_finished` does the same in one call of C++
(`cpp/beam_hypotheses.hpp`), and a test says that both agree to the last bit.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2see.decoding.beam_step import NAN_SCORES, is_native_compatible
from seq2see.decoding.compiler import native_library_if_loaded
from seq2see.decoding.hypotheses import History
from seq2see.decoding.topk import stable_topk_indices
from seq2see.sequences.tokenizers import EOS

AddFinishedFields = ctypes.c_int64 * 19
"""The numbers and addresses of `Keeping` in cpp/kept.hpp, in its order."""


@dataclass(frozen=True)
class BeamHypotheses:
    """The best answers of each input so far, best first; a score of minus infinity marks an empty place."""

    scores: Float[Tensor, "input place"]
    lengths: Int[Tensor, "input place"]
    tokens: Int[Tensor, "input place room"]
    log_probabilities: Float[Tensor, "input place room"]

    @staticmethod
    def of(scores: Float[Tensor, "input place"], history: History) -> BeamHypotheses:
        """All that is written, with the scores it has."""
        lengths = torch.zeros_like(scores, dtype=torch.long) + history.time
        tables = (history.tokens, history.log_probabilities)
        return BeamHypotheses(scores, lengths, *(table.view(*scores.shape, -1) for table in tables))

    def merge(self, others: BeamHypotheses) -> BeamHypotheses:
        """The best of both, as many as there are places here; of equals those kept already."""
        pairs = [(getattr(self, name), getattr(others, name)) for name in BeamHypotheses.__dataclass_fields__]
        both = [torch.cat(pair, dim=1) for pair in pairs]
        indices = stable_topk_indices(both[0], self.scores.size(1))
        inputs = torch.arange(indices.size(0), device=indices.device)[:, None]
        return BeamHypotheses(*(values[inputs, indices] for values in both))


@dataclass(frozen=True)
class FinishedCandidates:
    """Answers that end now; a score of minus infinity marks what does not."""

    scores: Float[Tensor, "input width"]
    parents: Int[Tensor, "input width"]
    """The rows that they end."""
    history: History
    """What those rows have said before."""


def add_finished(
    beam_hypotheses: BeamHypotheses, finished: FinishedCandidates, scores: Float[Tensor, "row vocab"]
) -> BeamHypotheses:
    """The best of both, by whichever twin is faster here; `scores` are those of the next tokens, <eos> among them."""
    if scores.is_cuda:
        return torch_add_finished(beam_hypotheses, finished, scores)
    return native_add_finished(beam_hypotheses, finished, scores) or torch_add_finished(
        beam_hypotheses, finished, scores
    )


def torch_add_finished(
    beam_hypotheses: BeamHypotheses, finished: FinishedCandidates, scores: Float[Tensor, "row vocab"]
) -> BeamHypotheses:
    """Write an <eos> behind what the newcomers have said, and merge."""
    rows = finished.parents.flatten()
    ended = finished.history.reorder_and_append(rows, torch.full_like(rows, EOS), scores[rows, EOS])
    return beam_hypotheses.merge(BeamHypotheses.of(finished.scores, ended))


def native_add_finished(
    beam_hypotheses: BeamHypotheses, finished: FinishedCandidates, scores: Float[Tensor, "row vocab"]
) -> BeamHypotheses | None:
    """The same in one call of C++; None where that is not to be had, or where a score is not a number."""
    library: Any = native_library_if_loaded()
    history, (inputs, width) = finished.history, finished.scores.shape
    floats = (finished.scores, history.log_probabilities, beam_hypotheses.scores, beam_hypotheses.log_probabilities)
    whole = (finished.parents, history.tokens, beam_hypotheses.lengths, beam_hypotheses.tokens)
    if library is None or not is_native_compatible(scores, width, floats, whole):
        return None
    new = BeamHypotheses(
        *(torch.empty_like(getattr(beam_hypotheses, name)) for name in BeamHypotheses.__dataclass_fields__)
    )
    numbers = (inputs, width, scores.stride(0), history.tokens.size(1), history.time, EOS)
    tensors = (
        scores, finished.scores, finished.parents, history.tokens, history.log_probabilities,
        beam_hypotheses.scores, beam_hypotheses.lengths, beam_hypotheses.tokens, beam_hypotheses.log_probabilities,
        new.scores, new.lengths, new.tokens, new.log_probabilities,
    )  # fmt: skip
    answer = library.native_add_finished(AddFinishedFields(*numbers, *[tensor.data_ptr() for tensor in tensors]))
    return None if answer == NAN_SCORES else new
