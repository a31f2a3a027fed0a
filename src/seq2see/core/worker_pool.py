"""How the cores of a processor are shared by work that comes in pieces, such as batches to decode.

There are two ways. One worker can split every matrix product over all cores: then all threads meet at the end of
each product, hundreds of times a step, and one that is late (because something else uses its core) makes
all wait. Or several workers can take a piece each and use one core each: they never wait for each other, but
they need as many pieces as there are cores, and a single sentence is one piece.

So one piece is done by one worker, and many are shared out among workers with one thread each. Their numbers then do
not depend on how many cores there are: torch adds in another order when it splits a sum, and the last bit shows it.
Where splitting changes no bit, the fastest way is found by trying: a `WorkerPool` does real work in one way after another
and keeps the one that did most a second. `benchmarks/threads.py` has the figures behind the rules.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

MAX_WORKERS = 16
"""More would only wait for Python, which lets one of them work at a time between two products."""
LARGE_MODEL = 100_000_000
"""From this many weights on, one sentence is worth splitting. Below, threads that sleep between two products gain
little (at 50 million weights 0.28 s with one and 0.31 s with two; the native twin 0.11 s and 0.09 s), and lose more
when something else uses a core (the native twin 0.10 s and 0.25 s); threads that spin lose more still."""
MIN_ITEMS_PER_WORKER = 2
"""Pieces that every worker should get before a time is worth comparing."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ThreadLayout:
    """So many workers, with so many threads each."""

    workers: int
    threads: int


def single_item_layout(cores: int, weights: int) -> ThreadLayout:
    """For one piece of work: a small model is quickest by itself, a large one uses all cores."""
    return ThreadLayout(1, cores if weights >= LARGE_MODEL else 1)


def candidate_layouts(cores: int) -> tuple[ThreadLayout, ...]:
    """For many pieces: what is worth trying, the best guess first."""
    workers = [min(cores, MAX_WORKERS), max(1, cores // 4), 1]
    return tuple(ThreadLayout(count, max(1, cores // count)) for count in dict.fromkeys(workers))


class WorkerPool:
    """Does pieces of work, in the arrangement that has been fastest so far."""

    def __init__(self, weights: int, cores: int | None = None, clock: Callable[[], float] = time.monotonic):
        # Torch knows how many threads it may use: the cores, or what OMP_NUM_THREADS says.
        self.cores = torch.get_num_threads() if cores is None else cores
        self.weights, self.clock = weights, clock
        self.throughputs: dict[ThreadLayout, float] = {}
        """Amount of work a second, of every arrangement that was tried."""

    def choose_layout(self, items: int, exact: bool = False) -> ThreadLayout:
        """How so many pieces will be done; `exact` says that no bit depends on it, so that all ways may be tried."""
        if items <= 1 or self.cores == 1:
            return single_item_layout(self.cores, self.weights)
        layouts = candidate_layouts(self.cores)
        if not exact:
            return ThreadLayout(layouts[0].workers, 1)
        untried = [layout for layout in layouts if layout not in self.throughputs]
        if untried and self._is_fair(items):
            return untried[0]
        return max(layouts, key=lambda layout: self.throughputs.get(layout, -math.inf))

    def run(
        self,
        layout: ThreadLayout,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        amount: Callable[[Result], int],
    ) -> Iterator[Result]:
        """Do all pieces and give the results in their order; `amount` says how much work was in one."""
        began, done = self.clock(), 0
        for result in self._alone(layout, work, items) if layout.workers == 1 else self._shared(layout, work, items):
            done += amount(result)
            yield result
        if self._is_fair(len(items)):
            self.throughputs[layout] = done / max(self.clock() - began, 1e-9)

    def _is_fair(self, items: int) -> bool:
        """Whether every worker gets enough to do for its time to be compared."""
        return items >= MIN_ITEMS_PER_WORKER * candidate_layouts(self.cores)[0].workers

    def _alone(self, layout: ThreadLayout, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        before = torch.get_num_threads()
        torch.set_num_threads(layout.threads)
        try:
            yield from map(work, items)
        finally:
            torch.set_num_threads(before)

    def _shared(self, layout: ThreadLayout, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        before = torch.get_num_threads()
        # Torch counts threads for each thread that calls it, so every worker sets its own number.
        pool = ThreadPoolExecutor(
            layout.workers, "worker", initializer=torch.set_num_threads, initargs=(layout.threads,)
        )
        try:
            yield from pool.map(work, items)
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C, only what is already being done is finished
            torch.set_num_threads(before)
