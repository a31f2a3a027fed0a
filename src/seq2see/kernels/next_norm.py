"""Who reads the stream of a stack after whom: found out in one training step, and made use of in the next.

x + f(norm(x)) adds to the stream, and the first thing the next part does is to take the norm of it. Whoever knows that
norm while adding can compute both in one walk over the vectors (`AddThenNorm`). But a layer does not know what comes
after it; so it is watched. Should somebody else read the stream this time, the norm is computed when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn


@dataclass
class NextNorms:
    """Vectors are known by their `id`, and kept until they are read, so that no others get the same."""

    norm_after: dict[nn.Module, nn.Module] = field(default_factory=dict)
    """The norm that has read what a layer wrote."""
    layer_outputs: dict[int, tuple[Tensor, nn.Module]] = field(default_factory=dict)
    normalized: dict[int, tuple[nn.Module, Tensor]] = field(default_factory=dict)

    def record_output(self, vectors: Tensor, layer: nn.Module) -> Tensor:
        """These vectors, which this layer has written."""
        self.layer_outputs[id(vectors)] = vectors, layer
        return vectors

    def store_norm(self, vectors: Tensor, norm: nn.Module, normalized: Tensor) -> None:
        """What this norm makes of these vectors, in case it is asked."""
        self.normalized[id(vectors)] = norm, normalized

    def pop_norm(self, vectors: Tensor, norm: nn.Module) -> Tensor | None:
        """What this norm makes of these vectors, if that is known."""
        if written := self.layer_outputs.pop(id(vectors), None):
            self.norm_after[written[1]] = norm
        known, normalized = self.normalized.pop(id(vectors), (None, None))
        return normalized if known is norm else None

    def clear(self) -> None:
        """The step is over; who reads after whom stays known."""
        self.layer_outputs.clear()
        self.normalized.clear()
