"""Adding what a layer found to what was known, and where the norm stands in it."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from seq2see.layers.dropout import Dropout, RowDropout

Vectors = Float[Tensor, "row time width"]


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
        return self.norm(vectors + self.skip(self.dropout(part(vectors))), real)

    @staticmethod
    def ending(norm: nn.Module) -> nn.Module | None:
        """Nothing is left to do after the last block."""
        return None


class PreNorm(PostNorm):
    """x + f(norm(x)) (Xiong et al. 2020): the stream runs through untouched, so deep stacks train easily."""

    def forward(self, vectors: Vectors, real: Bool[Tensor, "row time"], part: Callable[[Tensor], Tensor]) -> Vectors:
        """Apply one part to the normalised stream and add its answer to the stream."""
        return vectors + self.skip(self.dropout(part(self.norm(vectors, real))))

    @staticmethod
    def ending(norm: nn.Module) -> nn.Module | None:
        """The stream was never normalised, so the stack ends with a norm."""
        return norm


ORDERS = {"post": PostNorm, "pre": PreNorm}
