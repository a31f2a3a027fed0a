"""Language models: predict the next token at every position from the tokens before it.

p(x₁ ... x_T) = Π p(x_t | x₁ ... x_{t-1}), a factor for each position. Bengio et al. 2003; with recurrent cells Mikolov
et al. 2010; with Transformer blocks it is GPT (Radford et al. 2018). Every decoder can be used. A sequence-to-sequence
model is a language model of the target, conditioned on a source.
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
    """The position of each row in its text, and the state of the decoder."""

    position: Int[Tensor, "row"]
    decoder: Any


class LanguageModel(nn.Module):
    """The embedding of the target, a decoder, and a head for the logits of the next token."""

    def __init__(self, target: nn.Module, decoder: nn.Module, head: nn.Module):
        super().__init__()
        self.target: Any = target
        self.decoder: Any = decoder
        self.head = head

    def forward(self, batch: Batch) -> Float[Tensor, "row time vocab"]:
        """The logits of the next token at every position, all positions at once."""
        return self.head(self.hidden(batch).values)

    def hidden(self, batch: Batch) -> Sequences:
        """The decoder's hidden states with the text itself as input (teacher forcing)."""
        assert batch.target is not None, "a language model needs a text"
        return Sequences(self.decoder(self.target(batch.target), None), batch.target.lengths)

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> DecoderState:
        """The state before the first token, for up to `max_length` tokens."""
        assert source is None, "a language model has no source: a prompt is a prefix of the target"
        position = torch.zeros(rows, dtype=torch.long, device=device_of(self))
        return DecoderState(position, self.decoder.start(None, rows, max_length))

    def step(
        self, tokens: Shaped[Tensor, "row new"], state: DecoderState
    ) -> tuple[Float[Tensor, "row new vocab"], DecoderState]:
        """Process new tokens (or values of a series); return the logits of the token after each of them."""
        hidden, state = self.step_hidden(tokens, state)
        return self.head(hidden), state

    def step_hidden(
        self, tokens: Shaped[Tensor, "row new"], state: DecoderState
    ) -> tuple[Float[Tensor, "row new width"], DecoderState]:
        """The hidden states of new tokens that follow the state, and the state after them."""
        vectors = self.target.embed_at(tokens, next_position_ids(state.position, tokens.size(1)))
        hidden, decoder = self.decoder.step(vectors, state.decoder)
        return hidden, DecoderState(state.position + tokens.size(1), decoder)
