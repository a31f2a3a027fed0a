"""A ResNet in place of a Transformer, and convolutions in place of patches."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Batch, Images, PatchGrid
from seq2see.layers.positions import LearnedPositions2d
from seq2see.models.build import build_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.resnet_encoder import (
    ConvStemSettings,
    PixelEmbeddingSettings,
    ResNet,
    ResNetEncoder,
    ResNetSettings,
    ResNetStemSettings,
    conv2d,
    flatten_map,
)
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.models.vit import ImageEmbedding

CNN = ResNetSettings(width=16, depth=1, stages=3, norm="group")
BLOCKS = TransformerSettings(width=16, depth=1, heads=2)
IMAGE_SIZE = 16


def settings(embedding, encoder, pooling="mean", **changes) -> ModelSettings:
    return ModelSettings(
        source=ImageSource(image_size=IMAGE_SIZE, embedding=embedding, **changes),
        target=ImageLabel(pooling=pooling),
        encoder=encoder,
    )


def images(rows: int = 3, image_size: int = IMAGE_SIZE, channels: int = 3) -> Batch:
    pixels = torch.randint(0, 256, (rows, channels, image_size, image_size), dtype=torch.uint8)
    return Batch(Images(pixels), None, torch.zeros(rows, 1, dtype=torch.long), torch.arange(rows))


MODELS = {
    "cnn": settings(PixelEmbeddingSettings(), CNN),
    "cnn on patches": settings(PatchEmbeddingSettings(size=4, positions="none"), CNN),
    "hybrid": settings(ConvStemSettings(depth=2), BLOCKS, "cls"),
    "hybrid, mean": settings(ConvStemSettings(depth=1, positions="sinusoidal"), BLOCKS),
    "hybrid after a cnn": settings(ResNetStemSettings(stages=2), BLOCKS),
    "transformer on pixels": settings(PixelEmbeddingSettings(), BLOCKS),
}


@pytest.mark.parametrize("name", MODELS)
def test_any_embedding_goes_with_any_encoder(name):
    model = build_model(MODELS[name], 0, 5).eval()
    batch = images()
    scores = model(batch)
    assert scores.shape == (3, 1, 5)
    alone = model(Batch(Images(batch.source.values[1:2]), None, batch.labels[1:2], batch.indices[1:2]))
    assert_close(alone, scores[1:2], rtol=0, atol=1e-5)
    scores.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_an_image_may_have_another_size(name):
    model = build_model(MODELS[name], 0, 5).eval()
    assert model(images(image_size=24)).shape == (3, 1, 5)
    assert model(images(image_size=8)).shape == (3, 1, 5)


def test_the_output_is_the_last_feature_map_and_the_pooled_vector_its_mean():
    encoder = ResNetEncoder(CNN).eval()
    features = torch.randn(2, 4, 8, 12)  # 4 channels: two stages before the 16 of the last
    memory = encoder(flatten_map(features))
    expected = encoder.stages(features)
    assert expected.shape == (2, 16, 2, 3)
    assert_close(memory.values, expected.flatten(2).mT)
    assert_close(memory.pooled, expected.mean((2, 3)))
    assert memory.lengths.tolist() == [6, 6]


def test_a_cnn_is_translation_equivariant():
    model = build_model(
        settings(PixelEmbeddingSettings(), ResNetSettings(width=8, depth=1, stages=1, norm="batch")), 0, 5
    ).eval()
    pixels = torch.zeros(2, 3, IMAGE_SIZE, IMAGE_SIZE, dtype=torch.uint8)
    pixels[0, :, 6:9, 6:9], pixels[1, :, 7:10, 7:10] = 255, 255
    features = model.encode(Images(pixels)).values.unflatten(1, (IMAGE_SIZE, IMAGE_SIZE))
    assert_close(features[0, 3:12, 3:12], features[1, 4:13, 4:13])


def test_an_embedding_returns_a_grid_unless_a_class_token_is_prepended():
    embedding = build_model(MODELS["cnn"], 0, 5).source
    vectors = embedding(images().source)
    assert isinstance(vectors, PatchGrid)
    assert vectors.grid == (IMAGE_SIZE, IMAGE_SIZE)
    assert not isinstance(build_model(MODELS["hybrid"], 0, 5).source(images().source), PatchGrid)


def test_the_feature_map_of_a_whole_resnet_may_be_a_hybrids_embedding():
    """Dosovitskiy et al. 2021, section 3.1, "Hybrid Architecture"."""
    backbone = nn.Sequential(conv2d(3, 4, 3), ResNet(16, 1, 3, "group"))
    embedding = ImageEmbedding(backbone, LearnedPositions2d(16, (4, 4)), nn.Identity(), 0.0)
    rows = embedding(images().source)
    assert rows.values.shape == (3, 16, 16)
    assert rows.grid == (4, 4)


def test_gray_images():
    model = build_model(settings(PixelEmbeddingSettings(), CNN, channels=1), 0, 5)
    assert model(images(channels=1)).shape == (3, 1, 5)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: settings(PixelEmbeddingSettings(), CNN, "cls"), "pooling=mean"),
        (lambda: settings(PixelEmbeddingSettings(), CNN, "map"), "needs encoder.kind=transformer"),
        (lambda: settings(PixelEmbeddingSettings(), ResNetSettings(width=20)), "cannot be halved"),
        (lambda: settings(ConvStemSettings(depth=5), BLOCKS), "multiple"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(build, message):
    with pytest.raises(ValidationError, match=message):
        build()
