"""Recipes for language models of the Penn Treebank: a million words, the classical benchmark of recurrent models."""

from __future__ import annotations

from seq2see.data.catalogue.catalogue_texts import CatalogueText
from seq2see.data.tokenizers.tokenizer import Whitespace
from seq2see.decoding.settings import Decoding
from seq2see.models.recurrent import AWDSettings, RecurrentDecoderSettings
from seq2see.models.settings import TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.write import WriteRecipe
from seq2see.training.averaging import NTASGD
from seq2see.training.objectives import NextToken
from seq2see.training.optimizer_settings import SGD, AdamW
from seq2see.training.schedules import Constant, Cosine
from seq2see.training.settings import Training


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
