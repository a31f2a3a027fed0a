"""Recipes for Tatoeba: short everyday sentences, Chinese to English, 26,000 pairs to learn from.

The first two differ in one thing, how Chinese is cut: character by character, or in pieces that were merged
because they often stand together. `seq2see diff tatoeba-zh-en tatoeba-zh-en-bpe` shows it.
"""

from __future__ import annotations

from seq2see.decoding.penalties import Average
from seq2see.decoding.settings import Decoding
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import Text, TextTarget, Tokens
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import BytePairs, Characters, Words
from seq2see.sources.catalogue import CataloguedCorpus
from seq2see.training.averaging import MovingAverage
from seq2see.training.objectives import NextToken
from seq2see.training.optimisers import AdamW
from seq2see.training.schedules import InverseSquareRoot
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def tatoeba_zh_en() -> Recipe:
    """Everyday sentences from Tatoeba, Chinese to English: a Transformer that reads Chinese by character."""
    # Few pairs for so many weights: without much dropout they are learnt by heart, so the feed-forward parts are
    # narrow, and English words are cut anew in every epoch.
    stack = TransformerSettings(width=256, depth=3, heads=4, dropout=0.3, expansion=2)
    return Recipe(
        name="tatoeba-zh-en",
        corpus=CataloguedCorpus(name="tatoeba-zh-en", sides="zh-en"),
        source=Text(tokeniser=Characters(min_count=2)),
        target=TextTarget(tokeniser=BytePairs(size=4000, dropout=0.1)),
        encoder=stack,
        decoder=stack,
        objective=NextToken(smoothing=0.1),
        training=Training(
            steps=8000, rate=1e-3, tokens=4096, save_every=250, patience=8, precision="bf16", batches="packed",
            schedule=InverseSquareRoot(warmup=1000), average=MovingAverage(decay=0.998),
        ),
        decoding=Decoding(max_new_tokens=100, num_beams=5, length_penalty=Average()),
    )  # fmt: skip


def tatoeba_zh_en_bpe() -> Recipe:
    """The same Transformer, reading Chinese in byte pair pieces: frequent words are one token."""
    return tatoeba_zh_en().model_copy(
        update={"name": "tatoeba-zh-en-bpe", "source": Text(tokeniser=BytePairs(size=6000))}
    )


def tatoeba_zh_en_lstm() -> Recipe:
    """The same sentences by an attention LSTM, Chinese by character and English by word (Luong et al. 2015)."""
    base, bare = tatoeba_zh_en(), Tokens(positions="none")
    return base.model_copy(
        update={
            "name": "tatoeba-zh-en-lstm",
            "source": Text(tokeniser=Characters(min_count=2), frontend=bare),
            "target": TextTarget(tokeniser=Words(min_count=2), frontend=bare),
            "encoder": RecurrentEncoderSettings(cell="lstm", dropout=0.3),
            "decoder": RecurrentDecoderSettings(cell="lstm", look="dot", dropout=0.3),
            "training": base.training.with_(rate=2e-3, batches="buckets", optimiser=AdamW(decay=0.1)),
        }
    )
