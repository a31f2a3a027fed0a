"""The Vision Transformer: its six steps by hand, and what its output must not depend on."""

from __future__ import annotations

import re

import pytest
import torch

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.core.errors import UserError
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.resnet_encoder import ConvStemSettings, ResNetStemSettings
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.models.vit import patchify

LABELS = 5


def settings(**changes) -> ModelSettings:
    """A ViT for images of 12 x 12."""
    base = ModelSettings(
        source=ImageSource(image_size=12, embedding=PatchEmbeddingSettings(size=4)),
        target=ImageLabel(),
        encoder=TransformerSettings(width=16, depth=2, heads=2, dropout=0.0),
    )
    return base.with_(**changes)


def build(**changes):
    return fresh_model(settings(**changes), (256, LABELS), "xavier", seed=3).eval()


def image_batch(rows: int = 3, channels: int = 3, height: int = 12, width: int = 12) -> Batch:
    values = torch.randint(0, 256, (rows, channels, height, width), dtype=torch.uint8)
    return Batch(Images(values), None, torch.zeros(rows, 1, dtype=torch.long), torch.arange(rows))


def test_six_steps():
    model, batch = build(), image_batch()
    embedding = model.source
    patches = patchify(batch.source.values / 127.5 - 1, 4).flatten(1, 2)  # 1
    vectors = embedding.patches.projection(patches)  # 2
    vectors = vectors + embedding.positions.embedding.weight  # 3
    rows = torch.cat([embedding.prefix_tokens.embeddings.expand(3, 1, -1), vectors], dim=1)  # 4
    encoded = model.encoder(Sequences(rows, torch.full((3,), 10)))  # 5
    expected = model.head(encoded.values[:, 0])  # 6
    torch.testing.assert_close(model(batch)[:, 0], expected)


@pytest.mark.parametrize("pooling", ["cls", "mean", "map"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_rows_are_independent_and_images_may_have_another_size(pooling, positions):
    model = build(**{"target.pooling": pooling, "source.embedding.positions": positions})
    batch = image_batch(4)
    alone = Batch(Images(batch.source.values[2:3]), None, batch.labels[2:3], batch.indices[2:3])
    torch.testing.assert_close(model(batch)[2:3], model(alone))
    assert model(image_batch(2, height=20, width=8)).shape == (2, 1, LABELS)


def test_without_positions_the_output_is_permutation_invariant():
    invariant = {"none": True, "learned": False, "sinusoidal": False}
    for positions, same in invariant.items():
        model, batch = build(**{"source.embedding.positions": positions}), image_batch(1)
        values = batch.source.values
        swapped = torch.cat([values[..., 4:8], values[..., :4], values[..., 8:]], dim=-1)
        other = Batch(Images(swapped), None, batch.labels, batch.indices)
        assert torch.allclose(model(batch), model(other), atol=1e-5) == same


def test_a_class_token_exists_only_if_it_is_pooled():
    assert sum(p.numel() for p in build().parameters()) == 16 + sum(
        p.numel() for p in build(**{"target.pooling": "mean"}).parameters()
    )


def test_attention_pooling_has_the_epsilon_of_the_blocks():
    assert build(**{"target.pooling": "map", "encoder.norm_eps": 0.5}).pooling.norm.eps == 0.5


def test_the_nearest_image_size_is_a_multiple_of_the_patch_size():
    image = ImageSource(image_size=12, embedding=PatchEmbeddingSettings(size=4))
    assert [image.nearest_image_size(size) for size in (1, 5, 7, 12, 15)] == [4, 4, 8, 12, 16]


def test_gray_images_have_one_channel():
    assert build(**{"source.channels": 1})(image_batch(channels=1)).shape == (3, 1, LABELS)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"source.image_size": 14}, "source.image_size 14 must be a multiple of source.embedding.size 4"),
        (
            {"source.image_size": 12, "source.embedding": ConvStemSettings(depth=3)},
            "12 must be a multiple of 2^source.embedding.depth = 8",
        ),
        (
            {"source.image_size": 12, "source.embedding": ResNetStemSettings()},
            "multiple of 2^(source.embedding.stages - 1) = 8",
        ),
        ({"target": {"kind": "label"}}, "source.kind=image and target.kind=image-label go together"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes, message):
    with pytest.raises(UserError, match=re.escape(message)):
        settings(**changes)
