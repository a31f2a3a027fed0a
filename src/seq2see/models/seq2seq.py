"""Sequence to sequence: encode the source, then generate the target token by token.

Sutskever, Vinyals & Le 2014; Cho et al. 2014. It is a language model of the target, conditioned on the source. Every
encoder can be combined with every decoder: two recurrent ones, a Transformer, or one of each.
"""

from __future__ import annotations

import torch
from torch import nn

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.models.embeddings_and_heads import TokenEmbedding
from seq2see.models.encoder_model import EncoderOutput
from seq2see.models.language_model import DecoderState, LanguageModel


class Seq2Seq(LanguageModel):
    """Embeddings of source and target, an encoder, a decoder, and a head for the logits of the next token."""

    def __init__(
        self, source: nn.Module, encoder: nn.Module, target: TokenEmbedding, decoder: nn.Module, head: nn.Module
    ):
        nn.Module.__init__(self)  # the order of the parts below determines the order of the parameters
        self.source, self.encoder = source, encoder
        self.target, self.decoder, self.head = target, decoder, head

    def hidden(self, batch: Batch) -> Sequences:
        """The decoder's hidden states with the target itself as input (teacher forcing)."""
        assert batch.source is not None, "sequence to sequence needs a source"
        assert batch.target is not None, "and a target"
        memory = self.encode(batch.source)
        return Sequences(self.decoder(self.target(batch.target), memory), batch.target.lengths)

    def encode(self, source: Sequences | Images) -> EncoderOutput:
        """The encoder output for the source."""
        return self.encoder(self.source(source))

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> DecoderState:
        """Encode the source; return the state before the first token, for up to `max_length` tokens."""
        assert source is not None, "sequence to sequence needs a source"
        memory = self.encode(source)
        return DecoderState(torch.zeros_like(memory.lengths), self.decoder.start(memory, rows, max_length))
