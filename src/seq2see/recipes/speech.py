"""Recipes of speech recognition."""

from __future__ import annotations

from seq2see.data.generated.morse import MorseCorpus
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import TextTarget, TokenEmbeddingSettings
from seq2see.data.tokenizers.tokenizer import Characters
from seq2see.models.sound_settings import CTCTarget, Sound, SoundEmbeddingSettings, TransducerTarget, CTCAttentionTarget
from seq2see.tasks.transcribe import TranscribeRecipe
from seq2see.training.optimizers import Cosine
from seq2see.training.settings import Training


def transcribe() -> TranscribeRecipe:
    """CTC for your own recordings: `seq2see train transcribe recordings/`; by default for Morse code in noise."""
    return TranscribeRecipe(
        name="transcribe",
        corpus=MorseCorpus(),
        source=Sound(rate=4000, bands=32, embedding=SoundEmbeddingSettings(channels=16)),
        target=CTCTarget(),
        encoder=RecurrentEncoderSettings(width=128, depth=2, cell="gru", dropout=0.1),
        training=Training(
            steps=600, learning_rate=3e-3, batch_tokens=8000, evaluate_every=100, schedule=Cosine(warmup=50)
        ),
    )
