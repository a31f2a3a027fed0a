"""Every layout of a picture set goes all the way: it is prepared for training as it lies there."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seq2see.api import resolve
from seq2see.cli.app import run as command
from seq2see.workbench.prepare import prepare

random = np.random.default_rng(1)
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
SMALL = {"source.side": 16, "source.frontend.size": 8, "encoder.width": 16, "encoder.depth": 1, "encoder.heads": 2}


def numbers(content: np.ndarray) -> bytes:
    shape = content.shape
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content.astype(np.uint8).tobytes()


def digits(folder: Path) -> Path:
    for stem, count in (("train", 30), ("t10k", 9)):
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(numbers(random.integers(0, 256, (count, 16, 16))))
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(numbers(np.arange(count) % 3))
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
def test_a_set_is_prepared_as_it_lies_there(tmp_path, layout, channels):
    told: list[str] = []
    recipe = resolve("classify-image", [layout(tmp_path)], SMALL | {"source.channels": channels})
    prepared = prepare(recipe, told.append)
    assert tuple(prepared.train.batch(np.array([0, 1])).source.values.shape) == (2, channels, 16, 16)
    assert len(prepared.tokenisers.labels) == 3
    assert any("pictures read = " in line for line in told)
    assert prepared.reports[0]["totals"]["rejected"] == 0


def test_a_list_with_a_bad_line_is_checked_and_trained_on_from_the_command_line(tmp_path, capsys):
    path = listed(tmp_path)
    with path.open("a", encoding="utf-8") as file:
        file.write("没有.png,类1\n")
    assert command(["data", "check", str(path), "--for", "classify-image"]) == 2
    assert f"{path}:32: The picture cannot be read" in capsys.readouterr().out
    sets = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    sets += ["--set", "training.steps=2", "--set", "training.save_every=2", "--set", "training.tokens=8"]
    assert command(["train", "classify-image", str(path), "--out", str(tmp_path / "run"), *sets]) == 0
    report = json.loads((tmp_path / "run" / "data_report.json").read_text(encoding="utf-8"))
    assert report["readings"][0]["totals"] == {"read": 31, "kept": 30, "skipped": 0, "rejected": 1}
    assert (
        command(["train", "classify-image", str(path), "--set", "corpus.bad=error", "--out", str(tmp_path / "x")]) == 2
    )
    assert f"{path}:32" in capsys.readouterr().err
