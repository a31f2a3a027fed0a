"""Residual connections with the norm after the sum (post-norm) or before the sublayer (pre-norm)."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from seq2see.layers.dropout import Dropout, DropPath

Vectors = Float[Tensor, "row time width"]


class PostNorm(nn.Module):
    """norm(x + f(x)), as in Vaswani et al. 2017: the residual stream is normalized after every sublayer.

    In training, `dropout` zeroes elements of f(x), and `drop_path` zeroes f(x) for whole rows.
    """

    def __init__(self, norm: nn.Module, dropout: float, drop_path: float = 0.0):
        super().__init__()
        self.norm = norm
        self.dropout, self.drop_path = Dropout(dropout), DropPath(drop_path)

    def forward(
        self, vectors: Vectors, valid: Bool[Tensor, "row time"], sublayer: Callable[[Tensor], Tensor]
    ) -> Vectors:
        """Apply one sublayer (attention or feed-forward), add its output, and normalize the sum."""
        return self.norm(vectors + self.drop_path(self.dropout(sublayer(vectors))), valid)

    @staticmethod
    def final_norm(norm: nn.Module) -> nn.Module | None:
        """A stack of post-norm blocks needs no norm at the end: its output is normalized."""
        return None


class PreNorm(PostNorm):
    """x + f(norm(x)) (Xiong et al. 2020): the residual stream itself has no norm, so deep stacks train easily."""

    def forward(
        self, vectors: Vectors, valid: Bool[Tensor, "row time"], sublayer: Callable[[Tensor], Tensor]
    ) -> Vectors:
        """Apply one sublayer to the normalized stream, and add its output to the stream."""
        return vectors + self.drop_path(self.dropout(sublayer(self.norm(vectors, valid))))

    @staticmethod
    def final_norm(norm: nn.Module) -> nn.Module | None:
        """The residual stream has no norm of its own, so a stack of pre-norm blocks ends with one."""
        return norm


NORM_ORDERS = {"post": PostNorm, "pre": PreNorm}
