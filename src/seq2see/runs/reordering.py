"""Reordered inputs: the output of a model for the tokens of a text in another order, and the change of hidden states.

Tokens are moved instead of words, because reordered words might be tokenized differently. <bos> and <eos> stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.inspection.position_encodings import remove_positions, stream_distances
from seq2see.runs.load import open_model
from seq2see.tasks.model import Model, ScoredText
from seq2see.tasks.model_folder import StoredModel


@dataclass(frozen=True)
class Reordering:
    """A model, and the tokens of a text in another order."""

    model: Model
    text: str
    ids: list[int]
    """The token ids in the original order."""
    order: list[int]
    """The index of the token at each position."""

    @property
    def tokens(self) -> list[str]:
        """The tokens in the original order."""
        return self.model.tokenizers.source.tokens(self.ids)

    @property
    def movable(self) -> list[bool]:
        """Whether each token can be moved."""
        return [token_id not in (PAD, BOS, EOS) for token_id in self.ids]

    @torch.inference_mode()
    def predict(self) -> tuple[str, tuple[tuple[ScoredText, ...], ...]]:
        """The output for this order; of an encoder-only model, also the candidates."""
        return self.model.predict_tokens(self.text, [self.ids[index] for index in self.order])

    def distances(self) -> NDArray[np.float32]:
        """(layer, token): the distance of each token's hidden state from that in the original order."""
        return stream_distances(self.model.module, self.ids, self.order)[1]


def reordering(model: Model, text: str, order: Sequence[int] = ()) -> Reordering:
    """A text with its i-th movable token replaced by movable token `order[i]`; empty: the original order."""
    ids = model.token_ids(text)
    return Reordering(model, text, ids, full_order(ids, order))


def without_position_embeddings(model: Model) -> Model:
    """The model without position embeddings; it shares all weights."""
    module: Any = remove_positions(model.module)
    return open_model(StoredModel(model.config, module, model.tokenizers))


def full_order(ids: list[int], order: Sequence[int]) -> list[int]:
    """Extend an order of the movable tokens to all tokens: <bos> and <eos> stay at their positions."""
    positions = [position for position, token_id in enumerate(ids) if token_id not in (PAD, BOS, EOS)]
    order = order or range(len(positions))
    if sorted(order) != list(range(len(positions))):
        raise UserError(f"An order of these {len(positions)} tokens must contain each exactly once.", location="order")
    full = list(range(len(ids)))
    for position, index in zip(positions, order, strict=True):
        full[position] = positions[index]
    return full
