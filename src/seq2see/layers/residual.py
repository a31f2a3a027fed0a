"""Adding what a layer found to what was known, and where the norm stands in it.

`plain` is the definition; on a GPU a training step in bf16 takes kernels of our own that do the same in one go
(kernels/residual_norms.py). Tests say they agree.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from seq2see.core.devices import has_kernels
from seq2see.kernels.beside import at_hand, known_norm
from seq2see.kernels.stream import Stream
from seq2see.layers.dropout import Dropout, RowDropout
from seq2see.layers.norms import LayerNorm, RMSNorm

Vectors = Float[Tensor, "row time width"]

WIDEST = 4096
"""Numbers of a vector that the kernels can hold."""


class PostNorm(nn.Module):
    """norm(x + f(x)), as in Vaswani et al. 2017: the stream itself is normalised after every part.

    In training, numbers of f(x) fall out by `dropout`, and the whole of it, row by row, by `skip`.
    """

    def __init__(self, norm: nn.Module, dropout: float, skip: float = 0.0):
        super().__init__()
        self.norm = norm
        self.dropout, self.skip = Dropout(dropout), RowDropout(skip)

    def forward(self, vectors: Vectors, real: Bool[Tensor, "row time"], part: Callable[[Tensor], Tensor]) -> Vectors:
        """Apply one part (attention or feed-forward) and add its answer."""
        beside = at_hand()
        found = part(vectors if beside is None else beside.forked(vectors))
        if not fits(self.norm, vectors) or self.skip.p > 0:
            return self.norm(vectors + self.skip(self.dropout(found)), real)
        from seq2see.kernels.norms import ForkedNormOfSum, NormOfSum

        given = (vectors, found, self.norm.weight, bias_of(self.norm), self.share, self.norm.epsilon)
        if beside is None:
            return NormOfSum.apply(*given)
        normed, again = ForkedNormOfSum.apply(*given)
        beside.fork(normed, again)
        return normed

    @property
    def share(self) -> float:
        """Of what a part found, the share that falls out now."""
        return self.dropout.p if self.training else 0.0

    @staticmethod
    def ending(norm: nn.Module) -> nn.Module | None:
        """Nothing is left to do after the last block."""
        return None


class PreNorm(PostNorm):
    """x + f(norm(x)) (Xiong et al. 2020): the stream runs through untouched, so deep stacks train easily."""

    def forward(self, vectors: Vectors, real: Bool[Tensor, "row time"], part: Callable[[Tensor], Tensor]) -> Vectors:
        """Apply one part to the normalised stream and add its answer to the stream."""
        if not fits(self.norm, vectors):
            return vectors + self.skip(self.dropout(part(self.norm(vectors, real))))
        from seq2see.kernels.norms import NormBeside

        beside, normed = at_hand(), known_norm(self.norm, vectors)
        if normed is None:
            vectors, normed = NormBeside.apply(vectors, self.norm.weight, bias_of(self.norm), self.norm.epsilon)
        found = part(normed)
        if beside is None or self.skip.p > 0:
            return vectors + self.skip(self.dropout(found))
        return beside.residual_stream.write(self._add(vectors, found, beside.residual_stream), self)

    def _add(self, vectors: Vectors, found: Vectors, stream: Stream) -> Vectors:
        """x + f(norm(x)), and in the same walk what the next norm makes of it, if that norm is known."""
        following = stream.readers.get(self)
        if following is None or not fits(following, vectors):
            return vectors + self.dropout(found)
        from seq2see.kernels.norms import SumThenNorm

        given = (following.weight, bias_of(following), self.share, following.epsilon)
        total, normed = SumThenNorm.apply(vectors, found, *given)
        stream.know(total, following, normed)
        return total

    @staticmethod
    def ending(norm: nn.Module) -> nn.Module | None:
        """The stream was never normalised, so the stack ends with a norm."""
        return norm


def fits(norm: nn.Module, vectors: Tensor) -> bool:
    """Whether there is a kernel for this norm around these vectors."""
    return has_kernels(vectors) and isinstance(norm, LayerNorm | RMSNorm) and vectors.size(-1) <= WIDEST


def bias_of(norm: nn.Module) -> Tensor | None:
    """What a norm adds in the end; RMSNorm adds nothing."""
    return norm.bias if isinstance(norm, LayerNorm) else None


ORDERS = {"post": PostNorm, "pre": PreNorm}
