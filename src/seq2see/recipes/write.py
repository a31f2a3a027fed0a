"""Recipes that write: language models of running text."""

from __future__ import annotations

from typing import Any

from seq2see.decoding.settings import Decoding
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.recurrent import CellName, RecurrentDecoderSettings
from seq2see.models.settings import TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.recipe import Recipe
from seq2see.sequences.tokenizers import Characters
from seq2see.sources.catalogue_texts import CatalogueText
from seq2see.sources.texts import PythonLibrary
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training


def write() -> Recipe:
    """A small GPT for your own text: `seq2see train write book.txt`; without a file it learns Python from Python."""
    return Recipe(
        name="write",
        corpus=PythonLibrary(),
        target=TextTarget(tokenizer=Characters(min_count=2), max_tokens=128),
        decoder=TransformerSettings(width=128, depth=4, heads=4, dropout=0.0),
        training=Training(
            steps=2000, learning_rate=2e-3, batch_tokens=1536, evaluate_every=500, schedule=Cosine(warmup=100)
        ),
        decoding=Decoding(max_new_tokens=64, do_sample=True, temperature=0.8),
        metrics=(),
    )


def shakespeare() -> Recipe:
    """The same small GPT on Shakespeare's plays; the last tenth of them validates."""
    return write().model_copy(update={"name": "shakespeare", "corpus": CatalogueText()})


def shakespeare_large() -> Recipe:
    """The same plays by 14 million weights, for a GPU: the parts of Llama, and steps along all directions alike."""
    changes = {
        "name": "shakespeare-large", "target.max_tokens": 1024,
        "decoder.width": 384, "decoder.depth": 6, "decoder.heads": 8, "decoder.dropout": 0.2,
        "training.batch_tokens": 8192, "training.steps": 1000, "training.evaluate_every": 1000,
        "training.precision": "bf16", "training.custom_kernels": False,
        "training.optimizer.kind": "muon", "training.learning_rate": 4e-3,
    }  # fmt: skip
    # A table that is also the head begins by betting on the token it has just read; the first steps would unlearn that.
    llama = {
        "target.embedding.positions": "rotary", "target.head": "untied-no-bias", "decoder.norm": "rms", "decoder.activation": "swiglu",
    }  # fmt: skip
    return shakespeare().with_(**changes, **llama)


def write_gpt2() -> Recipe:
    """The same in the shape of GPT-2: learned positions, and a smooth feed-forward part (Radford et al. 2019)."""
    embedding = TokenEmbeddingSettings(positions="learned", max_positions=128, scale=False)
    return _like_write("write-gpt2", embedding, activation="gelu-tanh")


def write_llama() -> Recipe:
    """The same in the shape of Llama: rotary positions, keys that heads share, gates (Touvron et al. 2023)."""
    embedding = TokenEmbeddingSettings(positions="rotary", scale=False)
    # A gated part has three matrices instead of two: 2/3 of the usual width, and it has as many weights.
    feed_forward = {"activation": "swiglu", "mlp_ratio": 8 / 3}
    attention = {"bias": False, "kv_heads": 2}
    llama = _like_write("write-llama", embedding, norm="rms", norm_eps=1e-6, **attention, **feed_forward)
    return llama.with_(**{"target.head": "untied-no-bias"})


def write_alibi() -> Recipe:
    """The same with far tokens made less attractive, and no other positions (Press et al. 2022)."""
    return _like_write("write-alibi", TokenEmbeddingSettings(positions="alibi"))


def write_lstm() -> Recipe:
    """The same text by an LSTM of two layers that never forgets between two steps (Zaremba et al. 2014)."""
    return _recurrent("write-lstm", "lstm")


def write_gru() -> Recipe:
    """The same with gated recurrent units (Cho et al. 2014)."""
    return _recurrent("write-gru", "gru")


def write_rnn() -> Recipe:
    """The same with simple cells, which have no gates (Mikolov et al. 2010)."""
    return _recurrent("write-rnn", "rnn")


def write_rnn_relu() -> Recipe:
    """The same with simple cells that have a ReLU instead of tanh (Le, Jaitly & Hinton 2015)."""
    return _recurrent("write-rnn-relu", "rnn-relu")


def _recurrent(name: str, cell: CellName) -> Recipe:
    """A recurrent model of running text: a step reads twelve streams on."""
    cells = RecurrentDecoderSettings(cell=cell, attention="none", depth=2, dropout=0.1)
    like = _like_write(name, TokenEmbeddingSettings(positions="none")).model_copy(update={"decoder": cells})
    return like.with_(**{"training.batches": "contiguous"})


def write_mlp() -> Recipe:
    """The same text by the last eight characters alone, and one hidden layer (Bengio et al. 2003)."""
    window = MLPDecoderSettings(width=64, context=8, hidden=512, dropout=0.0)
    return _like_write("write-mlp", TokenEmbeddingSettings(positions="none")).model_copy(update={"decoder": window})


def write_linear() -> Recipe:
    """The same window without a hidden layer: a linear model of what comes next (Mnih & Hinton 2007)."""
    return write_mlp().with_(**{"name": "write-linear", "decoder.depth": 0})


def _like_write(name: str, embedding: TokenEmbeddingSettings, **decoder: Any) -> Recipe:
    changes = {f"decoder.{setting}": value for setting, value in decoder.items()}
    return write().with_(**{"name": name, "target.embedding": embedding, **changes})
