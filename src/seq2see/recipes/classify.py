"""Recipes that name the label of a text."""

from __future__ import annotations

from typing import Any

from seq2see.decoding.settings import Decoding
from seq2see.models.convolutional import WindowEncoderSettings
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.settings import Label, Sentences, Text, Tokens
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import BytePairs, Characters, Given, Words
from seq2see.sources.catalogue import CataloguedCorpus
from seq2see.sources.pocket.times import PocketTimes
from seq2see.training.objectives import Classify
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def classify_text() -> Recipe:
    """A small Transformer for your own texts and labels: `seq2see train classify-text my.tsv`, a pair on a line."""
    return Recipe(
        name="classify-text",
        corpus=PocketTimes(),
        source=Text(tokeniser=BytePairs(size=4000), frontend=Tokens(positions="rotary")),
        target=Label(),
        encoder=TransformerSettings(width=128, depth=2, heads=4, dropout=0.2),
        objective=Classify(smoothing=0.1),
        training=Training(steps=600, rate=1e-3, tokens=2048, save_every=100, patience=4, schedule=Cosine(warmup=50)),
        decoding=Decoding(max_new_tokens=1),
        metrics=(),
    )


def classify_text_gru() -> Recipe:
    """The same by gated cells that read in both directions."""
    return _with(classify_text(), "classify-text-gru", RecurrentEncoderSettings(width=128))


def classify_text_windows() -> Recipe:
    """The same by windows of three to five tokens, each pattern at its best place (Kim 2014)."""
    return _with(classify_text(), "classify-text-windows", WindowEncoderSettings(width=150, dropout=0.2))


def classify_text_zh() -> Recipe:
    """The same question about Chinese sentences, read by character."""
    return classify_text().with_(
        **{"name": "classify-text-zh", "corpus.language": "zh", "source.tokeniser": Characters()}
    )


def sst2_windows() -> Recipe:
    """English film reviews, good or bad, by windows of words (Kim 2014)."""
    return _sst2("sst2-windows", WindowEncoderSettings())


def sst2_lstm() -> Recipe:
    """The same reviews by an LSTM that reads in both directions."""
    return _sst2("sst2-lstm", RecurrentEncoderSettings(cell="lstm", dropout=0.5))


def sst2_transformer() -> Recipe:
    """The same reviews by a Transformer that has read nothing else before."""
    base = _sst2("sst2-transformer", TransformerSettings(width=128, depth=2, heads=4, dropout=0.3))
    return base.with_(**{"source.frontend.positions": "rotary", "training.rate": 5e-4})


def sst2_minilm() -> Recipe:
    """The same reviews by MiniLM, which has read much before; `--set start=FOLDER` names its folder."""
    encoder = TransformerSettings(
        width=384, depth=6, heads=12, dropout=0.1, epsilon=1e-12, order="post", think="gelu"
    )  # as all-MiniLM-L6-v2 is (Wang et al. 2020; Reimers & Gurevych 2019)
    text = Text(tokeniser=Given(), frontend=Sentences(), longest=254)
    base = _reviews("sst2-minilm", "sst2", encoder).model_copy(update={"source": text})
    return base.with_(
        **{
            "training.steps": 600,
            "training.save_every": 100,
            "training.tokens": 1024,
            "training.rate": 1e-4,
            "training.schedule.warmup": 60,
        }
    )


def chnsenticorp_windows() -> Recipe:
    """Chinese reviews of hotels, books and computers, good or bad, by windows of characters (Kim 2014)."""
    base = _reviews("chnsenticorp-windows", "chnsenticorp", WindowEncoderSettings())
    return base.with_(**{"source.tokeniser": Characters(min_count=2)})


def _reviews(name: str, corpus: str, encoder: Any) -> Recipe:
    base = _with(classify_text(), name, encoder)
    training = base.training.with_(steps=3000, save_every=200, tokens=2048, patience=5)
    return base.model_copy(update={"corpus": CataloguedCorpus(name=corpus), "training": training})


def _sst2(name: str, encoder: Any) -> Recipe:
    return _reviews(name, "sst2", encoder).with_(**{"source.tokeniser": Words(min_count=2)})


def _with(base: Recipe, name: str, encoder: Any) -> Recipe:
    text = Text(tokeniser=base.read.tokeniser, frontend=Tokens(positions="none"))
    return base.model_copy(update={"name": name, "encoder": encoder, "source": text})
