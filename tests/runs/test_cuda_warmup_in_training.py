"""A GPU wakes up while data are read, and is awake before the first step; while it works, Python imports."""

import time
from functools import cache
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from seq2see.core.cuda_warmup import run_in_background
from seq2see.recipes.translate import translate
from seq2see.runs import train
from seq2see.training.signals import Interrupted


def test_data_are_read_and_weights_drawn_meanwhile_and_no_step_is_taken_before(monkeypatch, tmp_path):
    order: list[str] = []

    def wake() -> None:
        time.sleep(0.5)
        order.append("awake")

    def prepare(recipe, log):
        order.append("read")
        return SimpleNamespace(fingerprints={})

    def new_trainer(recipe, data):
        order.append("weights")
        return SimpleNamespace(model=nn.Linear(1, 1), device=torch.device("cpu"))

    def resume(trainer, *others):
        order.append("steps")
        raise Interrupted(2, 0)

    monkeypatch.setattr(train, "cuda_warmup", cache(lambda: run_in_background(wake)))
    monkeypatch.setattr(train, "prepare", prepare)
    monkeypatch.setattr(train, "check_length", lambda recipe, data: None)
    monkeypatch.setattr(train, "_open_folder", lambda run, recipe, data: None)
    monkeypatch.setattr(train, "new_trainer", new_trainer)
    monkeypatch.setattr(train, "resume", resume)
    with pytest.raises(Interrupted):
        train.train_recipe(translate(), tmp_path / "run")
    assert order == ["read", "weights", "awake", "steps"]


def test_what_draws_the_curves_is_imported_once_when_the_first_steps_are_over(monkeypatch):
    happened: list[object] = []
    monkeypatch.setattr(train, "run_in_background", lambda work: work())
    monkeypatch.setattr(train, "import_module", happened.append)
    watch = train._import_in_background(lambda step, figures: happened.append((step, figures)))
    assert happened == []
    for step in (1, 2):
        watch(step, {"loss": 0.5})
    assert happened == ["seq2see.inspection.training_plots", (1, {"loss": 0.5}), (2, {"loss": 0.5})]
    assert callable(import_module("seq2see.inspection.training_plots").draw_curves)  # there is such a thing
