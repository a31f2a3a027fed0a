"""Worker pools: layouts by hand, and the selection of the fastest layout."""

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
def test_one_item_is_processed_by_one_worker_and_a_large_model_uses_all_cores(cores: int, weights: int, threads: int):
    assert single_item_layout(cores, weights) == ThreadLayout(1, threads)


@pytest.mark.parametrize(
    ("cores", "layouts"),
    [(1, [(1, 1)]), (2, [(2, 1), (1, 2)]), (8, [(8, 1), (2, 4), (1, 8)]), (64, [(16, 4), (1, 64)])],
)
def test_many_items_are_distributed_or_split(cores: int, layouts: list[tuple[int, int]]):
    assert [(layout.workers, layout.threads) for layout in candidate_layouts(cores)] == layouts
    assert all(layout.workers <= MAX_WORKERS for layout in candidate_layouts(cores))


class SimulatedWork:
    """Work whose duration depends on the layout, on a simulated clock."""

    def __init__(self, seconds: dict[int, float], cores: int = 2, weights: int = 0):
        self.seconds, self.now, self.exact = seconds, 0.0, True
        self.pool = WorkerPool(weights, cores, lambda: self.now)
        self.layouts: list[ThreadLayout] = []

    def run(self, items: int) -> list[int]:
        self.layouts.append(self.pool.choose_layout(items, self.exact))
        return list(self.pool.run(self.layouts[-1], self.work, range(items), lambda result: 3))

    def work(self, item: int) -> int:
        self.now += self.seconds[self.layouts[-1].workers]
        return item * 7


@pytest.mark.parametrize(("seconds", "best"), [({1: 5.0, 2: 3.0}, 2), ({1: 3.0, 2: 5.0}, 1)])
def test_both_layouts_are_measured_on_real_work_and_the_faster_is_selected(seconds: dict[int, float], best: int):
    simulated = SimulatedWork(seconds)
    for _ in range(5):
        assert simulated.run(6) == [0, 7, 14, 21, 28, 35]
    assert [layout.workers for layout in simulated.layouts] == [2, 1, best, best, best]
    assert simulated.pool.throughputs == {ThreadLayout(2, 1): 3 / seconds[2], ThreadLayout(1, 2): 3 / seconds[1]}


def test_a_few_items_are_no_measurement():
    simulated = SimulatedWork({1: 1.0, 2: 1.0})
    for _ in range(3):
        simulated.run(3)
    assert [layout.workers for layout in simulated.layouts] == [2, 2, 2]
    assert simulated.pool.throughputs == {}
    simulated.run(1)
    assert simulated.layouts[-1] == ThreadLayout(1, 1)
    simulated.run(4)  # two for each worker are representative
    assert list(simulated.pool.throughputs) == [ThreadLayout(2, 1)]
    simulated.run(3)  # the other layout needs a representative measurement
    assert [layout.workers for layout in simulated.layouts[-2:]] == [2, 2]


def test_every_worker_has_one_thread_where_threads_change_the_last_bit():
    simulated = SimulatedWork({1: 1.0, 2: 9.0})
    simulated.exact = False
    for _ in range(3):
        simulated.run(6)
    assert simulated.layouts == [ThreadLayout(2, 1)] * 3
    assert WorkerPool(0, cores=64).choose_layout(99) == ThreadLayout(16, 1)


def test_on_one_core_there_is_one_layout():
    simulated = SimulatedWork({1: 1.0}, cores=1, weights=LARGE_MODEL)
    assert simulated.run(9) == [7 * item for item in range(9)]
    assert simulated.layouts == [ThreadLayout(1, 1)]


@pytest.mark.parametrize(("items", "threads", "workers"), [(8, {1}, 2), (1, {1}, 1)])
def test_every_worker_has_its_threads_and_torch_has_its_own_afterwards(items: int, threads: set[int], workers: int):
    torch.set_num_threads(2)
    barrier = threading.Barrier(workers, timeout=10)
    thread_counts = set()

    def work(item: int) -> str:
        barrier.wait()  # this number of workers runs at the same time
        thread_counts.add(torch.get_num_threads())
        return threading.current_thread().name

    pool = WorkerPool(0)
    thread_names = set(pool.run(pool.choose_layout(items), work, range(items), lambda name: 1))
    assert thread_counts == threads
    assert len(thread_names) == workers
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_of_an_item_is_an_error_of_the_pool(cores: int):
    torch.set_num_threads(2)

    def fail(item: int) -> int:
        raise ValueError(item)

    with pytest.raises(ValueError, match="0"):
        list(WorkerPool(0).run(ThreadLayout(cores, 1), fail, range(50), lambda result: 1))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_after_an_error_only_running_items_are_completed(workers: int):
    started = []

    def work(item: int) -> int:
        started.append(item)
        if item == 0:
            raise ValueError("stop")
        time.sleep(0.01)
        return item

    with pytest.raises(ValueError, match="stop"):
        list(WorkerPool(0).run(ThreadLayout(workers, 1), work, range(50), lambda result: 1))
    assert len(started) < 25
