"""Models that look at images as ONNX graphs: onnxruntime gives our scores for any number of images."""

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

from seq2see.core.batch import Batch, Images
from seq2see.core.errors import UserError
from seq2see.data.image_dataset import ImageProcessor
from seq2see.decoding.engine import Decoding
from seq2see.interop.formats import format_of
from seq2see.interop.onnx_export import check_classifier
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.resnet_encoder import ConvStemSettings, PixelEmbeddingSettings, ResNetSettings
from seq2see.models.settings import EmbeddingTarget, ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers, write_model
from seq2see.tasks.task import pretrained_task

LABELS, SIDE = ("cat", "狗", "mat"), 12
BLOCKS = TransformerSettings(width=16, depth=1, heads=2, activation="gelu")


def settings(embedding, encoder=BLOCKS, pooling="cls", channels=3) -> ModelSettings:
    source = ImageSource(image_size=SIDE, channels=channels, embedding=embedding)
    return ModelSettings(source=source, target=ImageLabel(pooling=pooling), encoder=encoder)


SHAPES = {
    "vit": settings(PatchEmbeddingSettings(size=4)),
    "attention, sines": settings(PatchEmbeddingSettings(size=4, positions="sinusoidal"), pooling="map"),
    "hybrid, mean, gray": settings(ConvStemSettings(depth=2), pooling="mean", channels=1),
    "cnn": settings(PixelEmbeddingSettings(), ResNetSettings(width=16, stages=2, depth=1), "mean"),
    "cnn, group norm": settings(
        PixelEmbeddingSettings(), ResNetSettings(width=16, stages=2, depth=1, norm="group"), "mean"
    ),
}


def stored_model(shape: ModelSettings) -> StoredModel:
    """A model with no weight and no running mean at 0 or 1."""
    processor = ImageProcessor(SIDE, shape.source.channels)
    module = fresh_model(shape, (256, 3), "xavier", 1)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
        module.train()(batch_of(5, processor.channels))
    config = ModelConfig(
        task=pretrained_task(shape), name="it", step=1, model=shape, decoding=Decoding(max_new_tokens=1)
    )
    return StoredModel(config, module.eval(), Tokenizers(processor, processor, LABELS))


def batch_of(rows: int, channels: int) -> Batch:
    pixels = torch.randint(0, 256, (rows, channels, SIDE, SIDE), dtype=torch.uint8)
    return Batch(Images(pixels), None, torch.zeros(rows, 1, dtype=torch.long), torch.arange(rows))


PROGRAM = """
import sys, torch
from pathlib import Path
from seq2see.interop.formats import format_of
from seq2see.runs.load import read_model
for folder in map(Path, sys.argv[1:]):
    format_of("onnx").write(read_model(folder, torch.device("cpu")), folder / "out")
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Models and where their graphs are; written by a process of its own, without shape checks meanwhile."""
    workspace = tmp_path_factory.mktemp("onnx")
    torch.manual_seed(0)
    models = {name: stored_model(shape) for name, shape in SHAPES.items()}
    folders = {name: workspace / str(number) for number, name in enumerate(models)}
    for name, model in models.items():
        write_model(folders[name], model)
    command = [sys.executable, "-c", PROGRAM, *map(str, folders.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""
    return {name: (models[name], folders[name] / "out") for name in models}


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_onnxruntime_gives_our_scores(name, exported):
    actual, folder = exported[name]
    runtime = onnxruntime.InferenceSession(folder / "classifier.onnx", providers=["CPUExecutionProvider"])
    for rows in (1, 4):
        batch = batch_of(rows, actual.tokenizers.source.channels)
        (scores,) = runtime.run(None, {"pixels": batch.source.values.numpy()})
        with torch.no_grad():
            assert_close(torch.from_numpy(scores), actual.module(batch)[:, 0], rtol=0, atol=1e-4)
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert description["labels"] == list(LABELS)
    assert description["shapes"]["pixels"].startswith(f"(row, {actual.tokenizers.source.channels}, 12, 12)")


@pytest.mark.long
@pytest.mark.parametrize("name", ["vit", "hybrid, mean, gray"])
def test_the_printed_example_crops_like_the_model(name, exported, tmp_path, monkeypatch):
    actual, folder = exported[name]
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(1).integers(0, 256, (20, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save("your image.png")
    namespace: dict = {}
    before_printing = format_of("onnx").example(actual, folder).rpartition("\n")[0]
    exec(compile(before_printing, "example", "exec"), namespace)
    expected, _ = actual.tokenizers.source.preprocess("your image.png")
    assert np.abs(namespace["pixels"][0].astype(int) - expected).max() <= 1


def test_recurrent_encoders_are_refused():
    with pytest.raises(UserError, match=r"encoder\.kind=recurrent"):
        check_classifier(settings(PatchEmbeddingSettings(size=4), RecurrentEncoderSettings(width=16), "mean"))


def test_a_model_without_labels_is_refused():
    with pytest.raises(UserError, match=r"target\.kind=embedding"):
        check_classifier(
            settings(PatchEmbeddingSettings(size=4)).model_copy(update={"target": EmbeddingTarget(pooling="cls")})
        )
