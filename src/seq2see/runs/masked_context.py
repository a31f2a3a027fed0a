"""Where a model that fills blanks stands: a text, of which one place at a time is hidden from it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.engine import log_probabilities
from seq2see.runs.fill_mask import FIRST_TEXT_ID
from seq2see.runs.model import Model
from seq2see.sequences.masking import encode_with_masks
from seq2see.sequences.tokenizers import BOS, EOS, MASK_TEXT, Tokenizer

BATCH_SIZE = 32
"""Texts with one hidden place each that are read side by side."""
MAX_MASKED = 128
"""Places that are hidden one by one: each takes a pass over the whole text."""


@dataclass(frozen=True)
class MaskedContext:
    """A model that fills blanks, and a text. Compare `GenerationContext`: here a place knows both of its sides."""

    model: Model
    ids: list[int]
    """The text, without <bos> and <eos>; blanks may be in it."""
    truncated: bool
    """Whether some of the text is not seen, because it is longer than the model reads."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What names the tokens."""
        return self.model.tokenizers.source

    def position(self, wanted: int) -> int:
        """A place that can be asked for; -1 stands for the first blank, or for the last place if there is none."""
        last = len(self.ids) - 1
        return min(wanted, last) if wanted >= 0 else next(iter(self.masked_positions), last)

    @property
    def masked_positions(self) -> list[int]:
        """The places that are hidden in the text itself."""
        return [place for place, token in enumerate(self.ids) if token == self.tokenizer.mask_id]

    def scores_at(self, place: int) -> Float[Tensor, "vocab"]:
        """Log-probabilities of what stands at a place, when it alone is hidden (beside the blanks of the text)."""
        return self._masked_scores([place])[0]

    def previous_tokens(self, place: int) -> set[int]:
        """A blank repeats nothing."""
        return set()

    def position_scores(self) -> Float[Tensor, "time vocab"]:
        """For each place, log-probabilities of what stands there when it alone is hidden (Salazar et al. 2020)."""
        places = list(range(min(len(self.ids), MAX_MASKED)))
        parts = [self._masked_scores(places[start : start + BATCH_SIZE]) for start in range(0, len(places), BATCH_SIZE)]
        return torch.cat(parts)

    def batch_at(self, place: int) -> tuple[Batch, int]:
        """What the model reads when it is asked for a place, and the time at which it answers."""
        return self._batch([place]), place + 1

    def _batch(self, places: list[int]) -> Batch:
        """The text once for each place, with that place hidden; <bos> stands before the first."""
        rows = torch.tensor([[BOS, *self.ids, EOS]]).repeat(len(places), 1)
        numbers = torch.arange(len(places))
        rows[numbers, torch.tensor(places) + 1] = self.tokenizer.mask_id
        source = Sequences(rows, torch.full((len(places),), rows.size(1)))
        return Batch(source, None, torch.full_like(rows, IGNORE_INDEX), numbers).to(self.model.device)

    def _masked_scores(self, places: list[int]) -> Float[Tensor, "place vocab"]:
        with torch.no_grad():
            logits = self.model.module(self._batch(places))[range(len(places)), [place + 1 for place in places]]
        scores = log_probabilities(logits).cpu()
        scores[:, :FIRST_TEXT_ID] = -torch.inf  # nothing but a piece of text can fill a blank
        scores[:, self.tokenizer.mask_id :] = -torch.inf
        return scores


def masked_context(model: Model, text: str) -> MaskedContext:
    """What a model stands before that fills blanks; [MASK] in the text is one."""
    tokenizer = model.tokenizers.source
    ids = encode_with_masks(text, tokenizer) if MASK_TEXT in text else tokenizer.encode(text)
    if not ids:
        raise UserError("There is nothing to read in an empty text.", hint="Type something.")
    longest = model.config.model.source_text.max_tokens
    return MaskedContext(model, ids[:longest], len(ids) > longest)
