"""Recipes for images: classification, and captions of images and videos."""

from __future__ import annotations

from seq2see.data.augmentation import Augmentation
from seq2see.data.catalogue.catalogue import CatalogueImages
from seq2see.data.generated.shapes import MovingShapesCorpus, ShapesCorpus
from seq2see.data.tokenizers.tokenizer import WordLevel
from seq2see.decoding.engine import Decoding
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings, VideoSource
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.resnet_encoder import ConvStemSettings, PixelEmbeddingSettings, ResNetSettings, ResNetStemSettings
from seq2see.models.settings import ImageLabel, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.caption import CaptionRecipe, CaptionVideoRecipe
from seq2see.tasks.classify_image import ClassifyImageRecipe
from seq2see.training.objectives import Classification, NextToken
from seq2see.training.optimizers import Cosine, Muon
from seq2see.training.settings import Training


def classify_image() -> ClassifyImageRecipe:
    """A small ViT for your own images: `seq2see train classify-image photos/`, a folder for each label."""
    return ClassifyImageRecipe(
        name="classify-image",
        corpus=ShapesCorpus(),
        source=ImageSource(image_size=32, embedding=PatchEmbeddingSettings(size=8)),
        target=ImageLabel(),
        augmentation=Augmentation(shift=2),
        encoder=TransformerSettings(width=96, depth=3, heads=4, dropout=0.0, activation="gelu"),
        objective=Classification(),
        training=Training(
            steps=1500, learning_rate=1.5e-3, batch_size=64, evaluate_every=250, schedule=Cosine(warmup=50)
        ),
    )


def classify_image_mean() -> ClassifyImageRecipe:
    """A small ViT without a class token: mean pooling and sinusoidal positions (Beyer et al. 2022)."""
    changes = {"target.pooling": "mean", "source.embedding.positions": "sinusoidal"}
    return classify_image().with_(**{"name": "classify-image-mean", **changes})


def cifar10_vit() -> ClassifyImageRecipe:
    """CIFAR-10, ten kinds of animals and vehicles in 32 x 32 pixels, by a ViT trained from scratch; for a GPU."""
    return ClassifyImageRecipe(
        name="cifar10-vit",
        corpus=CatalogueImages(),
        source=ImageSource(image_size=32, embedding=PatchEmbeddingSettings(size=4)),
        target=ImageLabel(pooling="mean"),
        augmentation=Augmentation(shift=4, flip=True, rand_augment=2, magnitude=0.5, cutout=8, mixup=0.8, cutmix=1.0),
        encoder=TransformerSettings(width=256, depth=8, heads=4, dropout=0.0, drop_path=0.1, activation="gelu"),
        objective=Classification(label_smoothing=0.1),
        training=Training(
            steps=40_000,
            learning_rate=1e-3,
            batch_size=512,
            evaluate_every=8000,
            schedule=Cosine(warmup=1000),
            optimizer=Muon(weight_decay=0.1),
            precision="bf16",
            compile=True,
        ),
    )


def classify_image_hybrid() -> ClassifyImageRecipe:
    """A small ViT with a convolutional stem: overlapping patches, which need no positions (Hassani et al. 2021)."""
    embedding = ConvStemSettings(depth=3, positions="none")
    return classify_image().with_(**{"name": "classify-image-hybrid", "source.embedding": embedding})


def classify_image_resnet() -> ClassifyImageRecipe:
    """A small ResNet for your own images (He et al. 2016)."""
    return classify_image().with_(
        **{
            "name": "classify-image-resnet",
            "source.embedding": PixelEmbeddingSettings(),
            "encoder": ResNetSettings(width=64, depth=1, stages=3, norm="group"),
            "target.pooling": "mean",
        }
    )


def cifar10_hybrid() -> ClassifyImageRecipe:
    """CIFAR-10 by a hybrid: the first stages of a ResNet, then a ViT of six blocks; it needs fewer steps."""
    return cifar10_vit().with_(
        **{
            "name": "cifar10-hybrid",
            "source.embedding": ResNetStemSettings(depth=1, stages=3),
            "encoder.depth": 6,
            "augmentation": Augmentation(shift=4, flip=True, rand_augment=2, cutout=8, cutmix=1.0),
            "training.steps": 16_000,
            "training.learning_rate": 2e-3,
        }
    )


