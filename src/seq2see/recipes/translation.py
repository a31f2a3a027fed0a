"""Recipes for the translation of real text: your own pairs, Multi30k, Tatoeba, and words to their pronunciations."""

from __future__ import annotations

from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.tokenizers.tokenizer import BPE, Characters, Unigram, WordLevel
from seq2see.decoding.engine import Decoding
from seq2see.decoding.samplers import GNMT, Average
from seq2see.models.recurrent import AttentionName, CellName, RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.translate import TranslateRecipe
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import (
    Adam,
    AdamW,
    CheckpointAverage,
    Cosine,
    ExponentialMovingAverage,
    InverseSquareRoot,
)
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


# --- Multi30k: from RNN to Transformer on real sentences, by default English to German. The recipes share corpus,
# subwords, regularization and decoding, so that only the architectures differ. ---


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
    return _multi30k_recurrent("multi30k-rnn", "rnn", "context-vector")


def multi30k_gru() -> TranslateRecipe:
    """GRU on Multi30k, still with one context vector."""
    return _multi30k_recurrent("multi30k-gru", "gru", "context-vector")


def multi30k_gru_attention() -> TranslateRecipe:
    """GRU with scaled dot-product attention on Multi30k (Luong et al. 2015)."""
    return _multi30k_recurrent("multi30k-gru-attention", "gru", "scaled-dot")


def multi30k_lstm_attention() -> TranslateRecipe:
    """LSTM with scaled dot-product attention on Multi30k."""
    return _multi30k_recurrent("multi30k-lstm-attention", "lstm", "scaled-dot")


def _multi30k_recurrent(name: str, cell: CellName, attention: AttentionName) -> TranslateRecipe:
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


# --- Tatoeba: short everyday sentences, Chinese to English, 26,000 training pairs. The first two recipes differ only in
# the tokenization of Chinese: `seq2see diff tatoeba-zh-en tatoeba-zh-en-bpe`. ---


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


# --- Grapheme-to-phoneme conversion on the 120,000 words of CMUdict, the smallest real sequence-to-sequence task: 29
# letters and signs, 69 phonemes, words of seven letters on average, and yet `though`, `tough` and `through` do not
# rhyme. Word errors ignore stress marks, every pronunciation of a word counts as correct, and no test word occurs in
# the training data. ---


def g2p() -> TranslateRecipe:
    """Grapheme to phoneme: a Transformer from English letters to phonemes."""
    stack = TransformerSettings(width=256, depth=4, heads=4, dropout=0.2)
    return TranslateRecipe(
        name="g2p",
        corpus=CatalogueCorpus(name="cmudict"),
        source=Text(tokenizer=Characters(), max_tokens=64),
        target=TextTarget(tokenizer=WordLevel(), max_tokens=64),
        encoder=stack,
        decoder=stack,
        objective=NextToken(label_smoothing=0.1),
        training=Training(
            # Large batches of about 800 words: tasks on characters need them (Wu et al. 2021).
            steps=12_000,
            learning_rate=1e-3,
            batch_tokens=8192,
            evaluate_every=1000,
            precision="bf16",
            batches="packed",
            compile=True,
            schedule=Cosine(warmup=1000),
            average=ExponentialMovingAverage(decay=0.999),
        ),
        decoding=Decoding(max_new_tokens=48, num_beams=5, length_penalty=Average()),
        metrics=("pronunciation",),
    )


def g2p_gru() -> TranslateRecipe:
    """Grapheme to phoneme by a GRU with attention (Bahdanau et al. 2015)."""
    base, no_positions = g2p(), TokenEmbeddingSettings(positions="none")
    return base.model_copy(
        update={
            "name": "g2p-gru",
            "source": Text(tokenizer=Characters(), embedding=no_positions, max_tokens=64),
            "target": TextTarget(tokenizer=WordLevel(), embedding=no_positions, max_tokens=64),
            "encoder": RecurrentEncoderSettings(width=512, depth=2, cell="gru", dropout=0.3),
            "decoder": RecurrentDecoderSettings(width=512, cell="gru", attention="additive", dropout=0.3),
            "training": base.training.with_(batches="bucketed", compile=False),
        }
    )
