"""Training in 16 bits on a GPU: every matrix exists twice.

Products are quickest in bf16, whose numbers are rounded after 8 bits: a step of a thousandth of a weight would be lost.
So weights, and what an optimiser remembers of them, stay float32, and products read copies in bf16, as in "Mixed
precision training" (Micikevicius et al. 2018, section 3.1: a master copy). `torch.autocast` makes such copies too, but
wherever a weight is used, and a gradient goes back through each of them. Here all are made at once when a step begins,
and their gradients are handed over at once when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

PRODUCTS = (nn.Linear, nn.Embedding)
"""Layers whose weights are copied; norms and what else there is read float32, and have few weights."""


@dataclass(frozen=True)
class Use:
    """Where a weight is used: a layer, and its name there."""

    layer: nn.Module
    name: str
    weight: nn.Parameter


class Doubles:
    """Copies in bf16 of the weights of a model's products; a weight that is shared is copied once."""

    def __init__(self, model: nn.Module):
        layers = [layer for layer in model.modules() if isinstance(layer, PRODUCTS)]
        weights = {id(weight): weight for layer in layers for weight in layer.parameters(recurse=False)}
        self.weights = [weight for weight in weights.values() if weight.requires_grad]
        self.copies = [nn.Parameter(weight.detach().bfloat16()) for weight in self.weights]
        copied = set(map(id, self.weights))
        self.uses = [
            Use(layer, name, weight)
            for layer in model.modules()
            for name, weight in layer.named_parameters(recurse=False, remove_duplicate=False)
            if id(weight) in copied
        ]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """In here the model has the copies in place of its weights; in the end these get the copies' gradients."""
        _copy_all(self.copies, self.weights)
        copies = {id(weight): copy for weight, copy in zip(self.weights, self.copies, strict=True)}
        for use in self.uses:
            setattr(use.layer, use.name, copies[id(use.weight)])
        try:
            yield
        finally:
            for use in self.uses:
                setattr(use.layer, use.name, use.weight)
        self._hand_over()

    @torch.no_grad()
    def _hand_over(self) -> None:
        """Add the copies' gradients to those of the weights."""
        fresh: list[Tensor] = []
        found: list[Tensor] = []
        for weight, copy in zip(self.weights, self.copies, strict=True):
            gradient, copy.grad = copy.grad, None
            if gradient is not None and weight.grad is None:
                weight.grad = torch.empty_like(weight)
                fresh.append(weight.grad)
                found.append(gradient)
            elif gradient is not None and weight.grad is not None:  # of an earlier piece of the batch
                weight.grad += gradient
        _copy_all(fresh, found)


@torch.no_grad()
def _copy_all(places: Sequence[Tensor], numbers: Sequence[Tensor]) -> None:
    """All in one go."""
    if places:
        torch._foreach_copy_(list(places), list(numbers))
