"""What nobody waits for is computed beside the rest: the slopes of weights.

On its way back a product y = x Wᵀ + b owes three slopes. The layer below waits for the one by x; those by W and b are
not needed before the optimiser moves them, nor are those of a table of vectors. So they are computed on a second stream
of the GPU, which works wherever the first one leaves a part of it idle: at the last tiles of a product, between two
kernels, and all along norms and attention, which wait for memory. Each slope is written to the place where the
optimiser reads it.

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

from seq2see.core.devices import kernels_on
from seq2see.kernels.stream import Stream

AHEAD = 6
"""Slopes that may be under way: what they are computed from has to stay in memory until then."""

FEW = 1024
"""Tokens: of so few kinds some occur so often that the kernel for tables (kernels/table_slopes.py) is no gain."""

KNOWN = 8
"""Sums that are kept: who asks for one does so soon, if at all."""

SEEDS = 64
"""Drawn at once, because every draw is a kernel."""

AddUp = Callable[..., Tensor]
"""Gives the sum of these parts, in a new place or in the one that it is given."""

_now: list[Beside] = []


def at_hand() -> Beside | None:
    """What works beside the step that is being computed, if anything does."""
    return _now[-1] if _now else None


def taker_of(weight: Tensor, bias: Tensor | None = None) -> Taker | None:
    """Who takes the slopes of these two, if anybody does."""
    beside = at_hand()
    if beside is None:  # as always in what torch compiles, which knows no identities
        return None
    names = id(weight), None if bias is None else id(bias)
    return Taker(beside, *names) if all(name in beside.places for name in names if name is not None) else None


def known_norm(norm: nn.Module, vectors: Tensor) -> Tensor | None:
    """What this norm makes of these vectors, if somebody who works beside the step knows it already."""
    beside = at_hand()
    return None if beside is None else beside.residual_stream.read(vectors, norm)


class Beside:
    """Computes the slopes of weights on a second stream, and puts each into its place. On a CPU there is only one.

    A weight is known by its `id`. If it has no place yet, what is found first becomes its place; what is there already
    is added to. `low` are copies in 16 bits of weights that are also used as they are.
    """

    def __init__(self, device: torch.device, low: Mapping[int, Tensor] | None = None):
        self.low = low or {}
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.places: dict[int, Tensor | None] = {}
        self.filled: set[int] = set()
        self.uses: Counter[int] = Counter()
        self.under_way: deque[tuple[torch.cuda.Event, tuple[Tensor, ...]]] = deque()
        self.device = device
        self.seeds: list[Tensor] = []
        self.sums: dict[int, tuple[Tensor, Tensor, AddUp]] = {}
        self.forks: dict[int, tuple[Tensor, Tensor]] = {}
        self.residual_stream = Stream()

    @contextmanager
    def at_work(
        self, layers: Sequence[nn.Linear | nn.Embedding], places: Mapping[int, Tensor | None]
    ) -> Iterator[None]:
        """In here these layers leave the slopes of their weights to us; at the end all of them are there."""
        from seq2see.kernels.layers import way_of

        self.places, self.filled, self.uses = dict(places), set(), Counter()
        for layer in layers:
            layer.forward = way_of(layer)  # type: ignore[method-assign, assignment]
        _now.append(self)
        try:
            yield
        finally:
            _now.remove(self)
            for layer in layers:
                del layer.forward
            self.wait()
            self.residual_stream.forget()
            for kept in (self.seeds, self.sums, self.forks):
                kept.clear()

    def seed(self) -> Tensor:
        """A number that was drawn in this step, and that nobody else gets."""
        if not self.seeds:
            self.seeds = list(torch.randint(2**31, (SEEDS, 1), device=self.device).unbind())
        return self.seeds.pop()

    def fork(self, vectors: Tensor, again: Tensor) -> None:
        """The same vectors once more: whoever reads them second may read these."""
        self.forks[id(vectors)] = vectors, again

    def forked(self, vectors: Tensor) -> Tensor:
        """These vectors, as their second reader shall read them."""
        return self.forks.pop(id(vectors), (vectors, vectors))[1]

    @property
    def found(self) -> dict[int, Tensor]:
        """All slopes that were found."""
        return {weight: place for weight, place in self.places.items() if weight in self.filled and place is not None}

    def put(self, weight: int, slope: Tensor) -> None:
        """A slope into its place."""
        place = self.places[weight]
        if place is None:
            self.places[weight] = slope
        else:
            (place.add_ if weight in self.filled else place.copy_)(slope)
        self.filled.add(weight)

    def put_product(self, weight: int, left: Tensor, right: Tensor) -> None:
        """The same for a slope that is a product."""
        place = self.places[weight]
        if place is None:
            self.places[weight] = (left @ right).float()
        else:
            take_product(place, left, right, first=weight not in self.filled)
        self.filled.add(weight)

    def put_sum(self, weight: int, parts: Tensor, add_up: AddUp) -> None:
        """The same for a slope that is a sum: the first one is written to its place by whoever adds it up."""
        place = self.places[weight]
        if place is None or weight in self.filled:
            self.put(weight, add_up(parts))
        else:
            add_up(parts, place)
            self.filled.add(weight)

    def know_sum(self, slope: Tensor, parts: Tensor, add_up: AddUp) -> None:
        """Whoever has found a slope has summed it too, in parts that are to be added up: that is the slope by a bias.

        The sum is kept with its slope, so that no other one can lie there; but not for long, should nobody ask.
        """
        self.sums[slope.data_ptr()] = slope, parts, add_up
        if len(self.sums) > KNOWN:
            del self.sums[next(iter(self.sums))]

    def sort(self, tokens: Tensor, size: int) -> list[Tensor]:
        """These tokens in order, for their slopes; nothing where there are so few kinds that torch's way will do."""
        found: list[Tensor] = []
        if kernels_on(tokens.device) and tokens.numel() and size > FEW:
            from seq2see.kernels.table_slopes import in_order

            self.begin(lambda tokens: found.extend(in_order(tokens)), tokens)
        return found

    @torch.no_grad()
    def begin(self, work: Callable[..., object], *given: Tensor) -> None:
        """Do it as soon as what was asked of the GPU so far is done, and let nobody wait for it."""
        if self.stream is None:
            work(*given)
            return
        if len(self.under_way) == AHEAD:
            self._wait(AHEAD // 2)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            work(*given)
            self.under_way.append((self.stream.record_event(), given))

    def wait(self) -> None:
        """Go on when all is done."""
        if self.under_way:
            self._wait(len(self.under_way))

    def _wait(self, count: int) -> None:
        """Go on when the oldest of them are done. Only now is what they were given let go: it may be written over.

        They are done in turn, so it is enough to wait for the last: every wait for another stream takes a little time.
        """
        over = [self.under_way.popleft() for _ in range(count)]
        torch.cuda.current_stream().wait_event(over[-1][0])


@dataclass(frozen=True)
class Taker:
    """Takes the slopes of a weight and mostly a bias, for whoever has used them and computes its way back."""

    beside: Beside
    weight: int
    bias: int | None

    def by_matrix(self, slope: Tensor, x: Tensor) -> None:
        """The slope by W of x Wᵀ, given that by the product."""
        self.beside.begin(lambda slope, x: self.beside.put_product(self.weight, slope.mT, x), slope, x)

    def by_both(self, slope: Tensor, x: Tensor, parts: Tensor, add_up: AddUp) -> None:
        """The slopes by W and b of x Wᵀ + b, given that by the product, and of what parts its sum over all rows is."""
        self.beside.begin(partial(self._put_both, add_up), slope, x, parts)

    def by_product(self, slope: Tensor, x: Tensor) -> None:
        """The same, whether or not somebody knows the sum already.

        A recurrent layer multiplies at every time, by little: to go to another stream and back would take longer.
        """
        known = self.beside.sums.pop(slope.data_ptr(), None)
        if self.beside.uses[self.weight] > 1:
            self._put_both(plain_sum, slope, x, slope)
        elif known is not None and (known[0].numel(), known[1].size(-1)) == (slope.numel(), slope.size(-1)):
            self.by_both(slope, x, *known[1:])
        else:
            self.by_both(slope, x, slope, sum_rows)

    @torch.no_grad()
    def _put_both(self, add_up: AddUp, slope: Tensor, x: Tensor, parts: Tensor) -> None:
        self.beside.put_product(self.weight, slope.mT, x)
        if self.bias is not None:
            self.beside.put_sum(self.bias, parts, add_up)

    def by_norm(self, parts: Tensor, by_part: Tensor | None) -> None:
        """The slopes by the weight and bias of a norm, and the sum of that by the part that it has added to the stream.

        Many programs have found a part of each.
        """
        self.beside.begin(partial(self._put_norm, by_part), parts)

    def _put_norm(self, by_part: Tensor | None, parts: Tensor) -> None:
        from seq2see.kernels.sums import add_up

        by_weight, by_bias = add_up(parts[:, :2])
        self.beside.put(self.weight, by_weight)
        if self.bias is not None:
            self.beside.put(self.bias, by_bias)
        if by_part is not None:
            self.beside.know_sum(by_part, parts[:, 2], add_up)

    def by_table(self, slope: Tensor, tokens: Tensor, size: int, order: Sequence[Tensor]) -> None:
        """The slope by a table, given those by the vectors of these tokens: for each token the sum over its vectors."""
        self.beside.begin(partial(self._put_table, size), slope, tokens, *order)

    def _put_table(self, size: int, slope: Tensor, tokens: Tensor, *order: Tensor) -> None:
        if not order:
            self.beside.put(self.weight, torch.ops.aten.embedding_dense_backward(slope, tokens, size, -1, False))
            return
        from seq2see.kernels.table_slopes import add_to_table

        table = self.beside.places[self.weight]
        if table is None:
            table = self.beside.places[self.weight] = slope.new_zeros(size, slope.size(-1), dtype=torch.float32)
        elif self.weight not in self.beside.filled:
            table.zero_()
        add_to_table(table, slope.flatten(0, -2), *order)
        self.beside.filled.add(self.weight)

    def scale(self, by: Tensor) -> None:
        """What was found was found for a slope of 1, and that of the loss is this one."""
        place = self.beside.places[self.weight]
        if place is not None:
            self.beside.begin(place.mul_, by)


def take_product(total: Tensor, left: Tensor, right: Tensor, first: bool) -> None:
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
    if not kernels_on(rows.device):
        return plain_sum(rows, out)
    from seq2see.kernels.sums import summed

    return summed(rows, out)
