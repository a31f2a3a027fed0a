"""Recipes of speech recognition."""

from __future__ import annotations

from seq2see.data.catalogue.digit_strings import DigitStrings
from seq2see.data.catalogue.mandarin_words import MandarinWords
from seq2see.data.generated.morse import MorseCorpus
from seq2see.data.generated.tones import ToneCorpus
from seq2see.data.sound_augmentation import SPEECH, SoundAugmentation
from seq2see.data.tokenizers.tokenizer import Characters
from seq2see.models.convolutional import DilatedCNNSettings
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import TextTarget, TokenEmbeddingSettings
from seq2see.models.sound_settings import CTCAttentionTarget, CTCTarget, Sound, SoundEmbeddingSettings, TransducerTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.transcribe import TranscribeRecipe
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import Cosine
from seq2see.training.settings import Training

TEXT = {"tokenizer": Characters(), "embedding": TokenEmbeddingSettings(positions="none")}
"""A target of characters, for recurrent decoders."""


def transcribe() -> TranscribeRecipe:
    """CTC for your own recordings: `seq2see train transcribe recordings/`; by default for Morse code in noise."""
    return TranscribeRecipe(
        name="transcribe",
        corpus=MorseCorpus(),
        source=Sound(embedding=SoundEmbeddingSettings(channels=16)),
        target=CTCTarget(),
        # A Morse letter lasts for half a second: its form has to be learned, not its context.
        encoder=DilatedCNNSettings(),
        training=Training(
            steps=1500, learning_rate=4e-3, batch_tokens=4000, evaluate_every=250, schedule=Cosine(warmup=100)
        ),
    )


def transcribe_attention() -> TranscribeRecipe:
    """A decoder with attention to the frames, as in translation (Chan et al. 2016, "Listen, attend and spell")."""
    decoder = RecurrentDecoderSettings(width=128, attention="additive", dropout=0.1)
    changes = {"target": TextTarget(**TEXT), "decoder": decoder, "objective": NextToken(label_smoothing=0.05)}
    return transcribe().model_copy(update={"name": "transcribe-attention", **changes})


def transcribe_joint() -> TranscribeRecipe:
    """A decoder with attention whose encoder learns from CTC, too; both decode together (Watanabe et al. 2017)."""
    changes = {"target": CTCAttentionTarget(**TEXT, ctc_weight=0.5), "decoder": transcribe_attention().decoder}
    return transcribe().model_copy(update={"name": "transcribe-joint", **changes})


def transcribe_transducer() -> TranscribeRecipe:
    """A transducer: every frame emits letters or none, each given the letters before it (Graves 2012)."""
    decoder = RecurrentDecoderSettings(width=64, attention="none", dropout=0.1)
    changes = {"target": TransducerTarget(joint_width=96), "decoder": decoder}
    return transcribe().model_copy(update={"name": "transcribe-transducer", **changes})


def transcribe_transducer_attention() -> TranscribeRecipe:
    """A transducer whose prediction network attends to the frames, too (Prabhavalkar et al. 2017)."""
    changes = {"name": "transcribe-transducer-attention", "decoder.attention": "additive"}
    return transcribe_transducer().with_(**changes)


def transcribe_digits() -> TranscribeRecipe:
    """Strings of spoken English digits of FSDD and AudioMNIST; the test speakers are not trained on."""
    return TranscribeRecipe(
        name="transcribe-digits",
        corpus=DigitStrings(corpora=("fsdd", "audiomnist")),
        source=Sound(embedding=SoundEmbeddingSettings(channels=16)),
        target=CTCTarget(),
        encoder=DilatedCNNSettings(),
        augmentation=SPEECH,
        training=Training(
            steps=1500, learning_rate=3e-3, batch_tokens=4000, evaluate_every=500, schedule=Cosine(warmup=100)
        ),
    )


def transcribe_digits_gru() -> TranscribeRecipe:
    """The strings of spoken digits by a bidirectional GRU as the encoder."""
    encoder = RecurrentEncoderSettings(width=128, depth=2, dropout=0.1)
    return transcribe_digits().model_copy(update={"name": "transcribe-digits-gru", "encoder": encoder})


def transcribe_digits_transformer() -> TranscribeRecipe:
    """The strings of spoken digits by a Transformer as the encoder."""
    encoder = TransformerSettings(width=128, depth=3, heads=4, dropout=0.1)
    update = {"name": "transcribe-digits-transformer", "encoder": encoder}
    changes = {"source.embedding.positions": "rotary", "training.learning_rate": 1e-3}
    return transcribe_digits().model_copy(update=update).with_(**changes)


def transcribe_tones() -> TranscribeRecipe:
    """Which tone? Generated Mandarin vowels in four tones by random voices, for toned pinyin; no download."""
    update = {"name": "transcribe-tones", "corpus": ToneCorpus(), "augmentation": None}
    changes = {"source.bands": 64, "encoder.depth": 4, "training.steps": 800, "training.evaluate_every": 200}
    return transcribe_digits().model_copy(update=update).with_(**changes)


def transcribe_mandarin() -> TranscribeRecipe:
    """Spoken Mandarin words for toned pinyin by CTC; the test words are not trained on."""
    return TranscribeRecipe(
        name="transcribe-mandarin",
        corpus=MandarinWords(),
        source=Sound(sampling_rate=16_000, bands=64),
        target=CTCTarget(),
        encoder=DilatedCNNSettings(width=192, dropout=0.3),
        augmentation=SoundAugmentation(
            time_masks=2, frequency_masks=2, frequency_mask_bands=12, speed=0.1, tract=0.1, noise_db=10.0
        ),
        training=Training(
            steps=4000, learning_rate=3e-3, batch_tokens=6000, evaluate_every=1000, schedule=Cosine(warmup=100)
        ),
    )
