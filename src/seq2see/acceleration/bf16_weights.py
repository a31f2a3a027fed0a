"""Mixed-precision training on a GPU: float32 master weights, bf16 copies of them, and Adam for both in one kernel.

Matmuls are fastest in bf16, but bf16 numbers have 8 significant bits: an update of a thousandth of a weight would be
rounded away. So the weights and the optimizer's state stay float32, and linear layers read bf16 copies, as in "Mixed
precision training" (Micikevicius et al. 2018, section 3.1: a master copy of weights). `torch.autocast` casts, too, but
once for each use of a weight, and the backward pass casts each gradient back. Here all weights are views of one flat
tensor, and so are their copies: one kernel refreshes all copies, and all gradients arrive in one flat tensor.

Adam updates all of these weights in one kernel (`adam.py`), which also refreshes the copies. Its definition is
`AdamOptimizer` of training/optimizers.py; tests compare them (tests/acceleration/test_adam.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads
from seq2see.acceleration.support import TRITON
from seq2see.models.embeddings_and_heads import TiedHead
from seq2see.training.optimizers import BETAS, EPSILON, AdamOptimizer, AdamWOptimizer, Optimizer, Scalar

COPIED_LAYER = nn.Linear
"""The layer type whose weights are copied. All other layers compute in float32, as under autocast: with bf16
embeddings, and so bf16 sums along the residual stream, the loss on Shakespeare's plays was 0.008 higher. An embedding
that is tied to the head is copied for the head only."""

Flat = Float[Tensor, "numbers"]


@dataclass(frozen=True)
class WeightReference:
    """One use of a weight: the layer, the attribute of the layer, and the weight's name in the model."""

    layer: nn.Module
    attribute: str
    name: str


