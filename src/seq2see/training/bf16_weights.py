"""Training in 16 bits on a GPU: every matrix exists twice.

Products are quickest in bf16, whose numbers are rounded after 8 bits: a step of a thousandth of a weight would be lost.
So weights, and what an optimizer remembers of them, stay float32, and products read copies in bf16, as in "Mixed
precision training" (Micikevicius et al. 2018, section 3.1: a master copy). `torch.autocast` makes such copies too, but
wherever a weight is used, and a gradient goes back through each of them. Here the weights lie one after another, and so
do their copies: all are made at once, and all their gradients are handed over at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.kernels.async_weight_grad import AsyncWeightGrads
from seq2see.models.heads import TiedHead

COPIED_LAYER = nn.Linear
"""The layer whose weights are copied. All others give what they give in float32, as under autocast: with tables of
vectors in 16 bits, and so sums of 16 bits along a stack, the loss on Shakespeare's plays was 0.008 higher. A table that
is a head's matrix too is copied for the head alone."""

Flat = Float[Tensor, "numbers"]


@dataclass(frozen=True)
class WeightReference:
    """Where a weight is used: a layer, its name there, and its name in the model."""

    layer: nn.Module
    attribute: str
    name: str


class Bf16Weights:
    """Copies in bf16 of the weights of a model's products; a weight that is shared is copied once.

    Layers have the copies in place of their weights. Only a table that is also a head's matrix stays where it is, for
    whoever looks up vectors: the loss asks for its copy (`cast_weight`). The slopes of both uses meet in one place.

    An optimizer that sets `joined` takes the gradients of all copies as they are, from `gradient`, and renews the
    copies itself. For any other one every weight gets a gradient of its own, in float32. Unless blocks are compiled,
    gradients are computed beside the rest (kernels/async_weight_grad.py).
    """

    def __init__(self, model: nn.Module, compiled: bool = False):
        layers = [layer for layer in model.modules() if isinstance(layer, COPIED_LAYER)]
        replaced = {id(weight) for layer in layers for weight in layer.parameters(recurse=False)}
        # Whoever works beside the step is asked for the copy of a table; in what is compiled nobody does.
        head_tables = set() if compiled else _tied_embeddings(model) - replaced
        copied = replaced | head_tables
        found = {
            name: weight for name, weight in model.named_parameters() if id(weight) in copied and _is_aligned(weight)
        }
        # Matrices first: they are what shrinks.
        self.weights = dict(sorted(found.items(), key=lambda item: item[1].dim() < 2))
        chunks = [weight.detach().flatten() for weight in self.weights.values()]
        self.master = torch.cat(chunks) if chunks else torch.empty(0)
        for name, place in self.unflatten(self.master).items():
            self.weights[name].data = place
        self.flat_bf16 = self.master.bfloat16()
        self.copies = {name: nn.Parameter(place) for name, place in self.unflatten(self.flat_bf16).items()}
        tables = {name: weight for name, weight in self.weights.items() if id(weight) in head_tables}
        self.active_weights = self.copies | tables  # in a step, by layers
        self.references = _references_to(
            model, {id(weight): name for name, weight in found.items() if id(weight) in replaced}
        )
        # Other weights are not copied, but nobody waits for their slopes either.
        uncopied = [weight for name, weight in model.named_parameters() if weight.requires_grad and name not in found]
        self.uncopied = {id(weight): weight for weight in uncopied}
        # What is compiled is one piece: nobody can take a part of it out.
        low = {id(table): self.copies[name] for name, table in tables.items()}
        self.async_grads = None if compiled else AsyncWeightGrads(self.master.device, low)
        # A layer with a weight that is not copied is left as it is.
        names = {id(weight) for weight in self.weights.values()}
        whole = [each for each in layers if all(id(weight) in names for weight in each.parameters(recurse=False))]
        self.layers: list[nn.Linear | nn.Embedding] = [*whole, *_embeddings(model)]
        self.fused, self.version = False, self._version()
        self.gradient: Flat | None = None

    def unflatten(self, flat: Flat) -> dict[str, Tensor]:
        """Numbers that lie one after another, in the shapes of the weights."""
        chunks = flat.split([weight.numel() for weight in self.weights.values()])
        return {name: chunk.view_as(self.weights[name]) for name, chunk in zip(self.weights, chunks, strict=True)}

    @property
    def matrix_numel(self) -> int:
        """How many of the numbers are those of matrices."""
        return sum(weight.numel() for weight in self.weights.values() if weight.dim() >= 2)

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the weights anew."""
        self.flat_bf16.copy_(self.master)

    def refresh_if_modified(self) -> None:
        """The same, if anybody but the optimizer has written into them since."""
        if self._version() != self.version:
            self.refresh()
            self.version = self._version()

    def _version(self) -> int:
        return sum(weight._version for weight in self.weights.values())

    @contextmanager
    def activate(self) -> Iterator[None]:
        """In here the model has the copies in place of its weights; in the end their gradients are handed over."""
        if not self.fused:
            self.refresh()
        whole = torch.empty_like(self.flat_bf16)
        places = dict.fromkeys(self.uncopied) | {
            id(self.active_weights[name]): each for name, each in self.unflatten(whole).items()
        }
        for use in self.references:
            setattr(use.layer, use.attribute, self.copies[use.name])
        try:
            with self.async_grads.activate(self.layers, places) if self.async_grads else nullcontext():
                yield
        finally:
            for use in self.references:
                setattr(use.layer, use.attribute, self.weights[use.name])
        self._store_gradients(whole)

    @torch.no_grad()
    def _store_gradients(self, whole: Flat) -> None:
        """The gradients that were found, added to those of earlier pieces of the batch."""
        found = self._gather_gradients(self.unflatten(whole))
        complete = len(found) == len(self.copies)
        if self.fused and not complete:  # a weight that a step does not use is to be left alone, so each is by itself
            self.fused = False
            self._accumulate_gradients({} if self.gradient is None else self.unflatten(self.gradient.float()))
            self.gradient = None
        if not complete:
            self._accumulate_gradients(found)
        elif self.fused:
            self.gradient = whole if self.gradient is None else self.gradient.float() + whole
        else:
            self._accumulate_gradients(self.unflatten(whole.float()))

    def _gather_gradients(self, places: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Put the gradients of all weights that have one into their places, unless they are there already."""
        async_grads = self.async_grads.computed_grads if self.async_grads else {}
        for number in self.uncopied.keys() & async_grads.keys():
            weight = self.uncopied[number]
            weight.grad = async_grads[number] if weight.grad is None else weight.grad + async_grads[number]
        # A table that is not joined keeps what it has, of this piece or of earlier ones: `_accumulate_gradients` adds to it.
        learned = self.active_weights if self.fused else self.copies
        found = {name: weight.grad for name, weight in learned.items() if weight.grad is not None}
        there = {name: places[name] for name, weight in self.active_weights.items() if id(weight) in async_grads}
        for name in found.keys() & there.keys():  # it is used in two ways
            found[name] += there[name]
        if found:
            torch._foreach_copy_([places[name] for name in found], [*found.values()])
        for weight in learned.values():
            weight.grad = None
        return {name: place for name, place in places.items() if name in found or name in there}

    def _accumulate_gradients(self, gradients: Mapping[str, Tensor]) -> None:
        """To each weight its gradient."""
        for name, gradient in gradients.items():
            weight = self.weights[name]
            weight.grad = gradient.float() if weight.grad is None else weight.grad + gradient


def _is_aligned(weight: nn.Parameter) -> bool:
    """Whether it learns, and the next one would lie where kernels like weights to begin."""
    return weight.requires_grad and weight.numel() % 8 == 0


def _tied_embeddings(model: nn.Module) -> set[int]:
    """Tables that a head multiplies by."""
    return {id(head.table.weight) for head in model.modules() if isinstance(head, TiedHead)}


def _embeddings(model: nn.Module) -> list[nn.Embedding]:
    """Tables of vectors that are learned."""
    tables = (each for each in model.modules() if isinstance(each, nn.Embedding))
    return [table for table in tables if table.weight.requires_grad and table.padding_idx is None]


def _references_to(model: nn.Module, names: Mapping[int, str]) -> list[WeightReference]:
    """Everywhere that these weights are used."""
    return [
        WeightReference(layer, attribute, names[id(weight)])
        for layer in model.modules()
        for attribute, weight in layer.named_parameters(recurse=False, remove_duplicate=False)
        if id(weight) in names
    ]
