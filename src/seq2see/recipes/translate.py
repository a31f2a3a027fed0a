"""Recipes for translation: your own pairs, and the base model of the Transformer paper."""

from __future__ import annotations

from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.tokenizers.tokenizer import BPE, Unigram
from seq2see.decoding.length_penalties import GNMT, Average
from seq2see.decoding.settings import Decoding
from seq2see.models.settings import Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.translate import TranslateRecipe
from seq2see.training.averaging import CheckpointAverage, ExponentialMovingAverage
from seq2see.training.objectives import NextToken
from seq2see.training.optimizer_settings import Adam
from seq2see.training.schedules import InverseSquareRoot
from seq2see.training.settings import Training


def translate() -> TranslateRecipe:
    """A Transformer for your own pairs: `seq2see train translate my.tsv`; with early stopping."""
    stack = TransformerSettings(width=128, depth=3, heads=4, dropout=0.2)
    tokenizer = BPE(vocab_size=8000)
    return TranslateRecipe(
        name="translate",
        corpus=PocketCorpus(),
        source=Text(tokenizer=tokenizer),
        target=TextTarget(tokenizer=tokenizer, vocabulary="shared"),
        encoder=stack,
        decoder=stack,
        objective=NextToken(label_smoothing=0.1),
        training=Training(
            steps=6000,
            learning_rate=2e-3,
            batch_tokens=2048,
            evaluate_every=250,
            patience=6,
            schedule=InverseSquareRoot(warmup=500),
            average=ExponentialMovingAverage(decay=0.998),
        ),
        decoding=Decoding(max_new_tokens=128, num_beams=4, length_penalty=Average()),
    )


def transformer_base() -> TranslateRecipe:
    """The base model of "Attention is all you need" (6 + 6 layers, width 512), on Multi30k; needs a GPU."""
    stack = TransformerSettings(width=512, depth=6, heads=8, dropout=0.1, norm_order="post")
    tokenizer = Unigram(vocab_size=8000)
    return TranslateRecipe(
        name="transformer-base",
        corpus=CatalogueCorpus(name="multi30k", languages="en-de"),
        source=Text(tokenizer=tokenizer, max_tokens=128),
        target=TextTarget(tokenizer=tokenizer, max_tokens=128, vocabulary="shared"),
        encoder=stack,
        decoder=stack,
        objective=NextToken(label_smoothing=0.1),
        training=Training(
            steps=100_000,
            learning_rate=(512 * 4000) ** -0.5,
            batch_tokens=25_000,
            accumulate=2,
            max_grad_norm=0,
            evaluate_every=1000,
            optimizer=Adam(),
            schedule=InverseSquareRoot(warmup=4000),
            average=CheckpointAverage(count=5),
            precision="bf16",
        ),
        decoding=Decoding(max_new_tokens=150, num_beams=4, length_penalty=GNMT(alpha=0.6)),
    )