class Bf16Weights:
    """bf16 copies of the weights of a model's linear layers; a shared weight is copied once.

    Inside `activate` the layers hold the copies instead of their weights. Only an embedding that is tied to the head
    stays in its layer, for the embedding lookup; the loss reads its copy by `cast_weight`. The gradients of both uses
    are summed.

    An optimizer that sets `fused` reads the flat gradient of all copies, `gradient`, and refreshes the copies itself.
    For any other optimizer every weight gets a `grad` of its own, in float32. Unless blocks are compiled, weight
    gradients are computed on a side stream (acceleration/async_weight_grad.py).
    """

    def __init__(self, model: nn.Module, compiled: bool = False, kernels: bool = False):
        layers = [layer for layer in model.modules() if isinstance(layer, COPIED_LAYER)]
        replaced = {id(weight) for layer in layers for weight in layer.parameters(recurse=False)}
        # The copy of a tied embedding is read through AsyncWeightGrads, which compiled blocks do not use.
        head_tables = set() if compiled else _tied_embeddings(model) - replaced
        copied = replaced | head_tables
        copied_weights = {
            name: weight for name, weight in model.named_parameters() if id(weight) in copied and _is_aligned(weight)
        }
        # Matrices first, because weight decay applies to them only: they are one slice of the flat tensor.
        self.weights = dict(sorted(copied_weights.items(), key=lambda item: item[1].dim() < 2))
        chunks = [weight.detach().flatten() for weight in self.weights.values()]
        self.master = torch.cat(chunks) if chunks else torch.empty(0)
        for name, view in self.unflatten(self.master).items():
            self.weights[name].data = view
        self.flat_bf16 = self.master.bfloat16()
        self.copies = {name: nn.Parameter(view) for name, view in self.unflatten(self.flat_bf16).items()}
        tables = {name: weight for name, weight in self.weights.items() if id(weight) in head_tables}
        self.active_weights = self.copies | tables  # the tensors that layers use in a step
        self.references = _references_to(
            model, {id(weight): name for name, weight in copied_weights.items() if id(weight) in replaced}
        )
        # The gradients of other weights are computed on the side stream, too, but those weights are not copied.
        uncopied = [
            weight for name, weight in model.named_parameters() if weight.requires_grad and name not in copied_weights
        ]
        self.uncopied = {id(weight): weight for weight in uncopied}
        # A compiled block is one autograd node, so no weight gradient can be taken out of it.
        table_copies = {id(table): self.copies[name] for name, table in tables.items()}
        self.async_grads = None if compiled else AsyncWeightGrads(self.master.device, table_copies, kernels)
        # A layer with a weight that is not copied keeps all its weights.
        names = {id(weight) for weight in self.weights.values()}
        copied_layers = [
            each for each in layers if all(id(weight) in names for weight in each.parameters(recurse=False))
        ]
        self.layers: list[nn.Linear | nn.Embedding] = [*copied_layers, *_embeddings(model)]
        self.fused, self.version = False, self._version()
        self.gradient: Flat | None = None

    def unflatten(self, flat: Flat) -> dict[str, Tensor]:
        """Views of a flat tensor in the shapes of the weights, by name."""
        chunks = flat.split([weight.numel() for weight in self.weights.values()])
        return {name: chunk.view_as(self.weights[name]) for name, chunk in zip(self.weights, chunks, strict=True)}

    @property
    def matrix_numel(self) -> int:
        """The number of elements that belong to matrices."""
        return sum(weight.numel() for weight in self.weights.values() if weight.dim() >= 2)

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the master weights to bf16."""
        self.flat_bf16.copy_(self.master)

    def refresh_if_modified(self) -> None:
        """Refresh the copies if the weights were modified by anything but the optimizer since the last call."""
        if self._version() != self.version:
            self.refresh()
            self.version = self._version()

    def _version(self) -> int:
        return sum(weight._version for weight in self.weights.values())

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Inside this context the layers use the copies; at the end the gradients of the copies are stored."""
        if not self.fused:
            self.refresh()
        flat_grad = torch.empty_like(self.flat_bf16)
        slices = dict.fromkeys(self.uncopied) | {
            id(self.active_weights[name]): each for name, each in self.unflatten(flat_grad).items()
        }
        for reference in self.references:
            setattr(reference.layer, reference.attribute, self.copies[reference.name])
        try:
            with self.async_grads.activate(self.layers, slices) if self.async_grads else nullcontext():
                yield
        finally:
            for reference in self.references:
                setattr(reference.layer, reference.attribute, self.weights[reference.name])
        self._store_gradients(flat_grad)

    @torch.no_grad()
    def _store_gradients(self, flat_grad: Flat) -> None:
        """Add the gradients of this micro-batch to those of the previous micro-batches."""
        gradients = self._gather_gradients(self.unflatten(flat_grad))
        complete = len(gradients) == len(self.copies)
        if self.fused and not complete:  # a weight that the step does not use must not change: fall back to `grad`
            self.fused = False
            self._accumulate_gradients({} if self.gradient is None else self.unflatten(self.gradient.float()))
            self.gradient = None
        if not complete:
            self._accumulate_gradients(gradients)
        elif self.fused:
            self.gradient = flat_grad if self.gradient is None else self.gradient.float() + flat_grad
        else:
            self._accumulate_gradients(self.unflatten(flat_grad.float()))

    def _gather_gradients(self, slices: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Write the gradient of each weight to its slice, unless a kernel has written it there already."""
        async_grads = self.async_grads.computed_grads if self.async_grads else {}
        for weight_id in self.uncopied.keys() & async_grads.keys():
            weight = self.uncopied[weight_id]
            weight.grad = async_grads[weight_id] if weight.grad is None else weight.grad + async_grads[weight_id]
        # A tied embedding that is not fused keeps its `grad` over micro-batches: `_accumulate_gradients` adds to it.
        trained = self.active_weights if self.fused else self.copies
        gradients = {name: weight.grad for name, weight in trained.items() if weight.grad is not None}
        computed = {name: slices[name] for name, weight in self.active_weights.items() if id(weight) in async_grads}
        for name in gradients.keys() & computed.keys():  # a tied embedding: one gradient from each use
            gradients[name] += computed[name]
        if gradients:
            torch._foreach_copy_([slices[name] for name in gradients], [*gradients.values()])
        for weight in trained.values():
            weight.grad = None
        return {name: view for name, view in slices.items() if name in gradients or name in computed}

    def _accumulate_gradients(self, gradients: Mapping[str, Tensor]) -> None:
        """Add each gradient to the `grad` of its weight."""
        for name, gradient in gradients.items():
            weight = self.weights[name]
            weight.grad = gradient.float() if weight.grad is None else weight.grad + gradient


def _is_aligned(weight: nn.Parameter) -> bool:
    """Whether the weight is trained, and the next one in the flat tensor starts at an aligned address."""
    return weight.requires_grad and weight.numel() % 8 == 0


def _tied_embeddings(model: nn.Module) -> set[int]:
    """The ids of the embedding weights that are tied to a head."""
    return {id(head.table.weight) for head in model.modules() if isinstance(head, TiedHead)}


def _embeddings(model: nn.Module) -> list[nn.Embedding]:
    """The embeddings that are trained."""
    tables = (each for each in model.modules() if isinstance(each, nn.Embedding))
    return [table for table in tables if table.weight.requires_grad and table.padding_idx is None]


def _references_to(model: nn.Module, names: Mapping[int, str]) -> list[WeightReference]:
    """All uses of these weights in the model."""
    return [
        WeightReference(layer, attribute, names[id(weight)])
        for layer in model.modules()
        for attribute, weight in layer.named_parameters(recurse=False, remove_duplicate=False)
        if id(weight) in names
    ]


class FlatAdamOptimizer(AdamOptimizer):
    """`AdamOptimizer` that reads the flat gradient of the bf16 copies directly."""

    bf16_weights: Bf16Weights
    flat_moments: tuple[Tensor, Tensor]

    @torch.no_grad()
    def step(self, grad_scale: Scalar, found_inf: Scalar) -> None:
        """Update weights that have a gradient of their own, then the flat ones in one kernel."""
        super().step(grad_scale, found_inf)
        if self.bf16_weights.gradient is None:
            self.bf16_weights.refresh()
        else:
            self._update_flat(self.bf16_weights.gradient, grad_scale, found_inf)

    def _update_flat(self, gradient: Tensor, grad_scale: Scalar, found_inf: Scalar) -> None:
        from seq2see.acceleration.adam import adamw_step

        counts = self._state_of("step", self.bf16_weights.weights)
        torch._foreach_add_(counts, [1 - found_inf] * len(counts))
        weight_decay = max(group.weight_decay for group in self.groups)
        tensors = (self.bf16_weights.master, self.bf16_weights.flat_bf16, gradient, *self.flat_moments)
        adamw_step(
            tensors,
            (self.learning_rate, grad_scale, found_inf, counts[0]),
            (weight_decay, self.bf16_weights.matrix_numel),
            (*BETAS, EPSILON),
        )

    def zero_grad(self) -> None:
        """Set the gradients of all weights to None."""
        super().zero_grad()
        self.bf16_weights.gradient = None


class FlatAdamWOptimizer(FlatAdamOptimizer, AdamWOptimizer):
    """`AdamWOptimizer` that reads the flat gradient of the bf16 copies directly."""


FLAT: dict[type[Optimizer], type[FlatAdamOptimizer]] = {
    AdamOptimizer: FlatAdamOptimizer,
    AdamWOptimizer: FlatAdamWOptimizer,
}
"""The fast class of each optimizer that has one. Muon has none: it orthogonalizes a matrix as a whole."""


def attach(optimizer: Optimizer, bf16_weights: Bf16Weights) -> None:
    """Keep the moments of the bf16 weights in flat tensors; this requires one learning rate for all groups."""
    fast = FLAT.get(type(optimizer))
    if fast is None or not TRITON or any(group.lr_scale != 1 for group in optimizer.groups):
        return
    optimizer.__class__ = fast
    assert isinstance(optimizer, FlatAdamOptimizer)
    optimizer.bf16_weights, bf16_weights.fused = bf16_weights, True
    optimizer.flat_moments = torch.zeros_like(bf16_weights.master), torch.zeros_like(bf16_weights.master)
    optimizer.state["exp_avg"] |= bf16_weights.unflatten(optimizer.flat_moments[0])
    optimizer.state["exp_avg_sq"] |= bf16_weights.unflatten(optimizer.flat_moments[1])
