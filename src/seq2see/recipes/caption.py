"""Recipes that describe a picture or a film: an encoder that looks, and a decoder that writes."""

from __future__ import annotations

from seq2see.decoding.settings import Decoding
from seq2see.models.picture_settings import Film, Patches, Picture
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.resnet import Stem
from seq2see.models.settings import TextTarget, Tokens
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import Words
from seq2see.sequences.views import Views
from seq2see.sources.catalogued_pictures import CataloguedPictures
from seq2see.sources.shapes.corpus import MovingShapes, Shapes
from seq2see.training.objectives import NextToken
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def caption() -> Recipe:
    """A ViT that looks and a Transformer that writes, for your own list of pictures and captions; else drawn shapes."""
    return Recipe(
        name="caption",
        corpus=Shapes(said="caption"),
        source=Picture(side=32, frontend=Patches(size=8)),
        target=TextTarget(tokeniser=Words(), longest=64),
        views=Views(),
        encoder=TransformerSettings(width=96, depth=3, heads=4, dropout=0.0, think="gelu"),
        decoder=TransformerSettings(width=96, depth=2, heads=4, dropout=0.0, think="gelu"),
        objective=NextToken(),
        training=Training(steps=1500, rate=1.5e-3, tokens=64, save_every=250, schedule=Cosine(warmup=50)),
        decoding=Decoding(max_new_tokens=24),
        metrics=("bleu", "exact"),
    )


def flickr8k() -> Recipe:
    """Photos with five English captions each (Flickr8k, 64 pixels high), described through convolutions; for a GPU."""
    return Recipe(
        name="flickr8k",
        corpus=CataloguedPictures(name="flickr8k-small"),
        source=Picture(side=64, frontend=Stem(depth=3)),
        target=TextTarget(tokeniser=Words(min_count=3), longest=40),
        views=Views(shift=6, flip=True),
        encoder=TransformerSettings(width=256, depth=4, heads=8, dropout=0.2, skip=0.1, think="gelu"),
        decoder=TransformerSettings(width=256, depth=3, heads=8, dropout=0.3, think="gelu"),
        objective=NextToken(smoothing=0.1),
        training=Training(
            steps=6000, rate=5e-4, tokens=256, save_every=500, patience=4, schedule=Cosine(warmup=500), precision="bf16"
        ),
        decoding=Decoding(max_new_tokens=40, num_beams=4),
        metrics=("bleu", "chrf"),
    )


def caption_film() -> Recipe:
    """An encoder that watches films frame by frame and a decoder that says what happens, both GRUs, after S2VT."""
    return Recipe(
        name="caption-film",
        corpus=MovingShapes(),
        source=Film(side=24, frames=8, frontend=Stem(depth=3, positions="none")),
        target=TextTarget(tokeniser=Words(), longest=64, frontend=Tokens(positions="none")),
        encoder=RecurrentEncoderSettings(width=64, cell="gru", direction="both", dropout=0.0),
        decoder=RecurrentDecoderSettings(width=64, cell="gru", look="bilinear", dropout=0.0),
        objective=NextToken(),
        training=Training(steps=2500, rate=3e-3, tokens=32, save_every=250, schedule=Cosine(warmup=50)),
        decoding=Decoding(max_new_tokens=24),
        metrics=("bleu", "exact"),
    )
