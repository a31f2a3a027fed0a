"""Every layout of an image dataset is prepared for training without conversion."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from catalogue_stubs import idx_file, stub_catalogue
from seq2see.cli.app import run as command
from seq2see.data.catalogue.catalogue import FASHION_MNIST_CLASSES
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.prepare import prepare
from seq2see.runs.train import train_recipe

random = np.random.default_rng(1)
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
SMALL = {
    "source.image_size": 16,
    "source.embedding.size": 8,
    "encoder.width": 16,
    "encoder.depth": 1,
    "encoder.heads": 2,
}


def digits(folder: Path) -> Path:
    for stem, count in (("train", 30), ("t10k", 9)):
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(idx_file(random.integers(0, 256, (count, 16, 16))))
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(idx_file(np.arange(count) % 3))
    return folder


def sprites(folder: Path) -> Path:
    for name in BATCHES:
        Image.fromarray(random.integers(0, 256, (6, 1024, 3), dtype=np.uint8)).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps([0, 1, 2] * 10))
    (folder / "test_lables.json").write_text(json.dumps([0, 1, 2] * 2))
    return folder


def binary(folder: Path) -> Path:
    for name in BATCHES:
        rows = random.integers(0, 256, (6, 3073))
        rows[:, 0] = [0, 1, 2] * 2
        (folder / f"{name}.bin").write_bytes(rows.astype(np.uint8).tobytes())
    return folder


def listed(folder: Path) -> Path:
    rows = []
    for number in range(30):
        Image.fromarray(random.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(folder / f"图{number}.png")
        rows.append(f"图{number}.png,类{number % 3}\n")
    (folder / "list.csv").write_text("image,label\n" + "".join(rows), encoding="utf-8")
    return folder / "list.csv"


@pytest.mark.parametrize("layout", [digits, sprites, binary, listed], ids=lambda layout: layout.__name__)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_layout_is_prepared_without_conversion(tmp_path, layout, channels):
    lines: list[str] = []
    recipe = resolve("classify-image", [layout(tmp_path)], SMALL | {"source.channels": channels})
    prepared = prepare(recipe, lines.append)
    assert tuple(prepared.train.batch(np.array([0, 1])).source.values.shape) == (2, channels, 16, 16)
    assert len(prepared.tokenizers.labels) == 3
    assert any("images read = " in line for line in lines)
    assert prepared.reports[0]["totals"]["rejected"] == 0


def test_a_list_with_a_bad_line_is_checked_and_trained_on_from_the_command_line(tmp_path, capsys):
    path = listed(tmp_path)
    with path.open("a", encoding="utf-8") as file:
        file.write("没有.png,类1\n")
    assert command(["data", "check", str(path), "--task", "classify-image"]) == 2
    assert f"{path}:32: The image cannot be read" in capsys.readouterr().out
    sets = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    sets += ["--set", "training.steps=2", "--set", "training.evaluate_every=2", "--set", "training.batch_size=8"]
    assert command(["train", "classify-image", str(path), "--out", str(tmp_path / "run"), *sets]) == 0
    report = json.loads((tmp_path / "run" / "data_report.json").read_text(encoding="utf-8"))
    assert report["reports"][0]["totals"] == {"read": 31, "kept": 30, "skipped": 0, "rejected": 1}
    assert (
        command(["train", "classify-image", str(path), "--set", "corpus.on_error=error", "--out", str(tmp_path / "x")])
        == 2
    )
    assert f"{path}:32" in capsys.readouterr().err


def clothes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten classes with different horizontal or vertical stripes, which augmentation does not change."""
    labels = np.arange(count) % 10
    bright = np.arange(28) // (2 ** (labels // 2)[:, None]) % 2
    lying = np.broadcast_to(bright[..., None], (count, 28, 28))
    stripes = np.where(labels[:, None, None] % 2, lying, lying.transpose(0, 2, 1))
    return 40 + 150 * stripes + random.integers(0, 40, (count, 28, 28)), labels


def test_fashion_mnist_is_trained_from_its_published_files(tmp_path, monkeypatch):
    """All settings of the recipe except its size: one channel, augmentation, mixing, bf16, Muon, convolutional stem."""
    files = {}
    for stem, count in (("train", 300), ("t10k", 40)):
        for what, content in zip(("images-idx3", "labels-idx1"), clothes(count), strict=True):
            files[f"{stem}-{what}-ubyte.gz"] = gzip.compress(idx_file(content))
    stub_catalogue(tmp_path, monkeypatch)("fashion-mnist", files)
    size = {"encoder.width": 32, "encoder.depth": 1, "encoder.heads": 2, "encoder.drop_path": 0.0}
    size |= {"training.steps": 50, "training.evaluate_every": 50, "training.batch_size": 64}
    size |= {"training.schedule.warmup": 5}
    run = train_recipe(resolve("fashion-mnist-hybrid", [], size), tmp_path / "run")
    assert (run.recipe().source.image_size, run.recipe().source.channels) == (28, 1)
    assert evaluate(run)["test"]["accuracy"] > 60
    pixels, labels = clothes(10)
    answers = [answer.text for answer in load(run.path).predict([each[..., None].astype(np.uint8) for each in pixels])]
    assert sum(answer == FASHION_MNIST_CLASSES[label] for answer, label in zip(answers, labels, strict=True)) > 6
