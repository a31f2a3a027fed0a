"""The source code of modules: classes of this package, in full, with their file."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import seq2see
from seq2see.core.errors import UserError
from seq2see.explorer.views.architecture import code_of
from seq2see.layers.feed_forward import FeedForward
from seq2see.models.build import build_model
from seq2see.recipes.registry import RECIPES
from tiny_models import tiny_model, untrained_model

PAGE = Path(inspect.getfile(seq2see)).parent / "explorer" / "page"


def test_the_source_code_of_a_module_is_that_of_its_class_and_its_base_classes():
    model = build_model(RECIPES["write-gpt2"]().model, 9, 9)
    found = code_of(model, "decoder.blocks.0.feed_forward")
    assert (found["kind"], [each["name"] for each in found["sources"]]) == (
        "GeluTanhFeedForward",
        ["GeluTanhFeedForward", "FeedForward"],
    )
    assert found["sources"][1]["file"] == "seq2see/layers/feed_forward.py"
    assert found["sources"][1]["text"] == inspect.getsource(FeedForward)


def test_the_source_code_of_other_packages_is_not_shown():
    assert code_of(tiny_model("transformer, pre-norm"), "source.table") == {"kind": "Embedding", "sources": []}


@pytest.mark.parametrize("name", ["nothing", "decoder.__class__", "../../etc", "_modules"])
def test_only_modules_have_names(name):
    with pytest.raises(UserError, match="no module"):
        code_of(tiny_model("transformer, pre-norm"), name)


@pytest.mark.long
def test_every_layer_of_a_built_in_recipe_has_a_formula_and_its_paper():
    names = re.findall(r"^  (\w+): \[", (PAGE / "formulas.js").read_text(encoding="utf-8"), re.MULTILINE)
    with torch.device("meta"):
        recipes = [recipe() for recipe in RECIPES.values()]
        models = [untrained_model(recipe.task, recipe.model, 9) for recipe in recipes]
    classes = {type(module) for model in models for module in model.modules()} - {nn.ModuleList, nn.Sequential}
    assert sorted(each.__name__ for each in classes if each.__name__ not in names) == []
    assert len(names) == len(set(names))
