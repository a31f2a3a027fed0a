"""Recipes for language models of running text: Transformers, recurrent networks, MLPs and n-grams."""

from __future__ import annotations

from typing import Any

from seq2see.data.catalogue.catalogue import CatalogueText
from seq2see.data.readers.texts import PythonLibrary
from seq2see.data.tokenizers.tokenizer import Characters, Whitespace
from seq2see.decoding.engine import Decoding
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.recurrent import AWDSettings, CellName, RecurrentDecoderSettings
from seq2see.models.settings import TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.ngram import NgramRecipe, NgramText
from seq2see.tasks.write import WriteRecipe
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import NTASGD, SGD, AdamW, Constant, Cosine
from seq2see.training.settings import Training


def write() -> WriteRecipe:
    """A small GPT for your own text: `seq2see train write book.txt`; by default on Python's standard library."""
    return WriteRecipe(
        name="write",
        corpus=PythonLibrary(),
        target=TextTarget(tokenizer=Characters(min_count=2), max_tokens=128),
        decoder=TransformerSettings(width=128, depth=4, heads=4, dropout=0.0),
        training=Training(
            steps=2000, learning_rate=2e-3, batch_tokens=1536, evaluate_every=500, schedule=Cosine(warmup=100)
        ),
        decoding=Decoding(max_new_tokens=64, do_sample=True, temperature=0.8),
    )


def shakespeare() -> WriteRecipe:
    """A small GPT on Shakespeare's plays; the last tenth is the validation set."""
    return write().model_copy(update={"name": "shakespeare", "corpus": CatalogueText()})


def shakespeare_large() -> WriteRecipe:
    """A GPT with Llama's parts and 14 million weights on Shakespeare's plays, trained by Muon; for a GPU."""
    changes = {
        "name": "shakespeare-large",
        "target.max_tokens": 1024,
        "decoder.width": 384,
        "decoder.depth": 6,
        "decoder.heads": 8,
        "decoder.dropout": 0.2,
        "training.batch_tokens": 8192,
        "training.steps": 1000,
        "training.evaluate_every": 1000,
        "training.precision": "bf16",
        "training.custom_kernels": False,
        "training.optimizer.kind": "muon",
        "training.learning_rate": 4e-3,
    }
    # A tied head predicts at first the token that is its input; the first steps would have to unlearn that.
    llama = {
        "target.embedding.positions": "rotary",
        "target.head": "untied-no-bias",
        "decoder.norm": "rms",
        "decoder.activation": "swiglu",
    }
    return shakespeare().with_(**changes, **llama)


def write_gpt2() -> WriteRecipe:
    """A small language model like GPT-2: learned positions and GELU (Radford et al. 2019)."""
    embedding = TokenEmbeddingSettings(positions="learned", max_positions=128, scale=False)
    return _write_with("write-gpt2", embedding, activation="gelu-tanh")


def write_llama() -> WriteRecipe:
    """A small language model like Llama: rotary positions, grouped-query attention, SwiGLU (Touvron et al. 2023)."""
    embedding = TokenEmbeddingSettings(positions="rotary", scale=False)
    # A gated layer has three matrices instead of two; with 2/3 of the usual width it has the same number of weights.
    feed_forward = {"activation": "swiglu", "mlp_ratio": 8 / 3}
    attention = {"bias": False, "kv_heads": 2}
    llama = _write_with("write-llama", embedding, norm="rms", norm_eps=1e-6, **attention, **feed_forward)
    return llama.with_(**{"target.head": "untied-no-bias"})


def write_alibi() -> WriteRecipe:
    """A small GPT with ALiBi: attention biases in proportion to the distance of tokens (Press et al. 2022)."""
    return _write_with("write-alibi", TokenEmbeddingSettings(positions="alibi"))


def write_lstm() -> WriteRecipe:
    """A language model by an LSTM of two layers; its state is carried from batch to batch (Zaremba et al. 2014)."""
    return _recurrent("write-lstm", "lstm")


def write_gru() -> WriteRecipe:
    """A language model by a GRU of two layers (Cho et al. 2014)."""
    return _recurrent("write-gru", "gru")


def write_rnn() -> WriteRecipe:
    """A language model by a vanilla RNN of two layers (Mikolov et al. 2010)."""
    return _recurrent("write-rnn", "rnn")


def write_rnn_relu() -> WriteRecipe:
    """A language model by an RNN with ReLU in place of tanh (Le, Jaitly & Hinton 2015)."""
    return _recurrent("write-rnn-relu", "rnn-relu")


