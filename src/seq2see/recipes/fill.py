"""Recipes that guess hidden tokens: masked language models of running text."""

from __future__ import annotations

from seq2see.decoding.settings import Decoding
from seq2see.models.settings import Blanks, BlanksAndPairs, Sentences, Text, Tokens
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import BytePairs, Characters
from seq2see.sources.texts import PythonLibrary
from seq2see.training.objectives import MaskedToken, MaskedTokenNextSentence
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def fill() -> Recipe:
    """A small BERT for your own text: `seq2see train fill book.txt`; without a file it learns Python from Python."""
    return Recipe(
        name="fill",
        corpus=PythonLibrary(),
        source=Text(tokeniser=BytePairs(size=4000), frontend=Tokens(positions="rotary"), longest=128),
        target=Blanks(),
        encoder=TransformerSettings(width=128, depth=4, heads=4, dropout=0.0, think="gelu-tanh"),
        objective=MaskedToken(),
        training=Training(steps=2000, rate=2e-3, tokens=2048, save_every=500, schedule=Cosine(warmup=100)),
        decoding=Decoding(max_new_tokens=1, top_k=5),
        metrics=(),
    )


def fill_characters() -> Recipe:
    """The same by character, as suits Chinese: every character of a text can be asked for."""
    return fill().with_(**{"name": "fill-characters", "source.tokeniser": Characters(min_count=2)})


def fill_bert() -> Recipe:
    """As in the paper: learned places and sentences, norms after the parts, a second question (Devlin et al. 2019)."""
    return fill().with_(
        **{
            "name": "fill-bert",
            "source.frontend": Sentences(),
            "target": BlanksAndPairs(),
            "objective": MaskedTokenNextSentence(),
            "encoder.order": "post",
            "encoder.dropout": 0.1,
            "training.rate": 1e-3,
        }
    )
