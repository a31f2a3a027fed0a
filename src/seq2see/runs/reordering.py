"""The same tokens in another order: what a model says to them, and how far their vectors move.

Tokens are moved and not words: a text that is put together anew might be cut in another way. <bos> and <eos> stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.inspection.position_encodings import remove_positions
from seq2see.inspection.token_order import stream_distances
from seq2see.runs.engines import GenerationRequest
from seq2see.runs.model import Model, ScoredText, open_model
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.predictor import Predictor
from seq2see.runs.task_protocols import batch_of
from seq2see.sequences.tokenizers import BOS, EOS, PAD

MAX_NEW_TOKENS = 40
"""Tokens that a model goes on by when it shows what another order makes of its answer."""
TOP_K = 5


@dataclass(frozen=True)
class Reordering:
    """A model, and the tokens of a text in another order."""

    model: Model
    text: str
    ids: list[int]
    """As the text stands."""
    order: list[int]
    """Which of them stands at each place."""

    @property
    def tokens(self) -> list[str]:
        """What they are called, as the text stands."""
        return self.model.tokenizers.source.tokens(self.ids)

    @property
    def movable(self) -> list[bool]:
        """Which of them can be moved."""
        return [number not in (PAD, BOS, EOS) for number in self.ids]

    @torch.inference_mode()
    def predict(self) -> tuple[str, tuple[tuple[ScoredText, ...], ...]]:
        """What the model says to this order; one that only reads, also what else is likely."""
        model, turned = self.model, [self.ids[place] for place in self.order]
        if isinstance(model, Predictor):
            seen = replace(model.encode_input(self.text), ids=turned)
            scores = model.module(batch_of([seen]).to(model.device)).float().log_softmax(-1)[0].cpu()
            found = model.task.postprocess(model.stored, seen, scores, TOP_K)
            return found.text, found.candidates
        max_new_tokens = min(model.config.decoding.max_new_tokens, MAX_NEW_TOKENS)
        given = turned if model.has_source else turned[1:]
        asked = GenerationRequest([given], [0], model.config.decoding.with_(max_new_tokens=max_new_tokens))
        return model.tokenizers.target.decode(model.engine.generate(asked, lambda count: None)[0][0].tokens), ()

    def distances(self) -> NDArray[np.float32]:
        """(station, token): how far the vector of each token lies from where it lies in the text as it stands."""
        return stream_distances(self.model.module, self.ids, self.order)[1]


def reordering(model: Model, text: str, order: Sequence[int] = ()) -> Reordering:
    """A text whose movable token number `order[i]` stands at the i-th of their places; no order: as they are."""
    ids = _ids(model, text)
    return Reordering(model, text, ids, full_order(ids, order))


def without_position_embeddings(model: Model) -> Model:
    """The same model when it is not told where anything stands; it shares all weights."""
    module: Any = remove_positions(model.module)
    return open_model(StoredModel(model.config, module, model.tokenizers))


def full_order(ids: list[int], order: Sequence[int]) -> list[int]:
    """An order of the movable tokens as one of all: <bos> and <eos> stay where they are."""
    places = [place for place, number in enumerate(ids) if number not in (PAD, BOS, EOS)]
    order = order or range(len(places))
    if sorted(order) != list(range(len(places))):
        raise UserError(f"An order of these {len(places)} tokens names each of them once.", location="order")
    whole = list(range(len(ids)))
    for place, token in zip(places, order, strict=True):
        whole[place] = places[token]
    return whole


def _ids(model: Model, text: str) -> list[int]:
    """The tokens of a text as its model reads them."""
    if isinstance(model, Predictor):
        return model.encode_input(text).ids
    return model.encode(text) if model.has_source else [BOS, *model.encode(text)]
