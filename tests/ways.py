"""Both ways to compute a layer or a model: the textbook's definition, and the fast classes that replace it."""

from __future__ import annotations

from typing import TypeVar

import pytest
from torch import nn

from seq2see.acceleration.swaps import Conditions, accelerate

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def plain(module: AnyModule) -> AnyModule:
    """The module itself."""
    return module


def fast(module: AnyModule) -> AnyModule:
    """The module with fast classes for training on a CPU, where there are any for it."""
    accelerate(module, Conditions("cpu", training=True))
    return module


both_ways = pytest.mark.parametrize("way", [plain, fast])
