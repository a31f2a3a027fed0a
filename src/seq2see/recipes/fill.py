"""Recipes for masked language models of running text."""

from __future__ import annotations

from seq2see.data.readers.texts import PythonLibrary
from seq2see.data.tokenizers.tokenizer import BPE, Characters
from seq2see.models.settings import (
    BertEmbeddingSettings,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    Text,
    TokenEmbeddingSettings,
)
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.fill import FillRecipe
from seq2see.training.objectives import MaskedToken, MaskedTokenNextSentence
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training


def fill() -> FillRecipe:
    """A small BERT for your own text: `seq2see train fill book.txt`; by default on Python's standard library."""
    return FillRecipe(
        name="fill",
        corpus=PythonLibrary(),
        source=Text(
            tokenizer=BPE(vocab_size=4000), embedding=TokenEmbeddingSettings(positions="rotary"), max_tokens=128
        ),
        target=MaskedTokensTarget(),
        encoder=TransformerSettings(width=128, depth=4, heads=4, dropout=0.0, activation="gelu-tanh"),
        objective=MaskedToken(),
        training=Training(
            steps=2000, learning_rate=2e-3, batch_tokens=2048, evaluate_every=500, schedule=Cosine(warmup=100)
        ),
    )


def fill_characters() -> FillRecipe:
    """A small BERT with characters as tokens, as suits Chinese: every character can be masked."""
    return fill().with_(**{"name": "fill-characters", "source.tokenizer": Characters(min_count=2)})


def fill_bert() -> FillRecipe:
    """A small BERT like the paper's: learned positions, post-norm, next sentence prediction (Devlin et al. 2019)."""
    return fill().with_(
        **{
            "name": "fill-bert",
            "source.embedding": BertEmbeddingSettings(),
            "target": MaskedTokensNSPTarget(),
            "objective": MaskedTokenNextSentence(),
            "encoder.norm_order": "post",
            "encoder.dropout": 0.1,
            "training.learning_rate": 1e-3,
        }
    )
