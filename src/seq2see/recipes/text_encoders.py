"""Recipes for encoder-only models of text: masked language models, classification, and tags for words."""

from __future__ import annotations

from typing import Any

from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus, PocketTense
from seq2see.data.readers.texts import PythonLibrary
from seq2see.data.tokenizers.tokenizer import BPE, Characters, Pretrained, WordLevel
from seq2see.models.convolutional import TextCNNSettings
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.settings import (
    BertEmbeddingSettings,
    Label,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    NgramEmbeddingSettings,
    Tags,
    Text,
    TokenEmbeddingSettings,
)
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.classify_text import ClassifyTextRecipe
from seq2see.tasks.fill import FillRecipe
from seq2see.tasks.model_folder import Candidates
from seq2see.tasks.tag import TagRecipe
from seq2see.training.objectives import Classification, MaskedToken, MaskedTokenNextSentence
from seq2see.training.optimizers import Cosine
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


# --- classification ---


def classify_text() -> ClassifyTextRecipe:
    """A small Transformer for your own texts and labels: `seq2see train classify-text my.tsv`, one pair per line."""
    return ClassifyTextRecipe(
        name="classify-text",
        corpus=PocketTense(),
        source=Text(tokenizer=BPE(vocab_size=4000), embedding=TokenEmbeddingSettings(positions="rotary")),
        target=Label(),
        encoder=TransformerSettings(width=128, depth=2, heads=4, dropout=0.2),
        objective=Classification(label_smoothing=0.1),
        training=Training(
            steps=600, learning_rate=1e-3, batch_tokens=2048, evaluate_every=100, patience=4, schedule=Cosine(warmup=50)
        ),
    )


def classify_text_gru() -> ClassifyTextRecipe:
    """Text classification by a bidirectional GRU."""
    return _with(classify_text(), "classify-text-gru", RecurrentEncoderSettings(width=128))


def classify_text_cnn() -> ClassifyTextRecipe:
    """Text classification by TextCNN: kernels of three to five tokens, max pooling over time (Kim 2014)."""
    return _with(classify_text(), "classify-text-cnn", TextCNNSettings(width=150, dropout=0.2))


def classify_text_zh() -> ClassifyTextRecipe:
    """Classification of Chinese sentences with characters as tokens."""
    return classify_text().with_(
        **{"name": "classify-text-zh", "corpus.language": "zh", "source.tokenizer": Characters()}
    )


def sst2_text_cnn() -> ClassifyTextRecipe:
    """English movie reviews, positive or negative, by TextCNN (Kim 2014)."""
    return _sst2("sst2-text-cnn", TextCNNSettings())


def sst2_lstm() -> ClassifyTextRecipe:
    """English movie reviews by a bidirectional LSTM."""
    return _sst2("sst2-lstm", RecurrentEncoderSettings(cell="lstm", dropout=0.5))


def sst2_transformer() -> ClassifyTextRecipe:
    """English movie reviews by a Transformer trained from scratch."""
    base = _sst2("sst2-transformer", TransformerSettings(width=128, depth=2, heads=4, dropout=0.3))
    return base.with_(**{"source.embedding.positions": "rotary", "training.learning_rate": 5e-4})


def sst2_minilm() -> ClassifyTextRecipe:
    """English movie reviews by fine-tuning MiniLM; `--set pretrained=FOLDER` names its folder."""
    encoder = TransformerSettings(
        width=384, depth=6, heads=12, dropout=0.1, norm_eps=1e-12, norm_order="post", activation="gelu"
    )  # the shape of all-MiniLM-L6-v2 (Wang et al. 2020; Reimers & Gurevych 2019)
    text = Text(tokenizer=Pretrained(), embedding=BertEmbeddingSettings(), max_tokens=254)
    base = _reviews("sst2-minilm", "sst2", encoder).model_copy(update={"source": text})
    return base.with_(
        **{
            "training.steps": 600,
            "training.evaluate_every": 100,
            "training.batch_tokens": 1024,
            "training.learning_rate": 1e-4,
            "training.schedule.warmup": 60,
        }
    )


def chnsenticorp_text_cnn() -> ClassifyTextRecipe:
    """Chinese reviews of hotels, books and computers, positive or negative, by TextCNN (Kim 2014)."""
    base = _reviews("chnsenticorp-text-cnn", "chnsenticorp", TextCNNSettings())
    return base.with_(**{"source.tokenizer": Characters(min_count=2)})


def _reviews(name: str, corpus: str, encoder: Any) -> ClassifyTextRecipe:
    base = _with(classify_text(), name, encoder)
    training = base.training.with_(steps=3000, evaluate_every=200, batch_tokens=2048, patience=5)
    return base.model_copy(update={"corpus": CatalogueCorpus(name=corpus), "training": training})


def _sst2(name: str, encoder: Any) -> ClassifyTextRecipe:
    return _reviews(name, "sst2", encoder).with_(**{"source.tokenizer": WordLevel(min_count=2)})


def _with(base: ClassifyTextRecipe, name: str, encoder: Any) -> ClassifyTextRecipe:
    text = Text(tokenizer=base.source.tokenizer, embedding=TokenEmbeddingSettings(positions="none"))
    return base.model_copy(update={"name": name, "encoder": encoder, "source": text})


# --- tagging words (token classification) ---


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
