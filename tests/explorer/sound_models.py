"""Tiny speech recognizers with random weights, one of each output, and recordings of tones for them."""

from __future__ import annotations

import base64
from functools import cache

import torch

from seq2see.core.seeds import seed_torch
from seq2see.data.recordings import RecordingExamples, StoredSamples
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, UNK, Characters, train_tokenizer
from seq2see.decoding.speech_settings import SpeechDecoding
from seq2see.layers.initialization import initialize
from seq2see.models.build_speech import build_speech_model
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import TextTarget, TokenEmbeddingSettings
from seq2see.models.sound_settings import (
    CTCAttentionTarget,
    CTCTarget,
    Sound,
    SoundEmbeddingSettings,
    SpeechModelSettings,
    TransducerTarget,
)
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.load import open_model
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from tiny_runs import PITCHES, SOUND_RATE, tones, wav_bytes

RATE, BANDS = SOUND_RATE, 13

SOURCE = Sound(sampling_rate=RATE, bands=BANDS, embedding=SoundEmbeddingSettings(channels=3))
CELLS = RecurrentEncoderSettings(width=16, depth=1, cell="gru", dropout=0.0)
TEXT = {"embedding": TokenEmbeddingSettings(positions="none"), "head": "untied"}


def _decoder(attention: str) -> RecurrentDecoderSettings:
    return RecurrentDecoderSettings(width=16, cell="gru", attention=attention, dropout=0.0)  # type: ignore[arg-type]


def _settings(target: object, decoder: object = None, encoder: object = CELLS) -> SpeechModelSettings:
    return SpeechModelSettings(source=SOURCE, target=target, encoder=encoder, decoder=decoder)  # type: ignore[arg-type]


STACK = TransformerSettings(width=16, depth=1, heads=2, dropout=0.0)
OUTPUTS = {
    "ctc": _settings(CTCTarget()),
    "ctc, transformer": _settings(CTCTarget(), encoder=STACK),
    "attention": _settings(TextTarget(**TEXT), _decoder("additive")),
    "joint": _settings(CTCAttentionTarget(**TEXT), _decoder("additive")),
    "transducer": _settings(TransducerTarget(joint_width=11), _decoder("none")),
    "transducer with attention": _settings(TransducerTarget(joint_width=11), _decoder("additive")),
}


@cache
def sound_model(name: str) -> Model:
    """The model of this output. All tests of a process share it, so they must not change it."""
    settings, tokenizer = OUTPUTS[name], train_tokenizer(Characters(), ["".join(PITCHES)])
    seed_torch(3, "weights")
    module = build_speech_model(settings, len(tokenizer))
    initialize(module, "xavier")
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=random)
        for parameter, weight in module.named_parameters():
            if parameter.startswith("head.") and weight.shape == (len(tokenizer),):
                weight[[UNK, BOS]] = -50.0  # every output is a text of letters
                weight[PAD] = float("transducer" in name)
                if name not in ("attention", "joint"):  # their decoders end a text by <eos>
                    weight[EOS] = -50.0
    decoding = SpeechDecoding(max_new_tokens=8)
    config = ModelConfig(task="transcribe", name=name, step=1, model=settings, decoding=decoding)
    return open_model(StoredModel(config, module.eval(), Tokenizers(tokenizer, tokenizer)))


def wav_base64(text: str, rate: int = RATE) -> str:
    """The recording of a text as a WAV file in base64."""
    return base64.b64encode(wav_bytes(tones(text, rate=rate), rate)).decode()


def recordings(*texts: str) -> RecordingExamples:
    """A split of recordings, with times for each letter that begin at 0.1 s."""
    times = tuple(tuple((0.1 + index / 4, 0.2 + index / 4) for index, _ in enumerate(text)) for text in texts)
    samples = StoredSamples.of([tones(text, seed) for seed, text in enumerate(texts)])
    names = tuple(f"recordings/<b>{number}.wav" for number, _ in enumerate(texts))
    return RecordingExamples(samples, RATE, texts, names, times=times)
