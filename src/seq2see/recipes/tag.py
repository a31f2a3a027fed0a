"""Recipes that give every word a tag."""

from __future__ import annotations

from seq2see.decoding.settings import Decoding
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.settings import Ngrams, Tags, Text, Tokens
from seq2see.sequences.tokenisers import BytePairs, Characters
from seq2see.sources.catalogue import CataloguedCorpus
from seq2see.sources.pocket.corpus import PocketCorpus
from seq2see.training.objectives import Classify
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def tag() -> Recipe:
    """A tag for each word of your own sentences, by an LSTM: `seq2see train tag my.conllu`, CoNLL or CoNLL-U."""
    return Recipe(
        name="tag",
        corpus=PocketCorpus(source="en", target="zh", size=4000),
        source=Text(tokeniser=BytePairs(size=4000), frontend=Tokens(positions="none")),
        target=Tags(),
        encoder=RecurrentEncoderSettings(cell="lstm", width=192, dropout=0.3),
        objective=Classify(),
        training=Training(steps=600, rate=3e-3, tokens=2048, save_every=100, patience=5, schedule=Cosine(warmup=50)),
        decoding=Decoding(max_new_tokens=1, top_k=1),
        metrics=(),
    )


def tag_zh() -> Recipe:
    """The same for Chinese words, read by character."""
    return tag().with_(
        **{"name": "tag-zh", "corpus.source": "zh", "corpus.target": "en", "source.tokeniser": Characters()}
    )


def ud_english_ewt() -> Recipe:
    """Parts of speech of English on the web (Universal Dependencies), from whole words and their n-grams."""
    text = Text(
        tokeniser=Characters(min_count=2), frontend=Ngrams(letters=4, rows=131_072, left_out=0.25), longest=1024
    )
    base = _treebank("ud-english-ewt").model_copy(update={"source": text})
    # Four letters and a bit are a word, so a step reads as many words as one of pieces would.
    wide = {"encoder.width": 384, "encoder.depth": 2, "encoder.dropout": 0.33}
    return base.with_(**wide, **{"training.tokens": 6144, "training.steps": 1500, "training.patience": 0})


def ud_chinese_gsd() -> Recipe:
    """Parts of speech of Chinese words (Universal Dependencies), from characters."""
    return _treebank("ud-chinese-gsd").with_(**{"source.tokeniser": Characters(min_count=2)})


def _treebank(name: str) -> Recipe:
    base = tag().with_(**{"name": name, "encoder.dropout": 0.5, "training.steps": 2000, "training.save_every": 200})
    return base.model_copy(update={"corpus": CataloguedCorpus(name=name)})
