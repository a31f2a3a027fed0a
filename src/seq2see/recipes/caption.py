"""Recipes for captions of images and videos: an encoder of images and a decoder of text."""

from __future__ import annotations

from seq2see.data.augmentation import Augmentation
from seq2see.data.catalogue.catalogue_images import CatalogueImages
from seq2see.data.generated.shapes.shapes_corpus import MovingShapesCorpus, ShapesCorpus
from seq2see.data.tokenizers.tokenizer import WordLevel
from seq2see.decoding.settings import Decoding
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings, VideoSource
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.resnet_encoder import ConvStemSettings
from seq2see.models.settings import TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.caption import CaptionRecipe, CaptionVideoRecipe
from seq2see.training.objectives import NextToken
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training


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
