"""Recipes that count: n-gram models of running text."""

from __future__ import annotations

from seq2see.decoding.settings import Decoding
from seq2see.models.counting import CountingSettings
from seq2see.models.settings import TextTarget
from seq2see.sequences.tokenisers import Characters, Spaced
from seq2see.sources.catalogued_texts import CataloguedText
from seq2see.sources.texts import PythonLibrary
from seq2see.workbench.recipe import Recipe


def count() -> Recipe:
    """Characters by the six before them, in your own text: `seq2see train count book.txt`; counted in seconds."""
    return Recipe(
        name="count",
        corpus=PythonLibrary(),
        target=TextTarget(tokeniser=Characters(min_count=2)),
        decoder=CountingSettings(order=7),
        decoding=Decoding(max_new_tokens=64, do_sample=True),
        metrics=(),
    )


def count_back_off() -> Recipe:
    """The same with discounts and back-off: what shorter contexts would be without Kneser and Ney."""
    return count().with_(**{"name": "count-back-off", "decoder.smoothing": "back-off"})


def ptb_counting() -> Recipe:
    """Words by the four before them, on the Penn Treebank: the model that neural ones were first compared with."""
    return Recipe(
        name="ptb-counting",
        corpus=CataloguedText(name="ptb"),
        target=TextTarget(tokeniser=Spaced(), longest=64),
        decoder=CountingSettings(order=5),
        decoding=Decoding(max_new_tokens=32, do_sample=True),
        metrics=(),
    )
