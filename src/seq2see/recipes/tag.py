"""Recipes for tagging words (token classification)."""

from __future__ import annotations

from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.tokenizers.tokenizer import BPE, Characters
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.settings import NgramEmbeddingSettings, Tags, Text, TokenEmbeddingSettings
from seq2see.tasks.model_folder import Candidates
from seq2see.tasks.tag import TagRecipe
from seq2see.training.objectives import Classification
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training


def tag() -> TagRecipe:
    """A tag for each word of your own sentences, by an LSTM: `seq2see train tag my.conllu`, CoNLL or CoNLL-U."""
    return TagRecipe(
        name="tag",
        corpus=PocketCorpus(source="en", target="zh", size=4000),
        source=Text(tokenizer=BPE(vocab_size=4000), embedding=TokenEmbeddingSettings(positions="none")),
        target=Tags(),
        encoder=RecurrentEncoderSettings(cell="lstm", width=192, dropout=0.3),
        objective=Classification(),
        training=Training(
            steps=600, learning_rate=3e-3, batch_tokens=2048, evaluate_every=100, patience=5, schedule=Cosine(warmup=50)
        ),
        prediction=Candidates(top_k=1),
    )


def tag_zh() -> TagRecipe:
    """Tags for Chinese words, with characters as tokens."""
    return tag().with_(
        **{"name": "tag-zh", "corpus.source": "zh", "corpus.target": "en", "source.tokenizer": Characters()}
    )


def ud_english_ewt() -> TagRecipe:
    """Parts of speech of English web texts (Universal Dependencies), from words and their character n-grams."""
    text = Text(
        tokenizer=Characters(min_count=2),
        embedding=NgramEmbeddingSettings(max_n=4, buckets=131_072, word_dropout=0.25),
        max_tokens=1024,
    )
    base = _treebank("ud-english-ewt").model_copy(update={"source": text})
    # A word has a little more than four characters, so a batch has as many words as one of subwords would have.
    encoder = {"encoder.width": 384, "encoder.depth": 2, "encoder.dropout": 0.33}
    return base.with_(**encoder, **{"training.batch_tokens": 6144, "training.steps": 1500, "training.patience": 0})


def ud_chinese_gsd() -> TagRecipe:
    """Parts of speech of Chinese words (Universal Dependencies), from characters."""
    return _treebank("ud-chinese-gsd").with_(**{"source.tokenizer": Characters(min_count=2)})


def _treebank(name: str) -> TagRecipe:
    base = tag().with_(**{"name": name, "encoder.dropout": 0.5, "training.steps": 2000, "training.evaluate_every": 200})
    return base.model_copy(update={"corpus": CatalogueCorpus(name=name)})
