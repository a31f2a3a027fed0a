"""The Vision Transformer: its six steps, written out, and what it must not depend on."""

from __future__ import annotations

import re

import pytest
import torch

from seq2see.core.batch import Batch, Pictures, Sequences
from seq2see.core.errors import UserError
from seq2see.layers.patches import cut
from seq2see.models.build import fresh_model
from seq2see.models.picture_settings import Patches, Picture
from seq2see.models.resnet import Features, Stem
from seq2see.models.settings import ModelSettings, PictureLabel
from seq2see.models.transformer import TransformerSettings

LABELS = 5


def settings(**changes) -> ModelSettings:
    """A ViT for pictures of 12 x 12."""
    base = ModelSettings(
        source=Picture(side=12, frontend=Patches(size=4)),
        target=PictureLabel(),
        encoder=TransformerSettings(width=16, depth=2, heads=2, dropout=0.0),
    )
    return base.with_(**changes)


def built(**changes):
    return fresh_model(settings(**changes), (256, LABELS), "xavier", seed=3).eval()


def some(rows: int = 3, channels: int = 3, height: int = 12, width: int = 12) -> Batch:
    values = torch.randint(0, 256, (rows, channels, height, width), dtype=torch.uint8)
    return Batch(Pictures(values), None, torch.zeros(rows, 1, dtype=torch.long), torch.arange(rows))


def test_six_steps():
    model, batch = built(), some()
    front = model.source
    patches = cut(batch.source.values / 127.5 - 1, 4).flatten(1, 2)  # 1
    vectors = front.patches.project(patches)  # 2
    vectors = vectors + front.positions.table.weight  # 3
    rows = torch.cat([front.tokens.vectors.expand(3, 1, -1), vectors], dim=1)  # 4
    read = model.encoder(Sequences(rows, torch.full((3,), 10)))  # 5
    expected = model.head(read.values[:, 0])  # 6
    torch.testing.assert_close(model(batch)[:, 0], expected)


@pytest.mark.parametrize("summary", ["class-token", "mean", "attention"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_rows_know_nothing_of_each_other_and_another_size_will_do(summary, positions):
    model = built(**{"target.summary": summary, "source.frontend.positions": positions})
    batch = some(4)
    alone = Batch(Pictures(batch.source.values[2:3]), None, batch.labels[2:3], batch.indices[2:3])
    torch.testing.assert_close(model(batch)[2:3], model(alone))
    assert model(some(2, height=20, width=8)).shape == (2, 1, LABELS)


def test_positions_are_what_tells_where_a_patch_stands():
    turned = {"none": True, "learned": False, "sinusoidal": False}
    for positions, same in turned.items():
        model, batch = built(**{"source.frontend.positions": positions}), some(1)
        values = batch.source.values
        swapped = torch.cat([values[..., 4:8], values[..., :4], values[..., 8:]], dim=-1)
        other = Batch(Pictures(swapped), None, batch.labels, batch.indices)
        assert torch.allclose(model(batch), model(other), atol=1e-5) == same


def test_a_class_token_is_there_only_where_it_is_read():
    assert sum(p.numel() for p in built().parameters()) == 16 + sum(
        p.numel() for p in built(**{"target.summary": "mean"}).parameters()
    )


def test_the_norm_of_a_question_is_that_of_the_blocks():
    assert built(**{"target.summary": "attention", "encoder.epsilon": 0.5}).pool.norm.epsilon == 0.5


def test_a_picture_is_brought_to_the_nearest_size_that_is_whole_patches():
    picture = Picture(side=12, frontend=Patches(size=4))
    assert [picture.whole(side) for side in (1, 5, 7, 12, 15)] == [4, 4, 8, 12, 16]


def test_grey_pictures_have_one_channel():
    assert built(**{"source.channels": 1})(some(channels=1)).shape == (3, 1, LABELS)


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"source.side": 14}, "source.side 14 must be a multiple of source.frontend.size 4"),
        ({"source.side": 12, "source.frontend": Stem(depth=3)}, "12 must be a multiple of 2^source.frontend.depth = 8"),
        ({"source.side": 12, "source.frontend": Features()}, "multiple of 2^(source.frontend.stages - 1) = 8"),
        ({"target": {"kind": "label"}}, "source.kind=picture and target.kind=picture-label go together"),
    ],
)
def test_what_does_not_go_together_is_told(changes, complaint):
    with pytest.raises(UserError, match=re.escape(complaint)):
        settings(**changes)
