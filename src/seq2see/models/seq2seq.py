"""Sequence to sequence: read the source, then write the target token by token.

Sutskever, Vinyals & Le 2014; Cho et al. 2014. Any encoder goes with any decoder: a recurrent pair, a
Transformer, or one of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.models.frontends import TokenFrontend
from seq2see.models.memory import Memory


@dataclass(frozen=True)
class Seq2SeqState:
    """Where each row stands in its target, and what the decoder remembers."""

    time: Int[Tensor, "row"]
    decoder: Any


class Seq2Seq(nn.Module):
    """An encoder that reads, a decoder that writes, and a head that names the next token."""

    def __init__(
        self, source: nn.Module, encoder: nn.Module, target: TokenFrontend, decoder: nn.Module, head: nn.Module
    ):
        super().__init__()
        self.source, self.encoder = source, encoder
        self.target: TokenFrontend = target
        self.decoder: Any = decoder
        self.head = head

    def forward(self, batch: Batch) -> Float[Tensor, "row time vocab"]:
        """The scores of the next token at every time, all times at once."""
        return self.head(self.hidden(batch).values)

    def hidden(self, batch: Batch) -> Sequences:
        """The decoder's hidden states when it is fed the target itself (teacher forcing)."""
        assert batch.source is not None, "sequence to sequence needs a source"
        assert batch.target is not None, "and a target"
        memory = self.encode(batch.source)
        return Sequences(self.decoder(self.target(batch.target), memory), batch.target.lengths)

    def encode(self, source: Sequences) -> Memory:
        """Read the source."""
        return self.encoder(self.source(source))

    def start(self, source: Sequences, rows: int, room: int) -> Seq2SeqState:
        """Read the source and get ready to write up to `room` tokens."""
        memory = self.encode(source)
        return Seq2SeqState(torch.zeros_like(memory.lengths), self.decoder.start(memory, rows, room))

    def step(
        self, tokens: Int[Tensor, "row new"], state: Seq2SeqState
    ) -> tuple[Float[Tensor, "row new vocab"], Seq2SeqState]:
        """Take in new target tokens; give the scores of the token after each of them."""
        times = state.time[:, None] + torch.arange(tokens.size(1), device=tokens.device)
        hidden, decoder = self.decoder.step(self.target.at(tokens, times), state.decoder)
        return self.head(hidden), Seq2SeqState(state.time + tokens.size(1), decoder)
