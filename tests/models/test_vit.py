"""The Vision Transformer: its six steps, written out, and what it must not depend on."""

from __future__ import annotations

import re

import pytest
import torch

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.core.errors import UserError
from seq2see.layers.patch_embedding import patchify
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.resnet_encoder import ConvStemSettings, ResNetStemSettings
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings

LABELS = 5


def settings(**changes) -> ModelSettings:
    """A ViT for images of 12 x 12."""
    base = ModelSettings(
        source=ImageSource(image_size=12, embedding=PatchEmbeddingSettings(size=4)),
        target=ImageLabel(),
        encoder=TransformerSettings(width=16, depth=2, heads=2, dropout=0.0),
    )
    return base.with_(**changes)


def built(**changes):
    return fresh_model(settings(**changes), (256, LABELS), "xavier", seed=3).eval()


def some(rows: int = 3, channels: int = 3, height: int = 12, width: int = 12) -> Batch:
    values = torch.randint(0, 256, (rows, channels, height, width), dtype=torch.uint8)
    return Batch(Images(values), None, torch.zeros(rows, 1, dtype=torch.long), torch.arange(rows))


def test_six_steps():
    model, batch = built(), some()
    front = model.source
    patches = patchify(batch.source.values / 127.5 - 1, 4).flatten(1, 2)  # 1
    vectors = front.patches.projection(patches)  # 2
    vectors = vectors + front.positions.table.weight  # 3
    rows = torch.cat([front.prefix_tokens.vectors.expand(3, 1, -1), vectors], dim=1)  # 4
    read = model.encoder(Sequences(rows, torch.full((3,), 10)))  # 5
    expected = model.head(read.values[:, 0])  # 6
    torch.testing.assert_close(model(batch)[:, 0], expected)


@pytest.mark.parametrize("summary", ["cls", "mean", "map"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_rows_know_nothing_of_each_other_and_another_size_will_do(pooling, positions):
    model = built(**{"target.pooling": pooling, "source.embedding.positions": positions})
    batch = some(4)
    alone = Batch(Images(batch.source.values[2:3]), None, batch.labels[2:3], batch.indices[2:3])
    torch.testing.assert_close(model(batch)[2:3], model(alone))
    assert model(some(2, height=20, width=8)).shape == (2, 1, LABELS)


def test_positions_are_what_tells_where_a_patch_stands():
    turned = {"none": True, "learned": False, "sinusoidal": False}
    for positions, same in turned.items():
        model, batch = built(**{"source.embedding.positions": positions}), some(1)
        values = batch.source.values
        swapped = torch.cat([values[..., 4:8], values[..., :4], values[..., 8:]], dim=-1)
        other = Batch(Images(swapped), None, batch.labels, batch.indices)
        assert torch.allclose(model(batch), model(other), atol=1e-5) == same


def test_a_class_token_is_there_only_where_it_is_read():
    assert sum(p.numel() for p in built().parameters()) == 16 + sum(
        p.numel() for p in built(**{"target.pooling": "mean"}).parameters()
    )


def test_the_norm_of_a_question_is_that_of_the_blocks():
    assert built(**{"target.pooling": "map", "encoder.norm_eps": 0.5}).pooling.norm.eps == 0.5


def test_a_image_is_brought_to_the_nearest_size_that_is_whole_patches():
    image = ImageSource(image_size=12, embedding=PatchEmbeddingSettings(size=4))
    assert [image.nearest_image_size(side) for side in (1, 5, 7, 12, 15)] == [4, 4, 8, 12, 16]


def test_gray_images_have_one_channel():
    assert built(**{"source.channels": 1})(some(channels=1)).shape == (3, 1, LABELS)


@pytest.mark.parametrize(
    "changes, complaint",
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
def test_what_does_not_go_together_is_told(changes, complaint):
    with pytest.raises(UserError, match=re.escape(complaint)):
        settings(**changes)