def _recurrent(name: str, cell: CellName) -> WriteRecipe:
    """A recurrent language model with contiguous batches of twelve rows."""
    decoder = RecurrentDecoderSettings(cell=cell, attention="none", depth=2, dropout=0.1)
    base = _write_with(name, TokenEmbeddingSettings(positions="none")).model_copy(update={"decoder": decoder})
    return base.with_(**{"training.batches": "contiguous"})


def write_mlp() -> WriteRecipe:
    """A neural language model with a context of eight characters and one hidden layer (Bengio et al. 2003)."""
    decoder = MLPDecoderSettings(width=64, context=8, hidden=512, dropout=0.0)
    return _write_with("write-mlp", TokenEmbeddingSettings(positions="none")).model_copy(update={"decoder": decoder})


def write_linear() -> WriteRecipe:
    """A linear language model with a context of eight characters (Mnih & Hinton 2007)."""
    return write_mlp().with_(**{"name": "write-linear", "decoder.depth": 0})


def _write_with(name: str, embedding: TokenEmbeddingSettings, **decoder: Any) -> WriteRecipe:
    """The recipe `write` with another embedding and other settings of the decoder."""
    changes = {f"decoder.{setting}": value for setting, value in decoder.items()}
    return write().with_(**{"name": name, "target.embedding": embedding, **changes})


# --- The Penn Treebank: a million words, the classical benchmark of recurrent language models. ---


def ptb_lstm() -> WriteRecipe:
    """A regularized LSTM of two layers on the Penn Treebank; 90 epochs, for a GPU."""
    return WriteRecipe(
        name="ptb-lstm",
        corpus=CatalogueText(name="ptb"),
        target=TextTarget(
            tokenizer=Whitespace(), embedding=TokenEmbeddingSettings(positions="none", scale=False), max_tokens=70
        ),
        # Widths are multiples of 128, that of the state at most 1024, and rows a multiple of 8: so a GPU keeps the
        # weights in its registers (in 16 bits), and one kernel computes all time steps of a layer.
        decoder=RecurrentDecoderSettings(
            cell="lstm",
            attention="none",
            width=1024,
            depth=2,
            embedding_width=384,
            dropout=0.25,
            awd=AWDSettings(embedding_dropout=0.1, input_dropout=0.4, weight_dropout=0.5, output_dropout=0.4),
        ),
        # TAR 0.6 corresponds to 1 in the paper, which computes it before dropout (see `activation_regularization`).
        objective=NextToken(ar=2.0, tar=0.6),
        # 40 rows of 70 words: 332 steps are an epoch.
        training=Training(
            steps=30_000,
            learning_rate=4e-3,
            batch_tokens=2800,
            max_grad_norm=0.25,
            evaluate_every=2000,
            batches="contiguous",
            precision="bf16",
            optimizer=AdamW(weight_decay=0.05),
            schedule=Cosine(warmup=500),
        ),
        decoding=Decoding(max_new_tokens=32, do_sample=True),
    )


def ptb_awd_lstm() -> WriteRecipe:
    """AWD-LSTM on the Penn Treebank, trained by SGD and NT-ASGD as in the paper (Merity et al. 2018)."""
    sgd = Training(
        steps=332_000,
        learning_rate=30.0,
        batch_tokens=1400,
        max_grad_norm=0.25,
        evaluate_every=664,
        batches="contiguous",
        optimizer=SGD(weight_decay=1.2e-6),
        schedule=Constant(),
        average=NTASGD(),
    )
    shape = {
        "decoder.width": 1150,
        "decoder.depth": 3,
        "decoder.embedding_width": 400,
        "decoder.projection": "last-layer",
    }
    return ptb_lstm().model_copy(update={"name": "ptb-awd-lstm", "training": sgd}).with_(**shape)


def ptb_gpt() -> WriteRecipe:
    """A GPT on the Penn Treebank with as many weights as `ptb-lstm` and a context of 128 words."""
    return WriteRecipe(
        name="ptb-gpt",
        corpus=CatalogueText(name="ptb"),
        target=TextTarget(tokenizer=Whitespace(), max_tokens=128),
        decoder=TransformerSettings(width=448, depth=6, heads=8, dropout=0.4),
        # 70 windows of 128 words: 104 steps are an epoch.
        training=Training(
            steps=8000,
            learning_rate=5e-4,
            batch_tokens=8960,
            evaluate_every=500,
            patience=4,
            schedule=Cosine(warmup=500),
            optimizer=AdamW(weight_decay=0.1),
            precision="bf16",
        ),
        decoding=Decoding(max_new_tokens=32, do_sample=True),
    )


# --- n-gram models ---


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
