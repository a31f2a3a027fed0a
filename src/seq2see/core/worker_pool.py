"""A pool of workers on the cores of a CPU, for independent items of work such as batches to decode.

There are two layouts. One worker can split every matmul over all cores. Then all threads synchronize at the end of each
matmul, hundreds of times a step, and one late thread (because another process uses its core) delays all. Or several
workers process one item each, with one core each. They never wait for each other, but they need as many items as cores,
and a single sentence is one item.

So one item is processed by one worker, and many items are distributed over workers with one thread each. The results
then do not depend on the number of cores: torch sums in another order when it splits a sum, which changes the last bit.
Where splitting changes no bit, the fastest layout is measured: a `WorkerPool` runs real work with one layout after
another, and selects the one with the highest throughput. `benchmarks/threads.py` has the measurements.
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
"""More workers would only wait for the global interpreter lock of Python, which one of them holds between matmuls."""
LARGE_MODEL = 100_000_000
"""The number of weights from which on one sentence is split over all cores. Below, threads that sleep between two
matmuls gain little (at 50 million weights 0.28 s with one and 0.31 s with two; the native engine 0.11 s and 0.09 s),
and lose more when another process uses a core (the native engine 0.10 s and 0.25 s); threads that spin lose even
more."""
MIN_ITEMS_PER_WORKER = 2
"""The number of items for each worker from which on a measured time is representative."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ThreadLayout:
    """The number of workers, and the number of threads of each worker."""

    workers: int
    threads: int


def single_item_layout(cores: int, weights: int) -> ThreadLayout:
    """The layout for a single item: one thread for a small model, all cores for a large one."""
    return ThreadLayout(1, cores if weights >= LARGE_MODEL else 1)


def candidate_layouts(cores: int) -> tuple[ThreadLayout, ...]:
    """The layouts to measure for many items, the most likely one first."""
    workers = [min(cores, MAX_WORKERS), max(1, cores // 4), 1]
    return tuple(ThreadLayout(count, max(1, cores // count)) for count in dict.fromkeys(workers))


class WorkerPool:
    """Processes items of work with the layout that has the highest throughput so far."""

    def __init__(self, weights: int, cores: int | None = None, clock: Callable[[], float] = time.monotonic):
        # The number of threads of torch is the number of cores, or that of OMP_NUM_THREADS.
        self.cores = torch.get_num_threads() if cores is None else cores
        self.weights, self.clock = weights, clock
        self.throughputs: dict[ThreadLayout, float] = {}
        """The amount of work per second of every layout that was measured."""

    def choose_layout(self, items: int, exact: bool = False) -> ThreadLayout:
        """The layout for this number of items; with `exact`, no bit depends on it, so that all layouts are measured."""
        if items <= 1 or self.cores == 1:
            return single_item_layout(self.cores, self.weights)
        layouts = candidate_layouts(self.cores)
        if not exact:
            return ThreadLayout(layouts[0].workers, 1)
        unmeasured = [layout for layout in layouts if layout not in self.throughputs]
        if unmeasured and self._is_representative(items):
            return unmeasured[0]
        return max(layouts, key=lambda layout: self.throughputs.get(layout, -math.inf))

    def run(
        self,
        layout: ThreadLayout,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        amount: Callable[[Result], int],
    ) -> Iterator[Result]:
        """Process all items and yield their results in order; `amount` returns the amount of work of a result."""
        start, total = self.clock(), 0
        run = self._run_in_caller if layout.workers == 1 else self._run_in_workers
        for result in run(layout, work, items):
            total += amount(result)
            yield result
        if self._is_representative(len(items)):
            self.throughputs[layout] = total / max(self.clock() - start, 1e-9)

    def _is_representative(self, items: int) -> bool:
        """Whether every worker gets enough items for a meaningful measurement of time."""
        return items >= MIN_ITEMS_PER_WORKER * candidate_layouts(self.cores)[0].workers

    def _run_in_caller(
        self, layout: ThreadLayout, work: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[Result]:
        before = torch.get_num_threads()
        torch.set_num_threads(layout.threads)
        try:
            yield from map(work, items)
        finally:
            torch.set_num_threads(before)

    def _run_in_workers(
        self, layout: ThreadLayout, work: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[Result]:
        before = torch.get_num_threads()
        # In torch, the number of threads is a property of the calling thread, so every worker sets its own.
        pool = ThreadPoolExecutor(
            layout.workers, "worker", initializer=torch.set_num_threads, initargs=(layout.threads,)
        )
        try:
            yield from pool.map(work, items)
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C, only running items are completed
            torch.set_num_threads(before)
