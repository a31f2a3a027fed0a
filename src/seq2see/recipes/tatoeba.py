"""Recipes for Tatoeba: short everyday sentences, Chinese to English, 26,000 training pairs.

The first two differ only in the tokenization of Chinese: characters, or subwords by BPE. See
`seq2see diff tatoeba-zh-en tatoeba-zh-en-bpe`.
"""

from __future__ import annotations

from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.tokenizers.tokenizer import BPE, Characters, WordLevel
from seq2see.decoding.length_penalties import Average
from seq2see.decoding.settings import Decoding
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.translate import TranslateRecipe
from seq2see.training.averaging import ExponentialMovingAverage
from seq2see.training.objectives import NextToken
from seq2see.training.optimizer_settings import AdamW
from seq2see.training.schedules import InverseSquareRoot
from seq2see.training.settings import Training


def tatoeba_zh_en() -> TranslateRecipe:
    """Everyday sentences from Tatoeba, Chinese to English: a Transformer with Chinese characters as tokens."""
    # Few pairs for this number of weights lead to overfitting. So dropout is high, the feed-forward layers are narrow,
    # and English words are split anew in every epoch (BPE dropout).
    stack = TransformerSettings(width=256, depth=3, heads=4, dropout=0.3, mlp_ratio=2)
    return TranslateRecipe(
        name="tatoeba-zh-en",
        corpus=CatalogueCorpus(name="tatoeba-zh-en", languages="zh-en"),
        source=Text(tokenizer=Characters(min_count=2)),
        target=TextTarget(tokenizer=BPE(vocab_size=4000, dropout=0.1)),
        encoder=stack,
        decoder=stack,
        objective=NextToken(label_smoothing=0.1),
        training=Training(
            steps=8000,
            learning_rate=1e-3,
            batch_tokens=4096,
            evaluate_every=250,
            patience=8,
            precision="bf16",
            batches="packed",
            schedule=InverseSquareRoot(warmup=1000),
            average=ExponentialMovingAverage(decay=0.998),
        ),
        decoding=Decoding(max_new_tokens=100, num_beams=5, length_penalty=Average()),
    )


def tatoeba_zh_en_bpe() -> TranslateRecipe:
    """The Transformer of `tatoeba-zh-en` with BPE for Chinese: frequent words are one token."""
    return tatoeba_zh_en().model_copy(
        update={"name": "tatoeba-zh-en-bpe", "source": Text(tokenizer=BPE(vocab_size=6000))}
    )


def tatoeba_zh_en_lstm() -> TranslateRecipe:
    """Tatoeba by an LSTM with attention, Chinese by character and English by word (Luong et al. 2015)."""
    base, no_positions = tatoeba_zh_en(), TokenEmbeddingSettings(positions="none")
    return base.model_copy(
        update={
            "name": "tatoeba-zh-en-lstm",
            "source": Text(tokenizer=Characters(min_count=2), embedding=no_positions),
            "target": TextTarget(tokenizer=WordLevel(min_count=2), embedding=no_positions),
            "encoder": RecurrentEncoderSettings(cell="lstm", dropout=0.3),
            "decoder": RecurrentDecoderSettings(cell="lstm", attention="dot", dropout=0.3),
            "training": base.training.with_(learning_rate=2e-3, batches="bucketed", optimizer=AdamW(weight_decay=0.1)),
        }
    )
