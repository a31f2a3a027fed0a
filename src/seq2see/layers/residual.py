"""Adding what a layer found to what was known, and where the norm stands in it.

`plain` is the definition; on a GPU a training step in bf16 takes kernels of our own that do the same in one go
(kernels/add_norm_kernels.py). Tests say they agree.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from seq2see.core.devices import can_use_kernels
from seq2see.kernels.async_weight_grad import current_async_grads, precomputed_norm
from seq2see.kernels.next_norm import NextNorms
from seq2see.layers.dropout import Dropout, DropPath
from seq2see.layers.norms import LayerNorm, RMSNorm

Vectors = Float[Tensor, "row time width"]

MAX_WIDTH = 4096
"""Numbers of a vector that the kernels can hold."""


class PostNorm(nn.Module):
    """norm(x + f(x)), as in Vaswani et al. 2017: the stream itself is normalized after every part.

    In training, numbers of f(x) fall out by `dropout`, and the whole of it, row by row, by `drop_path`.
    """

    def __init__(self, norm: nn.Module, dropout: float, drop_path: float = 0.0):
        super().__init__()
        self.norm = norm
        self.dropout, self.drop_path = Dropout(dropout), DropPath(drop_path)

    def forward(
        self, vectors: Vectors, valid: Bool[Tensor, "row time"], sublayer: Callable[[Tensor], Tensor]
    ) -> Vectors:
        """Apply one part (attention or feed-forward) and add its answer."""
        async_grads = current_async_grads()
        output = sublayer(vectors if async_grads is None else async_grads.duplicate_of(vectors))
        if not can_fuse(self.norm, vectors) or self.drop_path.p > 0:
            return self.norm(vectors + self.drop_path(self.dropout(output)), valid)
        from seq2see.kernels.add_norm import AddNorm, AddNormDuplicate

        given = (vectors, output, self.norm.weight, bias_of(self.norm), self.dropout_p, self.norm.eps)
        if async_grads is None:
            return AddNorm.apply(*given)
        normalized, duplicate = AddNormDuplicate.apply(*given)
        async_grads.store_duplicate(normalized, duplicate)
        return normalized

    @property
    def dropout_p(self) -> float:
        """Of what a part found, the share that falls out now."""
        return self.dropout.p if self.training else 0.0

    @staticmethod
    def final_norm(norm: nn.Module) -> nn.Module | None:
        """Nothing is left to do after the last block."""
        return None


class PreNorm(PostNorm):
    """x + f(norm(x)) (Xiong et al. 2020): the stream runs through untouched, so deep stacks train easily."""

    def forward(
        self, vectors: Vectors, valid: Bool[Tensor, "row time"], sublayer: Callable[[Tensor], Tensor]
    ) -> Vectors:
        """Apply one part to the normalized stream and add its answer to the stream."""
        if not can_fuse(self.norm, vectors):
            return vectors + self.drop_path(self.dropout(sublayer(self.norm(vectors, valid))))
        from seq2see.kernels.add_norm import NormWithResidual

        async_grads, normalized = current_async_grads(), precomputed_norm(self.norm, vectors)
        if normalized is None:
            vectors, normalized = NormWithResidual.apply(vectors, self.norm.weight, bias_of(self.norm), self.norm.eps)
        output = sublayer(normalized)
        if async_grads is None or self.drop_path.p > 0:
            return vectors + self.drop_path(self.dropout(output))
        return async_grads.next_norms.write(self._add(vectors, output, async_grads.next_norms), self)

    def _add(self, vectors: Vectors, output: Vectors, stream: NextNorms) -> Vectors:
        """x + f(norm(x)), and in the same walk what the next norm makes of it, if that norm is known."""
        next_norm = stream.norm_after.get(self)
        if next_norm is None or not can_fuse(next_norm, vectors):
            return vectors + self.dropout(output)
        from seq2see.kernels.add_norm import AddThenNorm

        given = (next_norm.weight, bias_of(next_norm), self.dropout_p, next_norm.eps)
        total, normalized = AddThenNorm.apply(vectors, output, *given)
        stream.store_norm(total, next_norm, normalized)
        return total

    @staticmethod
    def final_norm(norm: nn.Module) -> nn.Module | None:
        """The stream was never normalized, so the stack ends with a norm."""
        return norm


def can_fuse(norm: nn.Module, vectors: Tensor) -> bool:
    """Whether there is a kernel for this norm around these vectors."""
    return can_use_kernels(vectors) and isinstance(norm, LayerNorm | RMSNorm) and vectors.size(-1) <= MAX_WIDTH


def bias_of(norm: nn.Module) -> Tensor | None:
    """What a norm adds in the end; RMSNorm adds nothing."""
    return norm.bias if isinstance(norm, LayerNorm) else None


NORM_ORDERS = {"post": PostNorm, "pre": PreNorm}
