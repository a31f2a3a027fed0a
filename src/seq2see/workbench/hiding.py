"""Where a model that fills blanks stands: a text, of which one place at a time is hidden from it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import NOT_ASKED, Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.engine import log_probabilities
from seq2see.sequences.blanks import read_blanks
from seq2see.sequences.tokenisers import BOS, EOS, MASK_TEXT, Tokeniser
from seq2see.workbench.fill import FIRST
from seq2see.workbench.predict import Model

ROWS = 32
"""Texts with one hidden place each that are read side by side."""
MOST_HIDDEN = 128
"""Places that are hidden one by one: each takes a pass over the whole text."""


@dataclass(frozen=True)
class Hiding:
    """A model that fills blanks, and a text. Compare `Writing`: here a place knows both of its sides."""

    model: Model
    ids: list[int]
    """The text, without <bos> and <eos>; blanks may be in it."""
    cut: bool
    """Whether some of the text is not seen, because it is longer than the model reads."""

    @property
    def tokeniser(self) -> Tokeniser:
        """What names the tokens."""
        return self.model.tokenisers.source

    def place(self, wanted: int) -> int:
        """A place that can be asked for; -1 stands for the first blank, or for the last place if there is none."""
        last = len(self.ids) - 1
        return min(wanted, last) if wanted >= 0 else next(iter(self.blanks), last)

    @property
    def blanks(self) -> list[int]:
        """The places that are hidden in the text itself."""
        return [place for place, token in enumerate(self.ids) if token == self.tokeniser.mask]

    def at(self, place: int) -> Float[Tensor, "vocab"]:
        """Log-probabilities of what stands at a place, when it alone is hidden (beside the blanks of the text)."""
        return self._hidden([place])[0]

    def said(self, place: int) -> set[int]:
        """A blank repeats nothing."""
        return set()

    def along(self) -> Float[Tensor, "time vocab"]:
        """For each place, log-probabilities of what stands there when it alone is hidden (Salazar et al. 2020)."""
        places = list(range(min(len(self.ids), MOST_HIDDEN)))
        parts = [self._hidden(places[start : start + ROWS]) for start in range(0, len(places), ROWS)]
        return torch.cat(parts)

    def batch_at(self, place: int) -> tuple[Batch, int]:
        """What the model reads when it is asked for a place, and the time at which it answers."""
        return self._batch([place]), place + 1

    def _batch(self, places: list[int]) -> Batch:
        """The text once for each place, with that place hidden; <bos> stands before the first."""
        rows = torch.tensor([[BOS, *self.ids, EOS]]).repeat(len(places), 1)
        numbers = torch.arange(len(places))
        rows[numbers, torch.tensor(places) + 1] = self.tokeniser.mask
        source = Sequences(rows, torch.full((len(places),), rows.size(1)))
        return Batch(source, None, torch.full_like(rows, NOT_ASKED), numbers).to(self.model.device)

    def _hidden(self, places: list[int]) -> Float[Tensor, "place vocab"]:
        with torch.no_grad():
            logits = self.model.module(self._batch(places))[range(len(places)), [place + 1 for place in places]]
        scores = log_probabilities(logits).cpu()
        scores[:, :FIRST] = -torch.inf  # nothing but a piece of text can fill a blank
        scores[:, self.tokeniser.mask :] = -torch.inf
        return scores


def hiding(model: Model, text: str) -> Hiding:
    """What a model stands before that fills blanks; [MASK] in the text is one."""
    tokeniser = model.tokenisers.source
    ids = read_blanks(text, tokeniser) if MASK_TEXT in text else tokeniser.encode(text)
    if not ids:
        raise UserError("There is nothing to read in an empty text.", remedy="Type something.")
    longest = model.config.model.read.longest
    return Hiding(model, ids[:longest], len(ids) > longest)
