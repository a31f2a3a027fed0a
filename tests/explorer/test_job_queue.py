"""The job queue: one job at a time, a limited number of waiting jobs, and no interference between jobs."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx2
import numpy as np
import pytest
from text_models import SOURCE, text_model
from tiny_workspace import BEARER, CREDENTIALS, Client, make_app, run_async, workspace

from seq2see.decoding.engine import Decoding, check_cancelled
from seq2see.explorer import job_queue, routes, server
from seq2see.explorer.job_queue import JobQueue, QueueFull
from seq2see.explorer.routes import Route
from seq2see.explorer.schemas import RunRequest
from seq2see.runs.load import open_model
from seq2see.tasks.model_folder import StoredModel


def test_jobs_run_in_order_and_one_at_a_time():
    queue, busy, done = JobQueue("test"), threading.Lock(), []

    def work(number):
        assert busy.acquire(blocking=False), "two at once"
        done.append(number)
        busy.release()
        return number * number

    async def submit_all():
        return await asyncio.gather(*(queue.submit(lambda number=number: work(number)) for number in range(10)))

    assert run_async(submit_all()) == [number * number for number in range(10)]
    assert done == list(range(10))


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), StopIteration(), KeyboardInterrupt()])
def test_an_exception_is_raised_in_its_own_job_only(error):
    queue = JobQueue("test")

    def broken():
        raise error

    async def submit_all():
        return await asyncio.gather(queue.submit(broken), queue.submit(lambda: "result"), return_exceptions=True)

    failed, succeeded = run_async(submit_all())
    assert isinstance(failed, ValueError | RuntimeError)
    assert succeeded == "result"


def test_a_cancelled_waiting_job_does_not_run():
    queue, gate, done = JobQueue("test"), threading.Event(), []

    async def submit_all():
        first = asyncio.create_task(queue.submit(gate.wait))
        await asyncio.sleep(0.02)
        second = asyncio.create_task(queue.submit(lambda: done.append("second")))
        third = asyncio.create_task(queue.submit(lambda: done.append("third")))
        await asyncio.sleep(0.02)
        second.cancel()
        await asyncio.sleep(0.02)
        gate.set()
        await asyncio.gather(first, third)

    run_async(submit_all())
    assert done == ["third"]


def test_a_cancelled_running_job_ends_at_its_next_check():
    queue, started, ended = JobQueue("test"), threading.Event(), []

    def endless():
        started.set()
        try:
            while True:
                check_cancelled()
        finally:
            ended.append("endless")

    async def submit_all():
        first = asyncio.create_task(queue.submit(endless))
        await asyncio.to_thread(started.wait, 10)
        second = asyncio.create_task(queue.submit(lambda: list(ended)))
        await asyncio.sleep(0.02)
        assert not ended
        first.cancel()
        return await asyncio.wait_for(second, 10)

    assert run_async(submit_all()) == ["endless"]


def test_a_job_above_the_time_limit_is_cancelled_with_an_error(monkeypatch):
    monkeypatch.setattr(job_queue, "JOB_TIMEOUT", 0.1)

    def endless(workspace, request: RunRequest) -> dict:
        while True:
            check_cancelled()

    monkeypatch.setitem(routes.ROUTES, "endless", Route(RunRequest, endless))
    client = Client(make_app(workspace()))
    response = client.post("endless", run="r1")
    assert response.status_code == 422
    assert "cancelled" in response.json()["message"]
    assert response.json()["hint"]
    monkeypatch.undo()
    assert client.post("predict", run="r1", texts=[SOURCE]).status_code == 200


def test_a_disconnect_during_a_generation_frees_the_queue(monkeypatch):
    """A search of hundreds of steps is cancelled: the next request gets a response, and nothing partial is cached."""
    opened, base = workspace(), text_model("transformer")
    config = base.config.model_copy(update={"decoding": Decoding(max_new_tokens=400, min_new_tokens=400)})
    model = open_model(StoredModel(config, base.module, base.tokenizers))
    opened.run("r1").model = model
    steps, step = [], model.module.step

    def slow(tokens, state):
        steps.append(1)
        time.sleep(0.05)
        return step(tokens, state)

    monkeypatch.setattr(model.module, "step", slow)
    with server.serve_in_thread(opened) as credentials:
        url, headers = f"http://127.0.0.1:{credentials.port}/api/", {"Authorization": f"Bearer {credentials.token}"}
        with pytest.raises(httpx2.TimeoutException):
            httpx2.post(f"{url}attention/layers", json={"run": "r1", "text": SOURCE}, headers=headers, timeout=0.5)
        body = {"run": "r2", "texts": [SOURCE]}
        assert httpx2.post(f"{url}predict", json=body, headers=headers, timeout=5).status_code == 200
        assert len(steps) < 60
        assert not opened._cache


def test_a_full_queue_rejects_a_job_at_once_with_a_retry_time():
    queue, gate = JobQueue("test", max_waiting=2), threading.Event()

    async def submit_all():
        first = asyncio.create_task(queue.submit(gate.wait))
        await asyncio.sleep(0.02)
        waiting = [asyncio.create_task(queue.submit(lambda: None)) for _ in range(2)]
        await asyncio.sleep(0.02)
        with pytest.raises(QueueFull) as rejected:
            await queue.submit(lambda: None)
        gate.set()
        await asyncio.gather(first, *waiting)
        assert await queue.submit(lambda: "accepted") == "accepted"
        return rejected.value.retry_after

    assert run_async(submit_all()) >= 1


class SlowRoute:
    """A route that responds when its gate is opened."""

    def __init__(self, monkeypatch):
        self.gate, self.started = threading.Event(), []

        def slow(workspace, request: RunRequest) -> dict:
            self.started.append(request.run)
            assert self.gate.wait(20)
            return {"run": request.run}

        monkeypatch.setitem(routes.ROUTES, "slow", Route(RunRequest, slow))


def test_the_server_rejects_requests_above_the_maximum_and_skips_cancelled_ones(monkeypatch):
    slow = SlowRoute(monkeypatch)

    async def submit_all():
        transport = httpx2.ASGITransport(make_app(workspace()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7777", headers=BEARER) as client:
            requests = []
            for number in range(20):
                requests.append(asyncio.create_task(client.post("/api/slow", json={"run": f"r{number + 1}"})))
                while not slow.started:  # the first one runs before the others are sent
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            requests[5].cancel()  # a disconnect
            await asyncio.sleep(0.05)
            slow.gate.set()
            return await asyncio.gather(*requests, return_exceptions=True)

    responses = run_async(submit_all())
    statuses = [getattr(each, "status_code", 0) for each in responses]
    assert statuses.count(429) == 3  # one is running, sixteen wait
    assert all(int(each.headers["retry-after"]) >= 1 for each in responses if getattr(each, "status_code", 0) == 429)
    assert statuses.count(200) == 16
    assert "r6" not in slow.started
    assert len(slow.started) == 16


def test_a_closed_connection_removes_its_job_from_the_queue(monkeypatch):
    slow = SlowRoute(monkeypatch)
    with server.serve_in_thread(workspace()) as credentials:
        url, headers = f"http://127.0.0.1:{credentials.port}/api/slow", {"Authorization": f"Bearer {credentials.token}"}
        first = threading.Thread(target=lambda: httpx2.post(url, json={"run": "r1"}, headers=headers, timeout=20))
        first.start()
        _until(lambda: slow.started)
        with pytest.raises(httpx2.TimeoutException):
            httpx2.post(url, json={"run": "r2"}, headers=headers, timeout=0.3)
        # Routes that only read files respond in the meantime.
        response = httpx2.get(url.replace("slow", "runs"), headers=headers, timeout=5)
        assert (response.status_code, "server" in response.headers) == (200, False)
        slow.gate.set()
        assert httpx2.post(url, json={"run": "r3"}, headers=headers, timeout=5).json() == {"run": "r3"}
        first.join()
    assert slow.started == ["r1", "r3"]


def _until(condition, seconds=10.0):
    never = threading.Event()
    for _ in range(int(seconds * 100)):
        if condition():
            return
        never.wait(0.01)
    raise AssertionError("the condition did not become true")


def test_concurrent_requests_do_not_mix():
    """Each response is equal to that of the request alone, also for traces."""
    texts = [SOURCE, "他们的大书", "你说的是中国人 abc"]
    models = {"r1": text_model("transformer"), "r2": text_model("rnn")}
    expected_arrays = {
        (run, text): model.trace(text, "ab").of("attention")[-1].values[0]
        for run, model in models.items()
        for text in texts
    }
    last = {run: len(model.trace(SOURCE, "ab").of("attention")) - 1 for run, model in models.items()}

    async def submit_all():
        transport = httpx2.ASGITransport(make_app(workspace()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7777", headers=BEARER) as client:
            requests = [
                client.post("/api/attention/head", json={"run": run, "text": text, "target": "ab", "layer": last[run]})
                for run, text in expected_arrays
            ]
            return await asyncio.gather(*requests)

    for response, expected in zip(run_async(submit_all()), expected_arrays.values(), strict=True):
        shape = tuple(map(int, response.headers["x-shape"].split(",")))
        np.testing.assert_array_equal(np.frombuffer(response.content, "<f4").reshape(shape), expected)


def test_the_server_continues_after_an_internal_error(capsys, monkeypatch):
    def broken(workspace, request: RunRequest) -> dict:
        raise RuntimeError("an internal error")

    monkeypatch.setitem(routes.ROUTES, "broken", Route(RunRequest, broken))
    client = Client(make_app(workspace()))
    assert client.post("broken", run="r1").status_code == 500
    assert client.post("predict", run="r1", texts=[SOURCE]).status_code == 200
    assert "an internal error" in capsys.readouterr().err
    assert CREDENTIALS.token not in client.post("broken", run="r1").text
