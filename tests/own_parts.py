"""A metric, a tokenizer and an encoder of one's own, as docs/extend.md shows them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

import seq2see
from seq2see.core.batch import Sequences
from seq2see.core.settings import Settings
from seq2see.layers.masks import masked_mean
from seq2see.models.encoder_model import EncoderOutput

# --- a metric ---


def length_ratio(outputs: list[str], references: list[list[str]]) -> float:
    """The length of all outputs in characters, relative to that of the first references."""
    return sum(map(len, outputs)) / sum(len(first) for first, *_ in references)


seq2see.register_metric("length-ratio", length_ratio, title="length ratio", digits=2)

# --- a tokenizer ---


class CharacterPairs(Settings):
    """Every two characters are a token."""

    kind: Literal["character-pairs"] = "character-pairs"


def split_pairs(text: str) -> list[str]:
    """The tokens of a text; joined, they are the text again."""
    return [text[start : start + 2] for start in range(0, len(text), 2)]


seq2see.register_tokenizer(CharacterPairs, split_pairs)

# --- an encoder ---


class ContextMean(Settings):
    """Each position sees its own token and the mean of all tokens: the order has no effect."""

    kind: Literal["context-mean"] = "context-mean"
    width: int = 64
    """Width of the hidden states."""
    dropout: float = 0.1
    """Dropout rate of the embeddings."""


class ContextMeanEncoder(nn.Module):
    """h_t = tanh(W [x_t; mean of all x])."""

    def __init__(self, settings: ContextMean):
        super().__init__()
        self.linear = nn.Linear(2 * settings.width, settings.width)

    def forward(self, embedded: Sequences) -> EncoderOutput:
        """The hidden state of each position, and their mean as the vector of the whole text."""
        mean = masked_mean(embedded)[:, None].expand_as(embedded.values)
        hidden = Sequences(self.linear(torch.cat([embedded.values, mean], dim=-1)).tanh(), embedded.lengths)
        return EncoderOutput(hidden.values, hidden.lengths, masked_mean(hidden))


seq2see.register_encoder(ContextMean, ContextMeanEncoder)
