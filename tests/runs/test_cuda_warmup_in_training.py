"""CUDA warm-up runs while data are read, and ends before the first step; matplotlib is imported during training."""

import time
from functools import cache
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from seq2see.core.startup import run_in_background
from seq2see.recipes.translation import translate
from seq2see.runs import train
from seq2see.training.loop import Interrupted


def test_data_are_read_and_weights_initialized_during_the_warmup_and_steps_start_after_it(monkeypatch, tmp_path):
    order: list[str] = []

    def warm_up() -> None:
        time.sleep(0.5)
        order.append("warm")

    def prepare(recipe, log):
        order.append("read")
        return SimpleNamespace(fingerprints={}, train=None, valid=None)

    def new_trainer(recipe, data, log):
        order.append("weights")
        return SimpleNamespace(model=nn.Linear(1, 1), device=torch.device("cpu"))

    def resume(trainer, *others):
        order.append("steps")
        raise Interrupted(2, 0)

    monkeypatch.setattr(train, "cuda_warmup", cache(lambda: run_in_background(warm_up)))
    monkeypatch.setattr(train, "prepare", prepare)
    monkeypatch.setattr(train, "_open_folder", lambda run, recipe, data: None)
    monkeypatch.setattr(train, "new_trainer", new_trainer)
    monkeypatch.setattr(train, "training_batches", lambda recipe, data, trainer, full: None)
    monkeypatch.setattr(train, "resume", resume)
    with pytest.raises(Interrupted):
        train.train_recipe(translate(), tmp_path / "run")
    assert order == ["read", "weights", "warm", "steps"]


def test_matplotlib_is_imported_once_after_the_first_steps(monkeypatch):
    events: list[object] = []
    monkeypatch.setattr(train, "run_in_background", lambda work: work())
    monkeypatch.setattr(train, "import_module", events.append)
    on_step = train._import_in_background(lambda step, metrics: events.append((step, metrics)))
    assert events == []
    for step in (1, 2):
        on_step(step, {"loss": 0.5})
    assert events == ["seq2see.inspection.plotting", (1, {"loss": 0.5}), (2, {"loss": 0.5})]
    assert callable(import_module("seq2see.inspection.plotting").draw_curves)  # the module exists
