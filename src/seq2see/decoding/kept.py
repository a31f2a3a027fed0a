"""The answers that a beam search has kept aside: for each input the best it has found so far.

`plain_keep` says how those that have just ended join them; on a CPU `native_keep` does the same in one call of C++
(`cpp/kept.hpp`), and a test says that both agree to the last bit.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2see.decoding.compiler import loaded_library
from seq2see.decoding.hypotheses import History
from seq2see.decoding.ranking import highest
from seq2see.decoding.turns import NOT_NUMBERS, fit_for_native
from seq2see.sequences.tokenisers import EOS

Fields = ctypes.c_int64 * 19
"""The numbers and addresses of `Keeping` in cpp/kept.hpp, in its order."""


@dataclass(frozen=True)
class Kept:
    """The best answers of each input so far, best first; a score of minus infinity marks an empty place."""

    scores: Float[Tensor, "input place"]
    lengths: Int[Tensor, "input place"]
    tokens: Int[Tensor, "input place room"]
    log_probabilities: Float[Tensor, "input place room"]

    @staticmethod
    def of(scores: Float[Tensor, "input place"], history: History) -> Kept:
        """All that is written, with the scores it has."""
        lengths = torch.zeros_like(scores, dtype=torch.long) + history.time
        tables = (history.tokens, history.log_probabilities)
        return Kept(scores, lengths, *(table.view(*scores.shape, -1) for table in tables))

    def merge(self, others: Kept) -> Kept:
        """The best of both, as many as there are places here; of equals those kept already."""
        pairs = [(getattr(self, name), getattr(others, name)) for name in Kept.__dataclass_fields__]
        both = [torch.cat(pair, dim=1) for pair in pairs]
        places = highest(both[0], self.scores.size(1))
        inputs = torch.arange(places.size(0), device=places.device)[:, None]
        return Kept(*(values[inputs, places] for values in both))


@dataclass(frozen=True)
class Newcomers:
    """Answers that end now; a score of minus infinity marks what does not."""

    scores: Float[Tensor, "input width"]
    parents: Int[Tensor, "input width"]
    """The rows that they end."""
    history: History
    """What those rows have said before."""


def keep(kept: Kept, newcomers: Newcomers, scores: Float[Tensor, "row vocab"]) -> Kept:
    """The best of both, by whichever twin is faster here; `scores` are those of the next tokens, <eos> among them."""
    if scores.is_cuda:
        return plain_keep(kept, newcomers, scores)
    return native_keep(kept, newcomers, scores) or plain_keep(kept, newcomers, scores)


def plain_keep(kept: Kept, newcomers: Newcomers, scores: Float[Tensor, "row vocab"]) -> Kept:
    """Write an <eos> behind what the newcomers have said, and merge."""
    rows = newcomers.parents.flatten()
    ended = newcomers.history.continued(rows, torch.full_like(rows, EOS), scores[rows, EOS])
    return kept.merge(Kept.of(newcomers.scores, ended))


def native_keep(kept: Kept, newcomers: Newcomers, scores: Float[Tensor, "row vocab"]) -> Kept | None:
    """The same in one call of C++; None where that is not to be had, or where a score is not a number."""
    library: Any = loaded_library()
    history, (inputs, width) = newcomers.history, newcomers.scores.shape
    floats = (newcomers.scores, history.log_probabilities, kept.scores, kept.log_probabilities)
    whole = (newcomers.parents, history.tokens, kept.lengths, kept.tokens)
    if library is None or not fit_for_native(scores, width, floats, whole):
        return None
    new = Kept(*(torch.empty_like(getattr(kept, name)) for name in Kept.__dataclass_fields__))
    numbers = (inputs, width, scores.stride(0), history.tokens.size(1), history.time, EOS)
    tensors = (
        scores, newcomers.scores, newcomers.parents, history.tokens, history.log_probabilities,
        kept.scores, kept.lengths, kept.tokens, kept.log_probabilities,
        new.scores, new.lengths, new.tokens, new.log_probabilities,
    )  # fmt: skip
    answer = library.native_keep(Fields(*numbers, *[tensor.data_ptr() for tensor in tensors]))
    return None if answer == NOT_NUMBERS else new
