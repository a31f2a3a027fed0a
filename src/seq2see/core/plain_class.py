"""The textbook class of a module whose class acceleration has replaced by a fast subclass."""

from __future__ import annotations

from torch import nn


def plain_class(module: nn.Module) -> type[nn.Module]:
    """The class with the definition that this module computes; a fast subclass names it as `plain`."""
    plain: type[nn.Module] = getattr(type(module), "plain", type(module))
    return plain
