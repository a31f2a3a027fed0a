"""Recipes for grapheme-to-phoneme conversion on the 120,000 words of CMUdict.

The smallest real sequence-to-sequence task: 29 letters and signs, 69 phonemes, words of seven letters on average, and
yet `though`, `tough` and `through` do not rhyme. Word errors ignore stress marks, every pronunciation of a word counts
as correct, and no test word occurs in the training data.
"""

from __future__ import annotations

from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.tokenizers.tokenizer import Characters, WordLevel
from seq2see.decoding.length_penalties import Average
from seq2see.decoding.settings import Decoding
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.translate import TranslateRecipe
from seq2see.training.averaging import ExponentialMovingAverage
from seq2see.training.objectives import NextToken
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training


def g2p() -> TranslateRecipe:
    """Grapheme to phoneme: a Transformer from English letters to phonemes."""
    stack = TransformerSettings(width=256, depth=4, heads=4, dropout=0.2)
    return TranslateRecipe(
        name="g2p",
        corpus=CatalogueCorpus(name="cmudict"),
        source=Text(tokenizer=Characters(), max_tokens=64),
        target=TextTarget(tokenizer=WordLevel(), max_tokens=64),
        encoder=stack,
        decoder=stack,
        objective=NextToken(label_smoothing=0.1),
        training=Training(
            # Large batches of about 800 words: tasks on characters need them (Wu et al. 2021).
            steps=12_000,
            learning_rate=1e-3,
            batch_tokens=8192,
            evaluate_every=1000,
            precision="bf16",
            batches="packed",
            compile=True,
            schedule=Cosine(warmup=1000),
            average=ExponentialMovingAverage(decay=0.999),
        ),
        decoding=Decoding(max_new_tokens=48, num_beams=5, length_penalty=Average()),
        metrics=("pronunciation",),
    )


def g2p_gru() -> TranslateRecipe:
    """Grapheme to phoneme by a GRU with attention (Bahdanau et al. 2015)."""
    base, no_positions = g2p(), TokenEmbeddingSettings(positions="none")
    return base.model_copy(
        update={
            "name": "g2p-gru",
            "source": Text(tokenizer=Characters(), embedding=no_positions, max_tokens=64),
            "target": TextTarget(tokenizer=WordLevel(), embedding=no_positions, max_tokens=64),
            "encoder": RecurrentEncoderSettings(width=512, depth=2, cell="gru", dropout=0.3),
            "decoder": RecurrentDecoderSettings(width=512, cell="gru", attention="additive", dropout=0.3),
            "training": base.training.with_(batches="bucketed", compile=False),
        }
    )
