"""A recipe and a corpus so small that training takes a second."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from seq2see.core.settings import walk
from seq2see.recipes.registry import recipe, resolve
from seq2see.runs.train import NullListener, train_recipe
from seq2see.tasks.model_folder import Recipe
from seq2see.training.checkpoints import list_checkpoints
from seq2see.training.loop import Interrupted

ANIMALS = {"猫": "cat", "狗": "dog", "鸟": "bird", "鱼": "fish", "马": "horse", "牛": "cow", "羊": "sheep", "鸡": "hen"}
COLORS = {"红": "red", "黑": "black", "白": "white", "绿": "green", "大": "big", "小": "small", "老": "old"}


def write_pairs(path: Path) -> Path:
    """56 pairs: every color with every animal."""
    lines = [f"{c}{a}\tthe {color} {animal}\n" for c, color in COLORS.items() for a, animal in ANIMALS.items()]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def tiny_recipe(data: Path | None, base: str = "pocket-transformer", **changes: Any) -> Recipe:
    """A small recipe: width 16, one layer, 12 steps, a checkpoint every 4 steps."""
    small = {
        "encoder.width": 16,
        "decoder.width": 16,
        "encoder.depth": 1,
        "decoder.depth": 1,
        "encoder.dropout": 0.1,
        "decoder.dropout": 0.1,
        "training.steps": 12,
        "training.evaluate_every": 4,
        "training.batch_tokens": 128,
        "decoding.max_new_tokens": 8,
    }
    paths = {path for path, _, _ in walk(recipe(base))}  # some models have no encoder or no decoder
    fixed = ("encoder.", "decoder.") if "pretrained" in changes else ()  # they are those of the pretrained model
    small = {path: value for path, value in small.items() if path in paths and not path.startswith(fixed)}
    return resolve(base, [data] if data else [], small | changes)


def stop_and_resume(recipe: Recipe, folder: Path) -> None:
    """Train a recipe without interruption, and again with a stop after six steps: both must give the same bytes."""
    train_recipe(recipe, folder / "whole")

    class Stopper(NullListener):
        def step(self, step: int, metrics: dict[str, float]) -> None:
            if step == 6:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train_recipe(recipe, folder / "stopped", Stopper())
    train_recipe(recipe, folder / "stopped")
    assert fingerprint(folder / "stopped") == fingerprint(folder / "whole")


def fingerprint(run: Path) -> dict[str, str]:
    """The SHA-256 of everything a run must reproduce: model, last checkpoint, samples and metrics."""
    last = list_checkpoints(run / "checkpoints")[0][1]
    files = [run / "metrics.jsonl", *sorted((run / "samples").iterdir())]
    files += [path for folder in (run / "model", last) for path in sorted(folder.iterdir())]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
