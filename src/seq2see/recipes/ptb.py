"""Language models of the Penn Treebank: a million words, on which recurrent models were made good."""

from __future__ import annotations

from seq2see.decoding.settings import Decoding
from seq2see.models.recurrent import LockedSettings, RecurrentDecoderSettings
from seq2see.models.settings import TextTarget, Tokens
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import Spaced
from seq2see.sources.catalogued_texts import CataloguedText
from seq2see.training.averaging import TriggeredAverage
from seq2see.training.objectives import NextToken
from seq2see.training.optimisers import SGD, AdamW
from seq2see.training.schedules import Constant, Cosine
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def ptb_lstm() -> Recipe:
    """Words of the Penn Treebank by a regularised LSTM of two layers; 90 epochs, for a GPU."""
    return Recipe(
        name="ptb-lstm",
        corpus=CataloguedText(name="ptb"),
        target=TextTarget(
            tokeniser=Spaced(), frontend=Tokens(positions="none", vectors="plain"), longest=70
        ),
        # Widths are multiples of 128, the state's at most 1024, rows a multiple of 8: so much a GPU keeps in its
        # registers, in 16 bits, and one kernel reads all times of a layer.
        decoder=RecurrentDecoderSettings(
            cell="lstm", look="first-state", width=1024, depth=2, vectors=384, dropout=0.25,
            locked=LockedSettings(words=0.1, inputs=0.4, weights=0.5, outputs=0.4),
        ),
        # A change of 0.6 is 1 in the paper, which looks at it before dropout (see `unrest`).
        objective=NextToken(activation=2.0, change=0.6),
        # 40 streams of 70 words: 332 steps are an epoch.
        training=Training(
            steps=30_000, rate=4e-3, tokens=2800, clip=0.25, save_every=2000, batches="streams", precision="bf16",
            optimiser=AdamW(decay=0.05), schedule=Cosine(warmup=500),
        ),
        decoding=Decoding(max_new_tokens=32, do_sample=True),
        metrics=(),
    )  # fmt: skip


def ptb_awd_lstm() -> Recipe:
    """The same, trained as in the paper: SGD, averaged once validation gets no better (Merity et al. 2018)."""
    sgd = Training(
        steps=332_000, rate=30.0, tokens=1400, clip=0.25, save_every=664, batches="streams",
        optimiser=SGD(penalty=1.2e-6), schedule=Constant(), average=TriggeredAverage(),
    )  # fmt: skip
    shape = {"decoder.width": 1150, "decoder.depth": 3, "decoder.vectors": 400, "decoder.narrowing": "layer"}
    return ptb_lstm().model_copy(update={"name": "ptb-awd-lstm", "training": sgd}).with_(**shape)


def ptb_gpt() -> Recipe:
    """The same words by a GPT of as many weights, which sees 128 of them at a time."""
    return Recipe(
        name="ptb-gpt",
        corpus=CataloguedText(name="ptb"),
        target=TextTarget(tokeniser=Spaced(), longest=128),
        decoder=TransformerSettings(width=448, depth=6, heads=8, dropout=0.4),
        # 70 windows of 128 words: 104 steps are an epoch.
        training=Training(
            steps=8000, rate=5e-4, tokens=8960, save_every=500, patience=4, schedule=Cosine(warmup=500),
            optimiser=AdamW(decay=0.1), precision="bf16",
        ),
        decoding=Decoding(max_new_tokens=32, do_sample=True),
        metrics=(),
    )  # fmt: skip
