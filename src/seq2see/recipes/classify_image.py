"""Recipes that name what is to be seen in a picture."""

from __future__ import annotations

from seq2see.decoding.settings import Decoding
from seq2see.models.picture_settings import Patches, Picture
from seq2see.models.resnet import Features, Pixels, ResNetSettings, Stem
from seq2see.models.settings import PictureLabel
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.views import Views
from seq2see.sources.catalogued_pictures import CataloguedPictures
from seq2see.sources.shapes.corpus import Shapes
from seq2see.training.objectives import Classify
from seq2see.training.optimisers import Muon
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def classify_image() -> Recipe:
    """A small ViT for your own pictures: `seq2see train classify-image photos/`, a folder for each label."""
    return Recipe(
        name="classify-image",
        corpus=Shapes(),
        source=Picture(side=32, frontend=Patches(size=8)),
        target=PictureLabel(),
        views=Views(shift=2),
        encoder=TransformerSettings(width=96, depth=3, heads=4, dropout=0.0, think="gelu"),
        objective=Classify(),
        training=Training(steps=1500, rate=1.5e-3, tokens=64, save_every=250, schedule=Cosine(warmup=50)),
        decoding=Decoding(max_new_tokens=1),
        metrics=(),
    )


def classify_image_mean() -> Recipe:
    """The same without a class token: the mean of all patches, whose places are told by sines (Beyer et al. 2022)."""
    changes = {"target.summary": "mean", "source.frontend.positions": "sinusoidal"}
    return classify_image().with_(**{"name": "classify-image-mean", **changes})


def cifar10_vit() -> Recipe:
    """CIFAR-10, ten kinds of animals and vehicles in 32 x 32 pixels, by a ViT of its own; for a GPU."""
    return Recipe(
        name="cifar10-vit",
        corpus=CataloguedPictures(),
        source=Picture(side=32, frontend=Patches(size=4)),
        target=PictureLabel(summary="mean"),
        views=Views(shift=4, flip=True, changes=2, strength=0.5, cutout=8, mixup=0.8, cutmix=1.0),
        encoder=TransformerSettings(width=256, depth=8, heads=4, dropout=0.0, skip=0.1, think="gelu"),
        objective=Classify(smoothing=0.1),
        training=Training(
            steps=40_000,
            rate=1e-3,
            tokens=512,
            save_every=8000,
            schedule=Cosine(warmup=1000),
            optimiser=Muon(decay=0.1),
            precision="bf16",
            compile=True,
        ),
        decoding=Decoding(max_new_tokens=1),
        metrics=(),
    )


def classify_image_hybrid() -> Recipe:
    """The same Transformer behind convolutions: patches overlap, and need no positions (Hassani et al. 2021)."""
    frontend = Stem(depth=3, positions="none")
    return classify_image().with_(**{"name": "classify-image-hybrid", "source.frontend": frontend})


def classify_image_resnet() -> Recipe:
    """A ResNet on the same pictures (He et al. 2016): every place sees its neighbours, and the map grows coarser."""
    return classify_image().with_(
        **{
            "name": "classify-image-resnet",
            "source.frontend": Pixels(),
            "encoder": ResNetSettings(width=64, depth=1, stages=3, norm="group"),
            "target.summary": "mean",
        }
    )


def cifar10_hybrid() -> Recipe:
    """The same Transformer, less two blocks, behind the first stages of a ResNet; it needs fewer steps."""
    return cifar10_vit().with_(
        **{
            "name": "cifar10-hybrid",
            "source.frontend": Features(depth=1, stages=3),
            "encoder.depth": 6,
            "views": Views(shift=4, flip=True, changes=2, cutout=8, cutmix=1.0),
            "training.steps": 16_000,
            "training.rate": 2e-3,
        }
    )


def cifar10_resnet() -> Recipe:
    """The same by a ResNet with as many weights (He et al. 2016)."""
    return cifar10_hybrid().with_(
        **{
            "name": "cifar10-resnet",
            "source.frontend": Pixels(),
            "encoder": ResNetSettings(width=384, stages=3),
            "views.changes": 1,
            "training.steps": 6000,
            "training.rate": 3e-3,
        }
    )


def fashion_mnist_hybrid() -> Recipe:
    """Fashion-MNIST, ten kinds of clothes in 28 x 28 grey pixels, by the hybrid of `cifar10-hybrid`; for a GPU."""
    return cifar10_hybrid().with_(
        **{
            "name": "fashion-mnist-hybrid",
            "corpus.name": "fashion-mnist",
            "source.side": 28,
            "source.channels": 1,
            "views.changes": 1,
            "training.steps": 12_000,
        }
    )
