"""Language models: read a text from left to right, and at every place guess the token that comes next.

p(x₁ ... x_T) = Π p(x_t | x₁ ... x_{t-1}): a factor for each place. Bengio et al. 2003; with recurrent cells Mikolov et
al. 2010; with a Transformer's blocks it is GPT (Radford et al. 2018). Any decoder goes. A sequence-to-sequence model
is the same with a source to look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.core.devices import device_of
from seq2see.layers.masks import next_position_ids


@dataclass(frozen=True)
class DecoderState:
    """Where each row stands in its text, and what the decoder remembers."""

    position: Int[Tensor, "row"]
    decoder: Any


class LanguageModel(nn.Module):
    """A decoder that reads what is written so far, and a head that names the next token."""

    def __init__(self, target: nn.Module, decoder: nn.Module, head: nn.Module):
        super().__init__()
        self.target: Any = target
        self.decoder: Any = decoder
        self.head = head

    def forward(self, batch: Batch) -> Float[Tensor, "row time vocab"]:
        """The scores of the next token at every time, all times at once."""
        return self.head(self.hidden(batch).values)

    def hidden(self, batch: Batch) -> Sequences:
        """The decoder's hidden states when it is fed the text itself (teacher forcing)."""
        assert batch.target is not None, "a language model needs a text"
        return Sequences(self.decoder(self.target(batch.target), None), batch.target.lengths)

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> DecoderState:
        """Get ready to write up to `max_length` tokens."""
        assert source is None, "a language model has no source: what it shall go on from is a prefix"
        nothing = torch.zeros(rows, dtype=torch.long, device=device_of(self))
        return DecoderState(nothing, self.decoder.start(None, rows, max_length))

    def step(
        self, tokens: Shaped[Tensor, "row new"], state: DecoderState
    ) -> tuple[Float[Tensor, "row new vocab"], DecoderState]:
        """Take in new tokens (or numbers of a series); give the scores of what comes after each of them."""
        hidden, state = self.step_hidden(tokens, state)
        return self.head(hidden), state

    def step_hidden(
        self, tokens: Shaped[Tensor, "row new"], state: DecoderState
    ) -> tuple[Float[Tensor, "row new width"], DecoderState]:
        """The hidden states at new tokens, read from where the state was left, and the state after them."""
        vectors = self.target.embed_at(tokens, next_position_ids(state.position, tokens.size(1)))
        hidden, decoder = self.decoder.step(vectors, state.decoder)
        return hidden, DecoderState(state.position + tokens.size(1), decoder)
