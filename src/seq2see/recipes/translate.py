"""Recipes for real text: your own pairs, and the base model of the Transformer paper."""

from __future__ import annotations

from seq2see.decoding.penalties import GNMT, Average
from seq2see.decoding.settings import Decoding
from seq2see.models.settings import Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import BytePairs, Unigram
from seq2see.sources.catalogue import CataloguedCorpus
from seq2see.sources.pocket.corpus import PocketCorpus
from seq2see.training.averaging import LastCheckpoints, MovingAverage
from seq2see.training.objectives import NextToken
from seq2see.training.optimisers import Adam
from seq2see.training.schedules import InverseSquareRoot
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def translate() -> Recipe:
    """A Transformer for your own pairs: `seq2see train translate my.tsv`. Stops when it no longer improves."""
    stack = TransformerSettings(width=128, depth=3, heads=4, dropout=0.2)
    pieces = BytePairs(size=8000)
    return Recipe(
        name="translate",
        corpus=PocketCorpus(),
        source=Text(tokeniser=pieces),
        target=TextTarget(tokeniser=pieces, vocabulary="shared"),
        encoder=stack,
        decoder=stack,
        objective=NextToken(smoothing=0.1),
        training=Training(
            steps=6000, rate=2e-3, tokens=2048, save_every=250, patience=6,
            schedule=InverseSquareRoot(warmup=500), average=MovingAverage(decay=0.998),
        ),
        decoding=Decoding(max_new_tokens=128, num_beams=4, length_penalty=Average()),
    )  # fmt: skip


def transformer_base() -> Recipe:
    """The base model of "Attention is all you need" (6 + 6 layers, 512 wide), on Multi30k; wants a GPU."""
    stack = TransformerSettings(width=512, depth=6, heads=8, dropout=0.1, order="post")
    pieces = Unigram(size=8000)
    return Recipe(
        name="transformer-base",
        corpus=CataloguedCorpus(name="multi30k", sides="en-de"),
        source=Text(tokeniser=pieces, longest=128),
        target=TextTarget(tokeniser=pieces, longest=128, vocabulary="shared"),
        encoder=stack,
        decoder=stack,
        objective=NextToken(smoothing=0.1),
        training=Training(
            steps=100_000, rate=(512 * 4000) ** -0.5, tokens=25_000, accumulate=2, clip=0, save_every=1000,
            optimiser=Adam(), schedule=InverseSquareRoot(warmup=4000), average=LastCheckpoints(count=5),
            precision="bf16",
        ),
        decoding=Decoding(max_new_tokens=150, num_beams=4, length_penalty=GNMT(alpha=0.6)),
    )  # fmt: skip
