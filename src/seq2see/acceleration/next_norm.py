"""The next norm of a residual stream, learned in one training step, and used to fuse kernels in the next step.

In a pre-norm stack, x + f(norm(x)) adds to the stream, and the next sublayer begins with the norm of the sum. One
kernel can compute both (`AddThenNorm`), if the next norm is known at the sum. A layer has no reference to the layer
after it, so the order is recorded. If another norm is applied to the stream this time, it is computed as usual.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn


@dataclass
class NextNorms:
    """The keys are the `id` of vectors; the vectors are stored until they are used, so that no `id` is reused."""

    norm_after: dict[nn.Module, nn.Module] = field(default_factory=dict)
    """The norm that was applied to the output of each layer."""
    layer_outputs: dict[int, tuple[Tensor, nn.Module]] = field(default_factory=dict)
    """The outputs of layers to which no norm was applied yet."""
    normalized: dict[int, tuple[nn.Module, Tensor]] = field(default_factory=dict)
    """The precomputed norms of such outputs."""

    def record_output(self, vectors: Tensor, layer: nn.Module) -> Tensor:
        """Record vectors as the output of a layer, and return them."""
        self.layer_outputs[id(vectors)] = vectors, layer
        return vectors

    def store_norm(self, vectors: Tensor, norm: nn.Module, normalized: Tensor) -> None:
        """Store the precomputed output of a norm for these vectors."""
        self.normalized[id(vectors)] = norm, normalized

    def pop_norm(self, vectors: Tensor, norm: nn.Module) -> Tensor | None:
        """Return the precomputed output of this norm for these vectors, or None; record the norm after their layer."""
        if layer_output := self.layer_outputs.pop(id(vectors), None):
            self.norm_after[layer_output[1]] = norm
        stored_norm, normalized = self.normalized.pop(id(vectors), (None, None))
        return normalized if stored_norm is norm else None

    def clear(self) -> None:
        """Delete the tensors at the end of a step; the recorded order of layers and norms stays."""
        self.layer_outputs.clear()
        self.normalized.clear()
