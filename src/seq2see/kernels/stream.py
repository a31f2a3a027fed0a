"""Who reads the stream of a stack after whom: found out in one training step, and made use of in the next.

x + f(norm(x)) adds to the stream, and the first thing the next part does is to take the norm of it. Whoever knows that
norm while adding can compute both in one walk over the vectors (`SumThenNorm`). But a layer does not know what comes
after it; so it is watched. Should somebody else read the stream this time, the norm is computed when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn


@dataclass
class Stream:
    """Vectors are known by their `id`, and kept until they are read, so that no others get the same."""

    readers: dict[nn.Module, nn.Module] = field(default_factory=dict)
    """The norm that has read what a layer wrote."""
    written: dict[int, tuple[Tensor, nn.Module]] = field(default_factory=dict)
    normed: dict[int, tuple[nn.Module, Tensor]] = field(default_factory=dict)

    def write(self, vectors: Tensor, writer: nn.Module) -> Tensor:
        """These vectors, which this layer has written."""
        self.written[id(vectors)] = vectors, writer
        return vectors

    def know(self, vectors: Tensor, norm: nn.Module, normed: Tensor) -> None:
        """What this norm makes of these vectors, in case it is asked."""
        self.normed[id(vectors)] = norm, normed

    def read(self, vectors: Tensor, norm: nn.Module) -> Tensor | None:
        """What this norm makes of these vectors, if that is known."""
        if written := self.written.pop(id(vectors), None):
            self.readers[written[1]] = norm
        known, normed = self.normed.pop(id(vectors), (None, None))
        return normed if known is norm else None

    def forget(self) -> None:
        """The step is over; who reads after whom stays known."""
        self.written.clear()
        self.normed.clear()
