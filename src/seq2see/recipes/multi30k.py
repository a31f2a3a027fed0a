"""Recipes for Multi30k: from RNN to Transformer on real sentences, by default English to German.

The recipes share corpus, subwords, regularization and decoding, so that only the architectures differ.
"""

from __future__ import annotations

from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.tokenizers.tokenizer import BPE
from seq2see.decoding.length_penalties import Average
from seq2see.decoding.settings import Decoding
from seq2see.models.recurrent import AttentionName, CellName, RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.translate import TranslateRecipe
from seq2see.training.averaging import ExponentialMovingAverage
from seq2see.training.objectives import NextToken
from seq2see.training.schedules import InverseSquareRoot
from seq2see.training.settings import Training


def multi30k_transformer() -> TranslateRecipe:
    """A small Transformer on Multi30k, English to German."""
    stack = TransformerSettings(width=256, depth=4, heads=4, dropout=0.3)
    tokenizer = BPE(vocab_size=8000)
    return TranslateRecipe(
        name="multi30k-transformer",
        corpus=CatalogueCorpus(name="multi30k", languages="en-de"),
        source=Text(tokenizer=tokenizer),
        target=TextTarget(tokenizer=tokenizer, vocabulary="shared"),
        encoder=stack,
        decoder=stack,
        objective=NextToken(label_smoothing=0.1, r_drop=2.5),
        training=Training(
            steps=6000,
            learning_rate=3e-3,
            batch_tokens=4096,
            evaluate_every=1000,
            precision="bf16",
            batches="packed",
            compile=True,
            schedule=InverseSquareRoot(warmup=1000),
            average=ExponentialMovingAverage(decay=0.999),
        ),
        decoding=Decoding(max_new_tokens=100, num_beams=5, length_penalty=Average()),
        metrics=("bleu", "bleu-tokenized", "chrf", "exact_match"),
    )


def multi30k_rnn() -> TranslateRecipe:
    """Vanilla RNN on Multi30k: one context vector for the whole sentence."""
    return _recurrent("multi30k-rnn", "rnn", "context-vector")


def multi30k_gru() -> TranslateRecipe:
    """GRU on Multi30k, still with one context vector."""
    return _recurrent("multi30k-gru", "gru", "context-vector")


def multi30k_gru_attention() -> TranslateRecipe:
    """GRU with scaled dot-product attention on Multi30k (Luong et al. 2015)."""
    return _recurrent("multi30k-gru-attention", "gru", "scaled-dot")


def multi30k_lstm_attention() -> TranslateRecipe:
    """LSTM with scaled dot-product attention on Multi30k."""
    return _recurrent("multi30k-lstm-attention", "lstm", "scaled-dot")


def _recurrent(name: str, cell: CellName, attention: AttentionName) -> TranslateRecipe:
    base = multi30k_transformer()
    no_positions = TokenEmbeddingSettings(positions="none")
    return base.model_copy(
        update={
            "name": name,
            "source": Text(tokenizer=base.target.tokenizer, embedding=no_positions),
            "target": TextTarget(tokenizer=base.target.tokenizer, embedding=no_positions, vocabulary="shared"),
            "encoder": RecurrentEncoderSettings(cell=cell, width=512, dropout=0.4),
            "decoder": RecurrentDecoderSettings(cell=cell, attention=attention, width=512, dropout=0.4),
            "objective": NextToken(label_smoothing=0.1, r_drop=1.0),
            "training": base.training.with_(learning_rate=2e-3, batches="bucketed", compile=False),
        }
    )
