"""The state of a masked language model for the next-token views: a text in which one position at a time is masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.data.masking import encode_with_masks
from seq2see.data.tokenizers.tokenizer import BOS, EOS, MASK_TEXT, UNK, Tokenizer
from seq2see.decoding.engine import log_probabilities
from seq2see.tasks.model import Model

FIRST_TEXT_ID = UNK + 1
"""The first id of a text token, after the special tokens."""
BATCH_SIZE = 32
"""Rows per batch, each with one masked position."""
MAX_MASKED = 128
"""Maximum number of positions that are masked one by one: each needs a forward pass over the whole text."""


@dataclass(frozen=True)
class MaskedContext:
    """A masked language model and a text. Compare `GenerationContext`: here the context is on both sides."""

    model: Model
    ids: list[int]
    """The token ids without <bos> and <eos>; [MASK] may be among them."""
    truncated: bool
    """Whether the text was truncated to the limit of the model."""

    side: ClassVar[str] = "source"
    """The side of the model that predicts the tokens."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the tokens."""
        return self.model.tokenizers.source

    def position(self, index: int) -> int:
        """Clip a position to the text; -1 is the first [MASK], or the last position without one."""
        last = len(self.ids) - 1
        return min(index, last) if index >= 0 else next(iter(self.masked_positions), last)

    @property
    def masked_positions(self) -> list[int]:
        """The positions of [MASK] in the text."""
        return [position for position, token_id in enumerate(self.ids) if token_id == self.tokenizer.mask_id]

    def scores_at(self, position: int) -> Float[Tensor, "vocab"]:
        """Log-probabilities of the token at a position that is masked, in addition to the masks of the text."""
        return self._masked_scores([position])[0]

    def previous_tokens(self, position: int) -> set[int]:
        """Empty: there is no repetition penalty for masked tokens."""
        return set()

    def position_scores(self) -> Float[Tensor, "time vocab"]:
        """For each position, log-probabilities of its token when it alone is masked (Salazar et al. 2020)."""
        count = min(len(self.ids), MAX_MASKED)
        starts = range(0, count, BATCH_SIZE)
        return torch.cat([self._masked_scores(list(range(start, min(start + BATCH_SIZE, count)))) for start in starts])

    def batch_at(self, position: int) -> tuple[Batch, int]:
        """The batch that predicts a position, and the time step of the prediction (after <bos>)."""
        return self._batch([position]), position + 1

    def _batch(self, positions: list[int]) -> Batch:
        """One row of the text for each position, with that position masked."""
        rows = torch.tensor([[BOS, *self.ids, EOS]]).repeat(len(positions), 1)
        indices = torch.arange(len(positions))
        rows[indices, torch.tensor(positions) + 1] = self.tokenizer.mask_id
        source = Sequences(rows, torch.full((len(positions),), rows.size(1)))
        return Batch(source, None, torch.full_like(rows, IGNORE_INDEX), indices).to(self.model.device)

    def _masked_scores(self, positions: list[int]) -> Float[Tensor, "position vocab"]:
        with torch.no_grad():
            logits = self.model.module(self._batch(positions))
            logits = logits[range(len(positions)), [position + 1 for position in positions]]
        scores = log_probabilities(logits).cpu()
        scores[:, :FIRST_TEXT_ID] = -torch.inf  # special tokens are excluded
        scores[:, self.tokenizer.mask_id :] = -torch.inf
        return scores


def masked_context(model: Model, text: str) -> MaskedContext:
    """The context of a masked language model for a text, with or without [MASK]."""
    tokenizer = model.tokenizers.source
    ids = encode_with_masks(text, tokenizer) if MASK_TEXT in text else tokenizer.encode(text)
    if not ids:
        raise UserError("The text is empty.", hint="Enter a text.")
    max_tokens = model.config.model.source_text.max_tokens
    return MaskedContext(model, ids[:max_tokens], len(ids) > max_tokens)