def cifar10_resnet() -> ClassifyImageRecipe:
    """CIFAR-10 by a ResNet with as many weights as `cifar10-hybrid` (He et al. 2016)."""
    return cifar10_hybrid().with_(
        **{
            "name": "cifar10-resnet",
            "source.embedding": PixelEmbeddingSettings(),
            "encoder": ResNetSettings(width=384, stages=3),
            "augmentation.rand_augment": 1,
            "training.steps": 6000,
            "training.learning_rate": 3e-3,
        }
    )


def fashion_mnist_hybrid() -> ClassifyImageRecipe:
    """Fashion-MNIST, ten kinds of clothes in 28 x 28 gray pixels, by the hybrid of `cifar10-hybrid`; for a GPU."""
    return cifar10_hybrid().with_(
        **{
            "name": "fashion-mnist-hybrid",
            "corpus.name": "fashion-mnist",
            "source.image_size": 28,
            "source.channels": 1,
            "augmentation.rand_augment": 1,
            "training.steps": 12_000,
        }
    )


# --- captions: an encoder of images and a decoder of text ---


def caption() -> CaptionRecipe:
    """Captions by a ViT and a Transformer decoder, for your own list of images; by default for drawn shapes."""
    return CaptionRecipe(
        name="caption",
        corpus=ShapesCorpus(annotation="caption"),
        source=ImageSource(image_size=32, embedding=PatchEmbeddingSettings(size=8)),
        target=TextTarget(tokenizer=WordLevel(), max_tokens=64),
        augmentation=Augmentation(),
        encoder=TransformerSettings(width=96, depth=3, heads=4, dropout=0.0, activation="gelu"),
        decoder=TransformerSettings(width=96, depth=2, heads=4, dropout=0.0, activation="gelu"),
        objective=NextToken(),
        training=Training(
            steps=1500, learning_rate=1.5e-3, batch_size=64, evaluate_every=250, schedule=Cosine(warmup=50)
        ),
        decoding=Decoding(max_new_tokens=24),
        metrics=("bleu", "exact_match"),
    )


def flickr8k() -> CaptionRecipe:
    """Flickr8k, photos of 64 pixels with five English captions each, by a ViT with a convolutional stem; for a GPU."""
    return CaptionRecipe(
        name="flickr8k",
        corpus=CatalogueImages(name="flickr8k-small"),
        source=ImageSource(image_size=64, embedding=ConvStemSettings(depth=3)),
        target=TextTarget(tokenizer=WordLevel(min_count=3), max_tokens=40),
        augmentation=Augmentation(shift=6, flip=True),
        encoder=TransformerSettings(width=256, depth=4, heads=8, dropout=0.2, drop_path=0.1, activation="gelu"),
        decoder=TransformerSettings(width=256, depth=3, heads=8, dropout=0.3, activation="gelu"),
        objective=NextToken(label_smoothing=0.1),
        training=Training(
            steps=6000,
            learning_rate=5e-4,
            batch_size=256,
            evaluate_every=500,
            patience=4,
            schedule=Cosine(warmup=500),
            precision="bf16",
        ),
        decoding=Decoding(max_new_tokens=40, num_beams=4),
        metrics=("bleu", "chrf"),
    )


def caption_video() -> CaptionVideoRecipe:
    """Captions of videos by a GRU encoder over the frames and a GRU decoder, after S2VT (Venugopalan et al. 2015)."""
    return CaptionVideoRecipe(
        name="caption-video",
        corpus=MovingShapesCorpus(),
        source=VideoSource(image_size=24, frames=8, embedding=ConvStemSettings(depth=3, positions="none")),
        target=TextTarget(tokenizer=WordLevel(), max_tokens=64, embedding=TokenEmbeddingSettings(positions="none")),
        encoder=RecurrentEncoderSettings(width=64, cell="gru", bidirectional=True, dropout=0.0),
        decoder=RecurrentDecoderSettings(width=64, cell="gru", attention="bilinear", dropout=0.0),
        objective=NextToken(),
        training=Training(
            steps=2500, learning_rate=3e-3, batch_size=32, evaluate_every=250, schedule=Cosine(warmup=50)
        ),
        decoding=Decoding(max_new_tokens=24),
        metrics=("bleu", "exact_match"),
    )
