"""Asynchronous weight gradients: the gradients of weights are computed on a second CUDA stream.

The backward pass of a linear layer y = x Wᵀ + b computes three gradients. The layer below needs the gradient of x. The
gradients of W and b, and that of an embedding matrix, are not needed before the optimizer step. So they are computed on
a second stream of the GPU, which runs wherever the first stream leaves a part of the GPU idle: at the last tiles of a
matmul, between two kernels, and during norms and attention, which are limited by memory bandwidth. Each gradient is
written to the tensor from which the optimizer reads it.

The definitions are `nn.Linear` and `nn.Embedding`, which compute all gradients one after another; tests compare them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

MAX_PENDING = 6
"""The maximum number of pending gradients: their inputs must stay in memory until they are computed."""

MIN_TABLE_ROWS = 1024
"""The vocabulary size from which on the embedding kernel (acceleration/row_sums.py) is faster: in a smaller
vocabulary, some tokens occur too often."""

MAX_STORED_SUMS = 8
"""The maximum number of stored bias sums: a sum is used soon, or never."""

SEEDS_PER_DRAW = 64
"""The number of seeds that are drawn at once, because every draw is a kernel."""

SumFunction = Callable[..., Tensor]
"""A function of partial sums: it returns their sum, in a new tensor or in the one that is passed."""


def active_async_grads(module: nn.Module) -> AsyncWeightGrads | None:
    """The `AsyncWeightGrads` of a fast module during a training step; None at all other times."""
    async_grads = module.async_grads
    return async_grads if isinstance(async_grads, AsyncWeightGrads) and async_grads.active else None


def grad_sink_of(async_grads: AsyncWeightGrads | None, weight: Tensor, bias: Tensor | None = None) -> GradSink | None:
    """The gradient sink of a weight and its bias, if their gradients are computed asynchronously."""
    if async_grads is None or not async_grads.active:  # always so in compiled code, where tensors have no `id`
        return None
    ids = id(weight), None if bias is None else id(bias)
    return GradSink(async_grads, *ids) if all(each in async_grads.grads for each in ids if each is not None) else None


class AsyncWeightGrads:
    """Computes weight gradients on a second CUDA stream, and writes each to its tensor; on a CPU there is no stream.

    The keys are the `id` of weights. If a weight has no gradient tensor yet, the first gradient becomes that tensor;
    later gradients are added to it. `low_precision` holds 16-bit copies of weights that are used in both precisions.
    With `kernels`, sums and embedding gradients are computed by our own kernels.
    """

    def __init__(self, device: torch.device, low_precision: Mapping[int, Tensor] | None = None, kernels: bool = False):
        self.low_precision, self.kernels, self.active = low_precision or {}, kernels, False
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.grads: dict[int, Tensor | None] = {}
        self.ready: set[int] = set()
        self.use_counts: Counter[int] = Counter()
        self.pending: deque[tuple[torch.cuda.Event, tuple[Tensor, ...]]] = deque()
        self.device = device
        self.seeds: list[Tensor] = []
        self.bias_sums: dict[int, tuple[Tensor, Tensor, SumFunction]] = {}

    def __deepcopy__(self, memo: object) -> None:
        """A copy of a model is not trained by this object, so the copy has none."""

    @contextmanager
    def activate(
        self, layers: Sequence[nn.Linear | nn.Embedding], grads: Mapping[int, Tensor | None]
    ) -> Iterator[None]:
        """Compute the weight gradients of these layers asynchronously in this context; at its end all are complete."""
        self.grads, self.ready, self.use_counts = dict(grads), set(), Counter()
        for layer in layers:
            layer.forward = _async_forward(self, layer)  # type: ignore[method-assign, assignment]
        self.active = True
        try:
            yield
        finally:
            self.active = False
            for layer in layers:
                del layer.forward
            self.wait()
            self.seeds.clear()
            self.bias_sums.clear()

    def seed(self) -> Tensor:
        """A random seed for one dropout kernel of this step."""
        if not self.seeds:
            self.seeds = list(torch.randint(2**31, (SEEDS_PER_DRAW, 1), device=self.device).unbind())
        return self.seeds.pop()

    @property
    def computed_grads(self) -> dict[int, Tensor]:
        """All gradients that were computed in this step."""
        return {weight: total for weight, total in self.grads.items() if weight in self.ready and total is not None}

    def add_grad(self, weight: int, grad: Tensor) -> None:
        """Add a gradient to the gradient tensor of its weight."""
        total = self.grads[weight]
        if total is None:
            self.grads[weight] = grad
        else:
            (total.add_ if weight in self.ready else total.copy_)(grad)
        self.ready.add(weight)

    def add_matmul_grad(self, weight: int, left: Tensor, right: Tensor) -> None:
        """Add a gradient that is a matmul."""
        total = self.grads[weight]
        if total is None:
            self.grads[weight] = (left @ right).float()
        elif total.dtype == left.dtype:  # one operation
            total.addmm_(left, right, beta=1 if weight in self.ready else 0)
        else:
            self.add_grad(weight, left @ right)
        self.ready.add(weight)

    def add_sum_grad(self, weight: int, parts: Tensor, sum_function: SumFunction) -> None:
        """Add a gradient that is a sum; the first one is summed directly into the gradient tensor."""
        total = self.grads[weight]
        if total is None or weight in self.ready:
            self.add_grad(weight, sum_function(parts))
        else:
            sum_function(parts, total)
            self.ready.add(weight)

    def store_sum(self, grad: Tensor, parts: Tensor, sum_function: SumFunction) -> None:
        """Store partial sums of a gradient over its rows, which a kernel has computed: their sum is a bias gradient.

        The gradient is stored with its sums, so that no other tensor can get its address. Unused sums are deleted.
        """
        self.bias_sums[grad.data_ptr()] = grad, parts, sum_function
        if len(self.bias_sums) > MAX_STORED_SUMS:
            del self.bias_sums[next(iter(self.bias_sums))]

    def sort_tokens(self, tokens: Tensor, size: int) -> list[Tensor]:
        """The sorted tokens for the embedding kernel; empty for a small vocabulary, where torch is as fast."""
        sorted_tokens: list[Tensor] = []
        if self.kernels and tokens.numel() and size > MIN_TABLE_ROWS:
            from seq2see.acceleration.row_sums import sort_tokens

            self.enqueue(lambda tokens: sorted_tokens.extend(sort_tokens(tokens)), tokens)
        return sorted_tokens

    @torch.no_grad()
    def enqueue(self, work: Callable[..., object], *inputs: Tensor) -> None:
        """Run `work` on the second stream, after the current work of the main stream."""
        if self.stream is None:
            work(*inputs)
            return
        if len(self.pending) == MAX_PENDING:
            self._wait(MAX_PENDING // 2)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            work(*inputs)
            self.pending.append((self.stream.record_event(), inputs))

    def wait(self) -> None:
        """Let the main stream wait until all pending work is complete."""
        if self.pending:
            self._wait(len(self.pending))

    def _wait(self, count: int) -> None:
        """Let the main stream wait for the oldest pending work, and release its inputs, whose memory may be reused.

        Work completes in order, so one wait for the last is enough: every wait for another stream takes a little time.
        """
        completed = [self.pending.popleft() for _ in range(count)]
        torch.cuda.current_stream().wait_event(completed[-1][0])


@dataclass(frozen=True)
class GradSink:
    """Computes the gradients of one weight and its bias, for the backward pass of a layer that uses them."""

    async_grads: AsyncWeightGrads
    weight: int
    bias: int | None

    def weight_grad(self, grad: Tensor, x: Tensor) -> None:
        """The gradient of W for x Wᵀ, from the gradient of its output."""
        self.async_grads.enqueue(lambda grad, x: self.async_grads.add_matmul_grad(self.weight, grad.mT, x), grad, x)

    def weight_and_bias_grad(self, grad: Tensor, x: Tensor, parts: Tensor, sum_function: SumFunction) -> None:
        """The gradients of W and b for x Wᵀ + b, from the gradient of its output and the partial sums of that."""
        self.async_grads.enqueue(partial(self._add_weight_and_bias_grad, sum_function), grad, x, parts)

    def linear_grad(self, grad: Tensor, x: Tensor) -> None:
        """The gradients of W and b for x Wᵀ + b, with stored partial sums if there are any.

        A weight that is used several times, as in a recurrent layer, has its gradients computed at once: the matmuls
        are small, and a second stream would take longer.
        """
        stored = self.async_grads.bias_sums.pop(grad.data_ptr(), None)
        if self.async_grads.use_counts[self.weight] > 1:
            self._add_weight_and_bias_grad(plain_sum, grad, x, grad)
        elif stored is not None and (stored[0].numel(), stored[1].size(-1)) == (grad.numel(), grad.size(-1)):
            self.weight_and_bias_grad(grad, x, *stored[1:])
        else:
            self.weight_and_bias_grad(grad, x, grad, sum_rows if self.async_grads.kernels else plain_sum)

    @torch.no_grad()
    def _add_weight_and_bias_grad(self, sum_function: SumFunction, grad: Tensor, x: Tensor, parts: Tensor) -> None:
        self.async_grads.add_matmul_grad(self.weight, grad.mT, x)
        if self.bias is not None:
            self.async_grads.add_sum_grad(self.bias, parts, sum_function)

    def norm_grad(self, parts: Tensor, grad_branch: Tensor | None) -> None:
        """The gradients of the weight and bias of a norm, from the partial sums of many programs.

        The third partial sum is that of `grad_branch`, the gradient of the branch that was added to the stream; it is
        stored as the bias gradient of the layer below.
        """
        self.async_grads.enqueue(partial(self._add_norm_grad, grad_branch), parts)

    def _add_norm_grad(self, grad_branch: Tensor | None, parts: Tensor) -> None:
        from seq2see.acceleration.row_sums import sum_parts

        grad_weight, grad_bias = sum_parts(parts[:, :2])
        self.async_grads.add_grad(self.weight, grad_weight)
        if self.bias is not None:
            self.async_grads.add_grad(self.bias, grad_bias)
        if grad_branch is not None:
            self.async_grads.store_sum(grad_branch, parts[:, 2], sum_parts)

    def embedding_grad(self, grad: Tensor, tokens: Tensor, size: int, order: Sequence[Tensor]) -> None:
        """The gradient of an embedding matrix: for each token the sum of the gradients of its occurrences."""
        self.async_grads.enqueue(partial(self._add_embedding_grad, size), grad, tokens, *order)

    def _add_embedding_grad(self, size: int, grad: Tensor, tokens: Tensor, *order: Tensor) -> None:
        if not order:
            self.async_grads.add_grad(
                self.weight, torch.ops.aten.embedding_dense_backward(grad, tokens, size, -1, False)
            )
            return
        from seq2see.acceleration.row_sums import accumulate_embedding_grad

        total = self.async_grads.grads[self.weight]
        if total is None:
            total = self.async_grads.grads[self.weight] = grad.new_zeros(size, grad.size(-1), dtype=torch.float32)
        elif self.weight not in self.async_grads.ready:
            total.zero_()
        accumulate_embedding_grad(total, grad.flatten(0, -2), *order)
        self.async_grads.ready.add(self.weight)

    def scale_grad(self, factor: Tensor) -> None:
        """Multiply the gradient, which was computed for a loss gradient of 1, by the actual loss gradient."""
        total = self.async_grads.grads[self.weight]
        if total is not None:
            self.async_grads.enqueue(total.mul_, factor)


def plain_sum(rows: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum over the first axis in float32, then rounded to the dtype of `out`."""
    total = rows.sum(0, dtype=torch.float32)
    return total if out is None else out.copy_(total)


