"""Building a speech recognizer from its settings; compare `build.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from seq2see.layers.ctc import CTCHead
from seq2see.layers.positions import POSITIONS
from seq2see.models.build import (
    DECODERS,
    DECODERS_WITHOUT_MEMORY,
    build_stack,
    build_token_embedding,
    language_model_head,
)
from seq2see.models.ctc import CTCAttentionHead, CTCAttentionModel, CTCModel
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import TextTarget
from seq2see.models.sound_embedding import SoundEmbedding
from seq2see.models.sound_settings import CTCAttentionTarget, CTCTarget, SpeechModelSettings, TransducerTarget
from seq2see.models.transducer import AttentionTransducer, JointNetwork, Transducer

SpeechModel = Seq2Seq | EncoderModel


def build_speech_model(settings: SpeechModelSettings, tokens: int) -> SpeechModel:
    """The speech recognizer of these settings, for a vocabulary of this size."""
    sound, encoder = settings.source, settings.encoder
    positions = POSITIONS[sound.embedding.positions](encoder.width)
    source = SoundEmbedding(sound.bands, sound.embedding.channels, encoder.width, positions, encoder.dropout)
    stack = build_stack(encoder, sound.embedding.positions)
    return OUTPUTS[type(settings.target)](settings, source, stack, tokens)


def _ctc(settings: SpeechModelSettings, source: nn.Module, encoder: nn.Module, tokens: int) -> CTCModel:
    return CTCModel(source, encoder, CTCHead(settings.encoder.width, tokens))


def _attention(settings: SpeechModelSettings, source: nn.Module, encoder: nn.Module, tokens: int) -> Seq2Seq:
    return Seq2Seq(source, encoder, *_decoder(settings, tokens))


def _ctc_attention(settings: SpeechModelSettings, source: nn.Module, encoder: nn.Module, tokens: int) -> Seq2Seq:
    target, decoder, head = _decoder(settings, tokens)
    assert isinstance(settings.target, CTCAttentionTarget)
    heads = CTCAttentionHead(head, CTCHead(settings.encoder.width, tokens), settings.target.ctc_weight)
    return CTCAttentionModel(source, encoder, target, decoder, heads)


def _decoder(settings: SpeechModelSettings, tokens: int) -> tuple[Any, nn.Module, nn.Module]:
    """The embedding of the target, its decoder, and the head."""
    text, decoder = settings.target_text, settings.decoder
    assert decoder is not None
    table = nn.Embedding(tokens, decoder.width)
    body = DECODERS[type(decoder)](decoder, settings.encoder.width, text.embedding.positions)
    return build_token_embedding(text, table, decoder.dropout), body, language_model_head(text, table)


def _transducer(settings: SpeechModelSettings, source: nn.Module, encoder: nn.Module, tokens: int) -> Transducer:
    decoder: Any = settings.decoder
    assert isinstance(settings.target, TransducerTarget)
    embedding = TextTarget().embedding.model_copy(update={"positions": "none"})
    target = build_token_embedding(
        TextTarget(embedding=embedding), nn.Embedding(tokens, decoder.width), decoder.dropout
    )
    head = JointNetwork(settings.encoder.width, decoder.width, settings.target.joint_width, tokens)
    if decoder.attention == "none":
        body = DECODERS_WITHOUT_MEMORY[type(decoder)](decoder, "none")
        return Transducer(source, encoder, target, body, head)
    body = DECODERS[type(decoder)](decoder, settings.encoder.width, "none")
    return AttentionTransducer(source, encoder, target, body, head)


OUTPUTS: dict[type, Callable[[SpeechModelSettings, nn.Module, nn.Module, int], SpeechModel]] = {
    CTCTarget: _ctc,
    TextTarget: _attention,
    CTCAttentionTarget: _ctc_attention,
    TransducerTarget: _transducer,
}
