"""Sequence to sequence: read the source, then write the target token by token.

Sutskever, Vinyals & Le 2014; Cho et al. 2014. It is a language model of the target that has something to look at. Any
encoder goes with any decoder: a recurrent pair, a Transformer, or one of each.
"""

from __future__ import annotations

import torch
from torch import nn

from seq2see.core.batch import Batch, Pictures, Sequences
from seq2see.models.frontends import TokenFrontend
from seq2see.models.language_model import LanguageModel, WritingState
from seq2see.models.memory import Memory


class Seq2Seq(LanguageModel):
    """An encoder that reads, a decoder that writes, and a head that names the next token."""

    def __init__(
        self, source: nn.Module, encoder: nn.Module, target: TokenFrontend, decoder: nn.Module, head: nn.Module
    ):
        nn.Module.__init__(self)  # parts are counted in the order in which they stand here
        self.source, self.encoder = source, encoder
        self.target, self.decoder, self.head = target, decoder, head

    def hidden(self, batch: Batch) -> Sequences:
        """The decoder's hidden states when it is fed the target itself (teacher forcing)."""
        assert batch.source is not None, "sequence to sequence needs a source"
        assert batch.target is not None, "and a target"
        memory = self.encode(batch.source)
        return Sequences(self.decoder(self.target(batch.target), memory), batch.target.lengths)

    def encode(self, source: Sequences | Pictures) -> Memory:
        """Read the source."""
        return self.encoder(self.source(source))

    def start(self, source: Sequences | Pictures | None, rows: int, room: int) -> WritingState:
        """Read the source and get ready to write up to `room` tokens."""
        assert source is not None, "sequence to sequence needs a source"
        memory = self.encode(source)
        return WritingState(torch.zeros_like(memory.lengths), self.decoder.start(memory, rows, room))
