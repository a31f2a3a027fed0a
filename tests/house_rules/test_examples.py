"""The examples in docstrings are true: each is run, as a reader would."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest
from source_tree import PACKAGE, Module, modules

SHOWN = [
    pytest.param(module, marks=[pytest.mark.triton] if "import triton" in module.text else [], id=module.path.stem)
    for module in modules()
    if ">>> " in module.text
]


@pytest.mark.parametrize("module", SHOWN)
def test_examples_in_docstrings_give_what_they_say(module: Module):
    name = ".".join(module.path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    found = doctest.testmod(import_module(name))
    assert found.attempted
    assert not found.failed
