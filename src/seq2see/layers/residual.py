"""Residual connections with the norm after the sum (post-norm) or before the sublayer (pre-norm).

In bf16 training on a GPU, dropout, sum and norm are one fused kernel (`add_norm_kernels.py`). Otherwise they are
computed one after another, and that is the definition; tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from seq2see.acceleration.async_weight_grad import current_async_grads, precomputed_norm
from seq2see.acceleration.next_norm import NextNorms
from seq2see.core.devices import can_use_kernels
from seq2see.layers.dropout import Dropout, DropPath
from seq2see.layers.norms import LayerNorm, RMSNorm

Vectors = Float[Tensor, "row time width"]

MAX_WIDTH = 4096
"""The largest width that the fused kernels support."""


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
        async_grads = current_async_grads()
        output = sublayer(vectors if async_grads is None else async_grads.duplicate_of(vectors))
        if not can_fuse(self.norm, vectors) or self.drop_path.p > 0:
            return self.norm(vectors + self.drop_path(self.dropout(output)), valid)
        from seq2see.acceleration.add_norm import AddNorm, AddNormDuplicate

        inputs = (vectors, output, self.norm.weight, bias_of(self.norm), self.dropout_p, self.norm.eps)
        if async_grads is None:
            return AddNorm.apply(*inputs)
        normalized, duplicate = AddNormDuplicate.apply(*inputs)
        async_grads.store_duplicate(normalized, duplicate)
        return normalized

    @property
    def dropout_p(self) -> float:
        """The dropout probability: 0 in evaluation."""
        return self.dropout.p if self.training else 0.0

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
        if not can_fuse(self.norm, vectors):
            return vectors + self.drop_path(self.dropout(sublayer(self.norm(vectors, valid))))
        from seq2see.acceleration.add_norm import NormWithResidual

        async_grads, normalized = current_async_grads(), precomputed_norm(self.norm, vectors)
        if normalized is None:
            vectors, normalized = NormWithResidual.apply(vectors, self.norm.weight, bias_of(self.norm), self.norm.eps)
        output = sublayer(normalized)
        if async_grads is None or self.drop_path.p > 0:
            return vectors + self.drop_path(self.dropout(output))
        return async_grads.next_norms.record_output(self._add(vectors, output, async_grads.next_norms), self)

    def _add(self, vectors: Vectors, output: Vectors, next_norms: NextNorms) -> Vectors:
        """x + f(norm(x)), and in the same kernel the next norm of that sum, if the next norm is already known."""
        next_norm = next_norms.norm_after.get(self)
        if next_norm is None or not can_fuse(next_norm, vectors):
            return vectors + self.dropout(output)
        from seq2see.acceleration.add_norm import AddThenNorm

        norm_inputs = (next_norm.weight, bias_of(next_norm), self.dropout_p, next_norm.eps)
        total, normalized = AddThenNorm.apply(vectors, output, *norm_inputs)
        next_norms.store_norm(total, next_norm, normalized)
        return total

    @staticmethod
    def final_norm(norm: nn.Module) -> nn.Module | None:
        """The residual stream has no norm of its own, so a stack of pre-norm blocks ends with one."""
        return norm


def can_fuse(norm: nn.Module, vectors: Tensor) -> bool:
    """Whether a fused kernel exists for this norm, and for vectors of this width, dtype and device."""
    return can_use_kernels(vectors) and isinstance(norm, LayerNorm | RMSNorm) and vectors.size(-1) <= MAX_WIDTH


def bias_of(norm: nn.Module) -> Tensor | None:
    """The bias of a norm; RMSNorm has none."""
    return norm.bias if isinstance(norm, LayerNorm) else None


NORM_ORDERS = {"post": PostNorm, "pre": PreNorm}
