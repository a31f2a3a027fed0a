"""Models that look at pictures as ONNX graphs: onnxruntime gives our scores for any number of pictures."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from seq2see.core.batch import Batch, Pictures
from seq2see.core.errors import UserError
from seq2see.decoding.settings import Decoding
from seq2see.interop.formats import format_of
from seq2see.interop.onnx_pictures import check_pictures
from seq2see.models.build import fresh_model
from seq2see.models.picture_settings import Patches, Picture
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.resnet import Pixels as EveryPixel
from seq2see.models.resnet import ResNetSettings, Stem
from seq2see.models.settings import ModelSettings, PictureLabel, Vector
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.pixels import Pixels
from seq2see.workbench.model_folder import ModelConfig, StoredModel, write_model
from seq2see.workbench.tokenisers import Tokenisers

LABELS, SIDE = ("cat", "狗", "mat"), 12
BLOCKS = TransformerSettings(width=16, depth=1, heads=2, think="gelu")


def settings(frontend, encoder=BLOCKS, summary="class-token", channels=3) -> ModelSettings:
    source = Picture(side=SIDE, channels=channels, frontend=frontend)
    return ModelSettings(source=source, target=PictureLabel(summary=summary), encoder=encoder)


SHAPES = {
    "vit": settings(Patches(size=4)),
    "attention, sines": settings(Patches(size=4, positions="sinusoidal"), summary="attention"),
    "hybrid, mean, grey": settings(Stem(depth=2), summary="mean", channels=1),
    "cnn": settings(EveryPixel(), ResNetSettings(width=16, stages=2, depth=1), "mean"),
    "cnn, group norm": settings(EveryPixel(), ResNetSettings(width=16, stages=2, depth=1, norm="group"), "mean"),
}


def stored(shape: ModelSettings) -> StoredModel:
    """A model with no weight and no running mean at 0 or 1."""
    eyes = Pixels(SIDE, shape.source.channels)
    module = fresh_model(shape, (256, 3), "xavier", 1)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
        module.train()(batch_of(5, eyes.channels))
    config = ModelConfig(name="it", step=1, model=shape, decoding=Decoding(max_new_tokens=1))
    return StoredModel(config, module.eval(), Tokenisers(eyes, eyes, LABELS))


def batch_of(rows: int, channels: int) -> Batch:
    pixels = torch.randint(0, 256, (rows, channels, SIDE, SIDE), dtype=torch.uint8)
    return Batch(Pictures(pixels), None, torch.zeros(rows, 1, dtype=torch.long), torch.arange(rows))


PROGRAM = """
import sys, torch
from pathlib import Path
from seq2see.interop.formats import format_of
from seq2see.workbench.model_folder import read_model
for folder in map(Path, sys.argv[1:]):
    format_of("onnx").write(read_model(folder, torch.device("cpu")), folder / "out")
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Models and where their graphs are; written by a process of its own, where nobody checks shapes meanwhile."""
    desk = tmp_path_factory.mktemp("onnx")
    torch.manual_seed(0)
    models = {name: stored(shape) for name, shape in SHAPES.items()}
    folders = {name: desk / str(number) for number, name in enumerate(models)}
    for name, model in models.items():
        write_model(folders[name], model)
    command = [sys.executable, "-c", PROGRAM, *map(str, folders.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""
    return {name: (models[name], folders[name] / "out") for name in models}


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_onnxruntime_gives_our_scores(name, written):
    ours, folder = written[name]
    runner = onnxruntime.InferenceSession(folder / "classifier.onnx", providers=["CPUExecutionProvider"])
    for rows in (1, 4):
        batch = batch_of(rows, ours.tokenisers.source.channels)
        (scores,) = runner.run(None, {"pixels": batch.source.values.numpy()})
        with torch.no_grad():
            assert_close(torch.from_numpy(scores), ours.module(batch)[:, 0], rtol=0, atol=1e-4)
    said = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert said["labels"] == list(LABELS)
    assert said["shapes"]["pixels"].startswith(f"(row, {ours.tokenisers.source.channels}, 12, 12)")


@pytest.mark.long
@pytest.mark.parametrize("name", ["vit", "hybrid, mean, grey"])
def test_the_example_that_is_shown_looks_where_we_look(name, written, tmp_path, monkeypatch):
    ours, folder = written[name]
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(1).integers(0, 256, (20, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save("your picture.png")
    told: dict = {}
    before_printing = format_of("onnx").example(ours, folder).rpartition("\n")[0]
    exec(compile(before_printing, "example", "exec"), told)
    seen, _ = ours.tokenisers.source.look("your picture.png")
    assert np.abs(told["pixels"][0].astype(int) - seen).max() <= 1


def test_what_walks_through_time_is_refused():
    with pytest.raises(UserError, match=r"encoder\.kind=recurrent"):
        check_pictures(settings(Patches(size=4), RecurrentEncoderSettings(width=16), "mean"))


def test_a_model_without_labels_is_refused():
    with pytest.raises(UserError, match=r"target\.kind=vector"):
        check_pictures(settings(Patches(size=4)).model_copy(update={"target": Vector(summary="first")}))
