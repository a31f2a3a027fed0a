"""From settings to a model: which class goes with which settings, in two tables."""

from __future__ import annotations

from typing import Any

from torch import nn

from seq2see.core.seeds import seed_torch
from seq2see.layers.initialise import initialise
from seq2see.layers.positions import POSITIONS
from seq2see.models.convolutional import ConvolutionalEncoder, ConvolutionalEncoderSettings
from seq2see.models.frontends import TokenFrontend
from seq2see.models.heads import HEADS
from seq2see.models.recurrent import (
    RecurrentDecoder,
    RecurrentDecoderSettings,
    RecurrentEncoder,
    RecurrentEncoderSettings,
)
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, Text
from seq2see.models.transformer import TransformerDecoder, TransformerEncoder, TransformerSettings

ENCODERS: dict[type, Any] = {
    TransformerSettings: TransformerEncoder,
    RecurrentEncoderSettings: RecurrentEncoder.of,
    ConvolutionalEncoderSettings: ConvolutionalEncoder.of,
}
DECODERS: dict[type, Any] = {
    TransformerSettings: TransformerDecoder,
    RecurrentDecoderSettings: RecurrentDecoder.of,
}


def build_model(settings: ModelSettings, source_size: int, target_size: int) -> Seq2Seq:
    """The model these settings describe, for vocabularies of these sizes."""
    encoder, decoder = settings.encoder, settings.decoder
    target_table = nn.Embedding(target_size, decoder.width)
    shared = settings.target.vocabulary == "shared"
    source_table = target_table if shared else nn.Embedding(source_size, encoder.width)
    return Seq2Seq(
        source=_frontend(settings.source, source_table, encoder.dropout),
        encoder=ENCODERS[type(encoder)](encoder),
        target=_frontend(settings.target, target_table, decoder.dropout),
        decoder=DECODERS[type(decoder)](decoder, encoder.width),
        head=HEADS[settings.target.head](target_table),
    )


def fresh_model(settings: ModelSettings, sizes: tuple[int, int], start: str, seed: int) -> Seq2Seq:
    """A model with its first weights drawn; they depend on the seed alone."""
    seed_torch(seed, "weights")
    model = build_model(settings, *sizes)
    initialise(model, start)
    return model


def _frontend(text: Text, table: nn.Embedding, dropout: float) -> TokenFrontend:
    return TokenFrontend(table, POSITIONS[text.frontend.positions](table.embedding_dim), dropout)
