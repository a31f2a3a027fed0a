"""How the cores of a processor are shared by work that comes in pieces, such as batches to decode.

There are two ways. One worker can split every matrix product over all cores: then all threads meet at the end of
each product, hundreds of times a step, and one that is late (because something else uses its core) makes
all wait. Or several workers can take a piece each and use one core each: they never wait for each other, but
they need as many pieces as there are cores, and a single sentence is one piece.

So one piece is done by one worker, and many are shared out among workers with one thread each. Their numbers then do
not depend on how many cores there are: torch adds in another order when it splits a sum, and the last bit shows it.
Where splitting changes no bit, the fastest way is found by trying: a `Crew` does real work in one way after another
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

MOST_WORKERS = 16
"""More would only wait for Python, which lets one of them work at a time between two products."""
LARGE = 100_000_000
"""From this many weights on, one sentence is worth splitting. Below, threads that sleep between two products gain
little (at 50 million weights 0.28 s with one and 0.31 s with two; the native twin 0.11 s and 0.09 s), and lose more
when something else uses a core (the native twin 0.10 s and 0.25 s); threads that spin lose more still."""
FAIR_SHARE = 2
"""Pieces that every worker should get before a time is worth comparing."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Arrangement:
    """So many workers, with so many threads each."""

    workers: int
    threads: int


def alone(cores: int, weights: int) -> Arrangement:
    """For one piece of work: a small model is quickest by itself, a large one uses all cores."""
    return Arrangement(1, cores if weights >= LARGE else 1)


def together(cores: int) -> tuple[Arrangement, ...]:
    """For many pieces: what is worth trying, the best guess first."""
    workers = [min(cores, MOST_WORKERS), max(1, cores // 4), 1]
    return tuple(Arrangement(count, max(1, cores // count)) for count in dict.fromkeys(workers))


class Crew:
    """Does pieces of work, in the arrangement that has been fastest so far."""

    def __init__(self, weights: int, cores: int | None = None, clock: Callable[[], float] = time.monotonic):
        # Torch knows how many threads it may use: the cores, or what OMP_NUM_THREADS says.
        self.cores = torch.get_num_threads() if cores is None else cores
        self.weights, self.clock = weights, clock
        self.speeds: dict[Arrangement, float] = {}
        """Amount of work a second, of every arrangement that was tried."""

    def arrangement(self, pieces: int, exact: bool = False) -> Arrangement:
        """How so many pieces will be done; `exact` says that no bit depends on it, so that all ways may be tried."""
        if pieces <= 1 or self.cores == 1:
            return alone(self.cores, self.weights)
        ways = together(self.cores)
        if not exact:
            return Arrangement(ways[0].workers, 1)
        untried = [way for way in ways if way not in self.speeds]
        if untried and self._is_fair(pieces):
            return untried[0]
        return max(ways, key=lambda way: self.speeds.get(way, -math.inf))

    def run(
        self,
        way: Arrangement,
        work: Callable[[Item], Result],
        pieces: Sequence[Item],
        amount: Callable[[Result], int],
    ) -> Iterator[Result]:
        """Do all pieces and give the results in their order; `amount` says how much work was in one."""
        began, done = self.clock(), 0
        for result in self._alone(way, work, pieces) if way.workers == 1 else self._shared(way, work, pieces):
            done += amount(result)
            yield result
        if self._is_fair(len(pieces)):
            self.speeds[way] = done / max(self.clock() - began, 1e-9)

    def _is_fair(self, pieces: int) -> bool:
        """Whether every worker gets enough to do for its time to be compared."""
        return pieces >= FAIR_SHARE * together(self.cores)[0].workers

    def _alone(self, way: Arrangement, work: Callable[[Item], Result], pieces: Sequence[Item]) -> Iterator[Result]:
        before = torch.get_num_threads()
        torch.set_num_threads(way.threads)
        try:
            yield from map(work, pieces)
        finally:
            torch.set_num_threads(before)

    def _shared(self, way: Arrangement, work: Callable[[Item], Result], pieces: Sequence[Item]) -> Iterator[Result]:
        before = torch.get_num_threads()
        # Torch counts threads for each thread that calls it, so every worker sets its own number.
        crew = ThreadPoolExecutor(way.workers, "worker", initializer=torch.set_num_threads, initargs=(way.threads,))
        try:
            yield from crew.map(work, pieces)
        finally:
            crew.shutdown(cancel_futures=True)  # after Ctrl-C, only what is already being done is finished
            torch.set_num_threads(before)
