"""Recipes that name what is to be seen in a picture."""

from __future__ import annotations

from seq2see.decoding.settings import Decoding
from seq2see.models.settings import Patches, Picture, PictureLabel
from seq2see.models.transformer import TransformerSettings
from seq2see.sources.shapes.corpus import Shapes
from seq2see.training.objectives import Classify
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def classify_image() -> Recipe:
    """A small ViT that names what is to be seen in a picture: one of ten shapes."""
    return Recipe(
        name="classify-image",
        corpus=Shapes(),
        source=Picture(side=32, frontend=Patches(size=8)),
        target=PictureLabel(),
        encoder=TransformerSettings(width=96, depth=3, heads=4, dropout=0.0, think="gelu"),
        objective=Classify(),
        training=Training(steps=1500, rate=1e-3, tokens=64, save_every=250, schedule=Cosine(warmup=50)),
        decoding=Decoding(max_new_tokens=1),
        metrics=(),
    )


def classify_image_mean() -> Recipe:
    """The same without a class token: the mean of all patches, whose places are told by sines (Beyer et al. 2022)."""
    changes = {"target.summary": "mean", "source.frontend.positions": "sinusoidal"}
    return classify_image().with_(**{"name": "classify-image-mean", **changes})
