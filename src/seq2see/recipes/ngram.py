"""Recipes for n-gram models of running text."""

from __future__ import annotations

from seq2see.data.catalogue.catalogue_texts import CatalogueText
from seq2see.data.readers.texts import PythonLibrary
from seq2see.data.tokenizers.tokenizer import Characters, Whitespace
from seq2see.decoding.settings import Decoding
from seq2see.models.ngram_lm import NgramSettings
from seq2see.tasks.ngram import NgramRecipe, NgramText


def ngram() -> NgramRecipe:
    """A 7-gram model of the characters of your own text: `seq2see train ngram book.txt`; counted in seconds."""
    return NgramRecipe(
        name="ngram",
        corpus=PythonLibrary(),
        target=NgramText(tokenizer=Characters(min_count=2)),
        decoder=NgramSettings(order=7),
        decoding=Decoding(max_new_tokens=64, do_sample=True),
    )


def ngram_back_off() -> NgramRecipe:
    """A 7-gram model with discounting and back-off in place of Kneser-Ney smoothing."""
    return ngram().with_(**{"name": "ngram-back-off", "decoder.smoothing": "back-off"})


def ptb_ngram() -> NgramRecipe:
    """A 5-gram model of words on the Penn Treebank: the first baseline of neural language models."""
    return NgramRecipe(
        name="ptb-ngram",
        corpus=CatalogueText(name="ptb"),
        target=NgramText(tokenizer=Whitespace(), max_tokens=64),
        decoder=NgramSettings(order=5),
        decoding=Decoding(max_new_tokens=32, do_sample=True),
    )
