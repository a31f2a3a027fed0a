"""Who works with how many threads: rules one can check by hand, and a crew that learns what is faster."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from seq2see.core.worker_pool import (
    LARGE_MODEL,
    MAX_WORKERS,
    ThreadLayout,
    WorkerPool,
    candidate_layouts,
    single_item_layout,
)


@pytest.mark.parametrize(
    ("cores", "weights", "threads"),
    [(1, LARGE_MODEL, 1), (8, 600_000, 1), (8, LARGE_MODEL - 1, 1), (8, LARGE_MODEL, 8)],
)
def test_one_piece_is_done_by_one_worker_and_a_large_model_takes_all_cores(cores: int, weights: int, threads: int):
    assert single_item_layout(cores, weights) == ThreadLayout(1, threads)


@pytest.mark.parametrize(
    ("cores", "ways"),
    [(1, [(1, 1)]), (2, [(2, 1), (1, 2)]), (8, [(8, 1), (2, 4), (1, 8)]), (64, [(16, 4), (1, 64)])],
)
def test_many_pieces_are_shared_out_or_split(cores: int, layouts: list[tuple[int, int]]):
    assert [(layout.workers, layout.threads) for layout in candidate_layouts(cores)] == layouts
    assert all(layout.workers <= MAX_WORKERS for layout in candidate_layouts(cores))


class Slow:
    """Work that takes as long as its arrangement says, on a clock that is moved by hand."""

    def __init__(self, seconds: dict[int, float], cores: int = 2, weights: int = 0):
        self.seconds, self.now, self.exact = seconds, 0.0, True
        self.pool = WorkerPool(weights, cores, lambda: self.now)
        self.layouts: list[ThreadLayout] = []

    def run(self, items: int) -> list[int]:
        self.layouts.append(self.pool.choose_layout(items, self.exact))
        return list(self.pool.run(self.layouts[-1], self.work, range(items), lambda result: 3))

    def work(self, piece: int) -> int:
        self.now += self.seconds[self.layouts[-1].workers]
        return piece * 7


@pytest.mark.parametrize(("seconds", "best"), [({1: 5.0, 2: 3.0}, 2), ({1: 3.0, 2: 5.0}, 1)])
def test_both_ways_are_tried_on_real_work_and_the_faster_is_kept(seconds: dict[int, float], best: int):
    slow = Slow(seconds)
    for _ in range(5):
        assert slow.run(6) == [0, 7, 14, 21, 28, 35]
    assert [layout.workers for layout in slow.layouts] == [2, 1, best, best, best]
    assert slow.pool.throughputs == {ThreadLayout(2, 1): 3 / seconds[2], ThreadLayout(1, 2): 3 / seconds[1]}


def test_a_few_pieces_are_no_fair_trial():
    slow = Slow({1: 1.0, 2: 1.0})
    for _ in range(3):
        slow.run(3)
    assert [layout.workers for layout in slow.layouts] == [2, 2, 2]
    assert slow.pool.throughputs == {}
    slow.run(1)
    assert slow.layouts[-1] == ThreadLayout(1, 1)
    slow.run(4)  # two for each is fair
    assert list(slow.pool.throughputs) == [ThreadLayout(2, 1)]
    slow.run(3)  # the other way waits for a fair trial
    assert [layout.workers for layout in slow.layouts[-2:]] == [2, 2]


def test_where_threads_change_the_last_bit_everyone_has_one():
    slow = Slow({1: 1.0, 2: 9.0})
    slow.exact = False
    for _ in range(3):
        slow.run(6)
    assert slow.layouts == [ThreadLayout(2, 1)] * 3
    assert WorkerPool(0, cores=64).choose_layout(99) == ThreadLayout(16, 1)


def test_on_one_core_there_is_nothing_to_arrange():
    slow = Slow({1: 1.0}, cores=1, weights=LARGE_MODEL)
    assert slow.run(9) == [7 * piece for piece in range(9)]
    assert slow.layouts == [ThreadLayout(1, 1)]


@pytest.mark.parametrize(("pieces", "threads", "names"), [(8, {1}, 2), (1, {1}, 1)])
def test_every_worker_has_its_threads_and_torch_gets_its_own_back(items: int, threads: set[int], names: int):
    torch.set_num_threads(2)
    barrier = threading.Barrier(names, timeout=10)
    seen = set()

    def look(piece: int) -> str:
        barrier.wait()  # so many workers are really at work at once
        seen.add(torch.get_num_threads())
        return threading.current_thread().name

    pool = WorkerPool(0)
    found = set(pool.run(pool.choose_layout(items), look, range(items), lambda name: 1))
    assert seen == threads
    assert len(found) == names
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_in_the_work_is_an_error_of_the_crew(cores: int):
    torch.set_num_threads(2)

    def fail(piece: int) -> int:
        raise ValueError(piece)

    with pytest.raises(ValueError, match="0"):
        list(WorkerPool(0).run(ThreadLayout(cores, 1), fail, range(50), lambda result: 1))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_after_an_error_only_what_is_being_done_is_finished(workers: int):
    begun = []

    def work(piece: int) -> int:
        begun.append(piece)
        if piece == 0:
            raise ValueError("stop")
        time.sleep(0.01)
        return piece

    with pytest.raises(ValueError, match="stop"):
        list(WorkerPool(0).run(ThreadLayout(workers, 1), work, range(50), lambda result: 1))
    assert len(begun) < 25