def sum_rows(rows: Tensor, out: Tensor | None = None) -> Tensor:
    """`plain_sum` by our own kernels."""
    from seq2see.acceleration.row_sums import sum_over_rows

    return sum_over_rows(rows, out)


def cast_weight(async_grads: AsyncWeightGrads | None, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A weight in this dtype: its low-precision copy, if there is one."""
    copy = async_grads.low_precision.get(id(weight)) if async_grads is not None and async_grads.active else None
    return copy if copy is not None and copy.dtype == dtype else weight.to(dtype)


class LinearFunction(torch.autograd.Function):
    """x Wᵀ + b, whose gradients of W and b are computed by a gradient sink."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, async_grads: AsyncWeightGrads) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.grad_sink = grad_sink_of(async_grads, weight, bias)
        ctx.grad_sink.async_grads.use_counts[ctx.grad_sink.weight] += 1
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_output = grad_output.flatten(0, -2).contiguous()
        grad_input = (grad_output @ weight).view_as(x) if ctx.needs_input_grad[0] else None
        ctx.grad_sink.linear_grad(grad_output, x.flatten(0, -2))
        return grad_input, None, None, None


class EmbeddingFunction(torch.autograd.Function):
    """Embedding lookup, whose gradient of the embedding matrix is computed by a gradient sink."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, async_grads: AsyncWeightGrads) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.grad_sink, ctx.size = grad_sink_of(async_grads, weight), len(weight)
        ctx.order = async_grads.sort_tokens(tokens, ctx.size)
        return functional.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (tokens,) = ctx.saved_tensors
        ctx.grad_sink.embedding_grad(grad_output.contiguous(), tokens, ctx.size, ctx.order)
        return None, None, None


def _async_forward(async_grads: AsyncWeightGrads, layer: nn.Linear | nn.Embedding) -> Callable[[Tensor], Tensor]:
    """The function that replaces the `forward` of a layer."""
    if isinstance(layer, nn.Linear):
        return partial(_linear, async_grads, layer)
    return partial(_embedding, async_grads, layer)


def _linear(async_grads: AsyncWeightGrads, layer: nn.Linear, x: Tensor) -> Tensor:
    output: Tensor = LinearFunction.apply(x.to(layer.weight.dtype), layer.weight, layer.bias, async_grads)
    return output


def _embedding(async_grads: AsyncWeightGrads, layer: nn.Embedding, tokens: Tensor) -> Tensor:
    output: Tensor = EmbeddingFunction.apply(tokens, layer.weight, async_grads)
    return output
