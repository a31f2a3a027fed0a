"""A ResNet in the place of a Transformer, and convolutions in the place of patches."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Batch, Gridded, Pictures
from seq2see.layers.positions import LearnedGrid
from seq2see.layers.resnet import ResNet, read_off, window
from seq2see.models.build import build_model
from seq2see.models.picture_settings import Patches, Picture
from seq2see.models.resnet import Features, Pixels, ResNetEncoder, ResNetSettings, Stem
from seq2see.models.settings import ModelSettings, PictureLabel
from seq2see.models.transformer import TransformerSettings
from seq2see.models.vit import PictureFrontend

CNN = ResNetSettings(width=16, depth=1, stages=3, norm="group")
BLOCKS = TransformerSettings(width=16, depth=1, heads=2)
SIDE = 16


def settings(frontend, encoder, summary="mean", **changes) -> ModelSettings:
    return ModelSettings(
        source=Picture(side=SIDE, frontend=frontend, **changes), target=PictureLabel(summary=summary), encoder=encoder
    )


def pictures(rows: int = 3, side: int = SIDE, channels: int = 3) -> Batch:
    pixels = torch.randint(0, 256, (rows, channels, side, side), dtype=torch.uint8)
    return Batch(Pictures(pixels), None, torch.zeros(rows, 1, dtype=torch.long), torch.arange(rows))


MODELS = {
    "cnn": settings(Pixels(), CNN),
    "cnn on patches": settings(Patches(size=4, positions="none"), CNN),
    "hybrid": settings(Stem(depth=2), BLOCKS, "class-token"),
    "hybrid, mean": settings(Stem(depth=1, positions="sinusoidal"), BLOCKS),
    "hybrid behind a cnn": settings(Features(stages=2), BLOCKS),
    "transformer on pixels": settings(Pixels(), BLOCKS),
}


@pytest.mark.parametrize("name", MODELS)
def test_any_frontend_goes_with_any_encoder(name):
    model = build_model(MODELS[name], 0, 5).eval()
    batch = pictures()
    scores = model(batch)
    assert scores.shape == (3, 1, 5)
    alone = model(Batch(Pictures(batch.source.values[1:2]), None, batch.labels[1:2], batch.indices[1:2]))
    assert_close(alone, scores[1:2], rtol=0, atol=1e-5)
    scores.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_a_picture_of_another_size_is_looked_at_too(name):
    model = build_model(MODELS[name], 0, 5).eval()
    assert model(pictures(side=24)).shape == (3, 1, 5)
    assert model(pictures(side=8)).shape == (3, 1, 5)


def test_the_memory_is_the_last_map_and_its_summary_the_mean():
    encoder = ResNetEncoder(CNN).eval()
    features = torch.randn(2, 4, 8, 12)  # 4 channels: two stages before the 16 of the last
    memory = encoder(read_off(features))
    expected = encoder.stages(features)
    assert expected.shape == (2, 16, 2, 3)
    assert_close(memory.values, expected.flatten(2).mT)
    assert_close(memory.summary, expected.mean((2, 3)))
    assert memory.lengths.tolist() == [6, 6]


def test_a_cnn_is_not_told_where_a_pixel_stands_and_a_shifted_picture_shifts_its_map():
    model = build_model(settings(Pixels(), ResNetSettings(width=8, depth=1, stages=1, norm="batch")), 0, 5).eval()
    pixels = torch.zeros(2, 3, SIDE, SIDE, dtype=torch.uint8)
    pixels[0, :, 6:9, 6:9], pixels[1, :, 7:10, 7:10] = 255, 255
    found = model.encode(Pictures(pixels)).values.unflatten(1, (SIDE, SIDE))
    assert_close(found[0, 3:12, 3:12], found[1, 4:13, 4:13])


def test_a_frontend_hands_on_the_grid_until_a_token_stands_in_front():
    frontend = build_model(MODELS["cnn"], 0, 5).source
    seen = frontend(pictures().source)
    assert isinstance(seen, Gridded)
    assert seen.grid == (SIDE, SIDE)
    assert not isinstance(build_model(MODELS["hybrid"], 0, 5).source(pictures().source), Gridded)


def test_the_map_of_a_whole_resnet_may_be_a_hybrids_frontend():
    """Dosovitskiy et al. 2021, section 3.1, "Hybrid Architecture"."""
    seen = nn.Sequential(window(3, 4, 3), ResNet(16, 1, 3, "group"))
    frontend = PictureFrontend(seen, LearnedGrid(16, (4, 4)), nn.Identity(), 0.0)
    rows = frontend(pictures().source)
    assert rows.values.shape == (3, 16, 16)
    assert rows.grid == (4, 4)


def test_grey_pictures():
    model = build_model(settings(Pixels(), CNN, channels=1), 0, 5)
    assert model(pictures(channels=1)).shape == (3, 1, 5)


@pytest.mark.parametrize(
    "wrong, said",
    [
        (lambda: settings(Pixels(), CNN, "class-token"), "summary=mean"),
        (lambda: settings(Pixels(), CNN, "attention"), "needs encoder.kind=transformer"),
        (lambda: settings(Pixels(), ResNetSettings(width=20)), "cannot be halved"),
        (lambda: settings(Stem(depth=5), BLOCKS), "multiple"),
    ],
)
def test_what_does_not_go_together_is_refused(wrong, said):
    with pytest.raises(ValidationError, match=said):
        wrong()
