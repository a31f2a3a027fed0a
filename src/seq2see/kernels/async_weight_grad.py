"""What nobody waits for is computed beside the rest: the slopes of weights.

On its way back a product y = x Wᵀ + b owes three slopes. The layer below waits for the one by x; those by W and b are
not needed before the optimizer moves them, nor are those of a table of vectors. So they are computed on a second stream
of the GPU, which works wherever the first one leaves a part of it idle: at the last tiles of a product, between two
kernels, and all along norms and attention, which wait for memory. Each slope is written to the place where the
optimizer reads it.

The plain twins are `nn.Linear` and `nn.Embedding`, which compute everything one after another; tests compare.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from seq2see.core.devices import kernels_enabled
from seq2see.kernels.next_norm import NextNorms

MAX_PENDING = 6
"""Slopes that may be under way: what they are computed from has to stay in memory until then."""

MIN_TABLE_ROWS = 1024
"""Tokens: of so few kinds some occur so often that the kernel for tables (kernels/embedding_grad.py) is no gain."""

MAX_STORED_SUMS = 8
"""Sums that are kept: who asks for one does so soon, if at all."""

SEEDS_PER_DRAW = 64
"""Drawn at once, because every draw is a kernel."""

SumFunction = Callable[..., Tensor]
"""Gives the sum of these parts, in a new place or in the one that it is given."""

_now: list[AsyncWeightGrads] = []


def current_async_grads() -> AsyncWeightGrads | None:
    """What works beside the step that is being computed, if anything does."""
    return _now[-1] if _now else None


def grad_sink_of(weight: Tensor, bias: Tensor | None = None) -> GradSink | None:
    """Who takes the slopes of these two, if anybody does."""
    async_grads = current_async_grads()
    if async_grads is None:  # as always in what torch compiles, which knows no identities
        return None
    names = id(weight), None if bias is None else id(bias)
    return (
        GradSink(async_grads, *names) if all(name in async_grads.grads for name in names if name is not None) else None
    )


def precomputed_norm(norm: nn.Module, vectors: Tensor) -> Tensor | None:
    """What this norm makes of these vectors, if somebody who works beside the step knows it already."""
    async_grads = current_async_grads()
    return None if async_grads is None else async_grads.next_norms.pop_norm(vectors, norm)


class AsyncWeightGrads:
    """Computes the slopes of weights on a second stream, and puts each into its place. On a CPU there is only one.

    A weight is known by its `id`. If it has no place yet, what is found first becomes its place; what is there already
    is added to. `low` are copies in 16 bits of weights that are also used as they are.
    """

    def __init__(self, device: torch.device, low: Mapping[int, Tensor] | None = None):
        self.low_precision = low or {}
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.grads: dict[int, Tensor | None] = {}
        self.ready: set[int] = set()
        self.use_counts: Counter[int] = Counter()
        self.pending: deque[tuple[torch.cuda.Event, tuple[Tensor, ...]]] = deque()
        self.device = device
        self.seeds: list[Tensor] = []
        self.bias_sums: dict[int, tuple[Tensor, Tensor, SumFunction]] = {}
        self.duplicates: dict[int, tuple[Tensor, Tensor]] = {}
        self.next_norms = NextNorms()

    @contextmanager
    def activate(
        self, layers: Sequence[nn.Linear | nn.Embedding], places: Mapping[int, Tensor | None]
    ) -> Iterator[None]:
        """In here these layers leave the slopes of their weights to us; at the end all of them are there."""
        from seq2see.kernels.async_layers import async_forward

        self.grads, self.ready, self.use_counts = dict(places), set(), Counter()
        for layer in layers:
            layer.forward = async_forward(layer)  # type: ignore[method-assign, assignment]
        _now.append(self)
        try:
            yield
        finally:
            _now.remove(self)
            for layer in layers:
                del layer.forward
            self.wait()
            self.next_norms.clear()
            for kept in (self.seeds, self.bias_sums, self.duplicates):
                kept.clear()

    def seed(self) -> Tensor:
        """A number that was drawn in this step, and that nobody else gets."""
        if not self.seeds:
            self.seeds = list(torch.randint(2**31, (SEEDS_PER_DRAW, 1), device=self.device).unbind())
        return self.seeds.pop()

    def store_duplicate(self, vectors: Tensor, duplicate: Tensor) -> None:
        """The same vectors once more: whoever reads them second may read these."""
        self.duplicates[id(vectors)] = vectors, duplicate

    def duplicate_of(self, vectors: Tensor) -> Tensor:
        """These vectors, as their second reader shall read them."""
        return self.duplicates.pop(id(vectors), (vectors, vectors))[1]

    @property
    def computed_grads(self) -> dict[int, Tensor]:
        """All slopes that were found."""
        return {weight: place for weight, place in self.grads.items() if weight in self.ready and place is not None}

    def add_grad(self, weight: int, grad: Tensor) -> None:
        """A slope into its place."""
        place = self.grads[weight]
        if place is None:
            self.grads[weight] = grad
        else:
            (place.add_ if weight in self.ready else place.copy_)(grad)
        self.ready.add(weight)

    def add_matmul_grad(self, weight: int, left: Tensor, right: Tensor) -> None:
        """The same for a slope that is a product."""
        place = self.grads[weight]
        if place is None:
            self.grads[weight] = (left @ right).float()
        else:
            accumulate_matmul(place, left, right, first=weight not in self.ready)
        self.ready.add(weight)

    def add_sum_grad(self, weight: int, parts: Tensor, add_up: SumFunction) -> None:
        """The same for a slope that is a sum: the first one is written to its place by whoever adds it up."""
        place = self.grads[weight]
        if place is None or weight in self.ready:
            self.add_grad(weight, add_up(parts))
        else:
            add_up(parts, place)
            self.ready.add(weight)

    def store_sum(self, grad: Tensor, parts: Tensor, add_up: SumFunction) -> None:
        """Whoever has found a slope has summed it too, in parts that are to be added up: that is the slope by a bias.

        The sum is kept with its slope, so that no other one can lie there; but not for long, should nobody ask.
        """
        self.bias_sums[grad.data_ptr()] = grad, parts, add_up
        if len(self.bias_sums) > MAX_STORED_SUMS:
            del self.bias_sums[next(iter(self.bias_sums))]

    def sort_tokens(self, tokens: Tensor, size: int) -> list[Tensor]:
        """These tokens in order, for their slopes; nothing where there are so few kinds that torch's way will do."""
        computed_grads: list[Tensor] = []
        if kernels_enabled(tokens.device) and tokens.numel() and size > MIN_TABLE_ROWS:
            from seq2see.kernels.embedding_grad import sort_tokens

            self.enqueue(lambda tokens: computed_grads.extend(sort_tokens(tokens)), tokens)
        return computed_grads

    @torch.no_grad()
    def enqueue(self, work: Callable[..., object], *given: Tensor) -> None:
        """Do it as soon as what was asked of the GPU so far is done, and let nobody wait for it."""
        if self.stream is None:
            work(*given)
            return
        if len(self.pending) == MAX_PENDING:
            self._wait(MAX_PENDING // 2)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            work(*given)
            self.pending.append((self.stream.record_event(), given))

    def wait(self) -> None:
        """Go on when all is done."""
        if self.pending:
            self._wait(len(self.pending))

    def _wait(self, count: int) -> None:
        """Go on when the oldest of them are done. Only now is what they were given let go: it may be written over.

        They are done in turn, so it is enough to wait for the last: every wait for another stream takes a little time.
        """
        over = [self.pending.popleft() for _ in range(count)]
        torch.cuda.current_stream().wait_event(over[-1][0])


@dataclass(frozen=True)
class GradSink:
    """Takes the slopes of a weight and mostly a bias, for whoever has used them and computes its way back."""

    async_grads: AsyncWeightGrads
    weight: int
    bias: int | None

    def weight_grad(self, grad: Tensor, x: Tensor) -> None:
        """The slope by W of x Wᵀ, given that by the product."""
        self.async_grads.enqueue(lambda grad, x: self.async_grads.add_matmul_grad(self.weight, grad.mT, x), grad, x)

    def weight_and_bias_grad(self, grad: Tensor, x: Tensor, parts: Tensor, add_up: SumFunction) -> None:
        """The slopes by W and b of x Wᵀ + b, given that by the product, and of what parts its sum over all rows is."""
        self.async_grads.enqueue(partial(self._put_both, add_up), grad, x, parts)

    def linear_grad(self, grad: Tensor, x: Tensor) -> None:
        """The same, whether or not somebody knows the sum already.

        A recurrent layer multiplies at every time, by little: to go to another stream and back would take longer.
        """
        known = self.async_grads.bias_sums.pop(grad.data_ptr(), None)
        if self.async_grads.use_counts[self.weight] > 1:
            self._put_both(plain_sum, grad, x, grad)
        elif known is not None and (known[0].numel(), known[1].size(-1)) == (grad.numel(), grad.size(-1)):
            self.weight_and_bias_grad(grad, x, *known[1:])
        else:
            self.weight_and_bias_grad(grad, x, grad, sum_rows)

    @torch.no_grad()
    def _put_both(self, add_up: SumFunction, grad: Tensor, x: Tensor, parts: Tensor) -> None:
        self.async_grads.add_matmul_grad(self.weight, grad.mT, x)
        if self.bias is not None:
            self.async_grads.add_sum_grad(self.bias, parts, add_up)

    def norm_grad(self, parts: Tensor, grad_branch: Tensor | None) -> None:
        """The slopes by the weight and bias of a norm, and the sum of that by the part that it has added to the stream.

        Many programs have found a part of each.
        """
        self.async_grads.enqueue(partial(self._put_norm, grad_branch), parts)

    def _put_norm(self, grad_branch: Tensor | None, parts: Tensor) -> None:
        from seq2see.kernels.row_sums import sum_parts

        grad_weight, grad_bias = sum_parts(parts[:, :2])
        self.async_grads.add_grad(self.weight, grad_weight)
        if self.bias is not None:
            self.async_grads.add_grad(self.bias, grad_bias)
        if grad_branch is not None:
            self.async_grads.store_sum(grad_branch, parts[:, 2], sum_parts)

    def embedding_grad(self, grad: Tensor, tokens: Tensor, size: int, order: Sequence[Tensor]) -> None:
        """The slope by a table, given those by the vectors of these tokens: for each token the sum over its vectors."""
        self.async_grads.enqueue(partial(self._put_table, size), grad, tokens, *order)

    def _put_table(self, size: int, grad: Tensor, tokens: Tensor, *order: Tensor) -> None:
        if not order:
            self.async_grads.add_grad(
                self.weight, torch.ops.aten.embedding_dense_backward(grad, tokens, size, -1, False)
            )
            return
        from seq2see.kernels.embedding_grad import accumulate_embedding_grad

        table = self.async_grads.grads[self.weight]
        if table is None:
            table = self.async_grads.grads[self.weight] = grad.new_zeros(size, grad.size(-1), dtype=torch.float32)
        elif self.weight not in self.async_grads.ready:
            table.zero_()
        accumulate_embedding_grad(table, grad.flatten(0, -2), *order)
        self.async_grads.ready.add(self.weight)

    def scale_grad(self, by: Tensor) -> None:
        """What was found was found for a slope of 1, and that of the loss is this one."""
        place = self.async_grads.grads[self.weight]
        if place is not None:
            self.async_grads.enqueue(place.mul_, by)


def accumulate_matmul(total: Tensor, left: Tensor, right: Tensor, first: bool) -> None:
    """total += left · right, in one go if all are of one number format; the first product is the total."""
    if total.dtype == left.dtype:
        total.addmm_(left, right, beta=0 if first else 1)
    elif first:
        total.copy_(left @ right)
    else:
        total += left @ right


def plain_sum(rows: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum over the first axis, in float32 and then rounded to wherever it shall be written."""
    found = rows.sum(0, dtype=torch.float32)
    return found if out is None else out.copy_(found)


def sum_rows(rows: Tensor, out: Tensor | None = None) -> Tensor:
    """The same by kernels, where there are any."""
    if not kernels_enabled(rows.device):
        return plain_sum(rows, out)
    from seq2see.kernels.row_sums import sum_over_rows

    return sum_over_rows(rows, out)
