"""The line before the models: one at a time, a few wait, the rest come back later, and nobody disturbs another."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx2
import numpy as np
import pytest
from text_models import SOURCE, text_model
from tiny_workspace import BEARER, KEYS, Client, make_app, run_async, workspace

from seq2see.core.cancellation import check_cancelled
from seq2see.decoding.settings import Decoding
from seq2see.explorer import job_queue, routes, server
from seq2see.explorer.job_queue import JobQueue, QueueFull
from seq2see.explorer.routes import Route
from seq2see.explorer.schemas import RunRequest
from seq2see.runs.model import open_model
from seq2see.runs.model_folder import StoredModel


def test_work_is_done_in_turn_and_one_at_a_time():
    queue, busy, done = JobQueue("test"), threading.Lock(), []

    def work(number):
        assert busy.acquire(blocking=False), "two at once"
        done.append(number)
        busy.release()
        return number * number

    async def ask():
        return await asyncio.gather(*(queue.submit(lambda number=number: work(number)) for number in range(10)))

    assert run_async(ask()) == [number * number for number in range(10)]
    assert done == list(range(10))


@pytest.mark.parametrize("wrong", [ValueError("no"), SystemExit(3), StopIteration(), KeyboardInterrupt()])
def test_what_goes_wrong_in_one_is_told_to_that_one_alone(wrong):
    queue = JobQueue("test")

    def broken():
        raise wrong

    async def ask():
        return await asyncio.gather(queue.submit(broken), queue.submit(lambda: "well"), return_exceptions=True)

    failed, well = run_async(ask())
    assert isinstance(failed, ValueError | RuntimeError)
    assert well == "well"


def test_whoever_leaves_the_line_is_passed_over():
    queue, gate, done = JobQueue("test"), threading.Event(), []

    async def ask():
        first = asyncio.create_task(queue.submit(gate.wait))
        await asyncio.sleep(0.02)
        second = asyncio.create_task(queue.submit(lambda: done.append("second")))
        third = asyncio.create_task(queue.submit(lambda: done.append("third")))
        await asyncio.sleep(0.02)
        second.cancel()
        await asyncio.sleep(0.02)
        gate.set()
        await asyncio.gather(first, third)

    run_async(ask())
    assert done == ["third"]


def test_whoever_leaves_while_answered_gives_the_place_to_the_next():
    queue, begun, ended = JobQueue("test"), threading.Event(), []

    def endless():
        begun.set()
        try:
            while True:
                check_cancelled()
        finally:
            ended.append("endless")

    async def ask():
        first = asyncio.create_task(queue.submit(endless))
        await asyncio.to_thread(begun.wait, 10)
        second = asyncio.create_task(queue.submit(lambda: list(ended)))
        await asyncio.sleep(0.02)
        assert not ended
        first.cancel()
        return await asyncio.wait_for(second, 10)

    assert run_async(ask()) == ["endless"]


def test_what_takes_too_long_is_given_up_and_told(monkeypatch):
    monkeypatch.setattr(job_queue, "JOB_TIMEOUT", 0.1)

    def endless(workspace, asked: RunRequest) -> dict:
        while True:
            check_cancelled()

    monkeypatch.setitem(routes.ROUTES, "endless", Route(RunRequest, endless))
    client = Client(make_app(workspace()))
    answer = client.ask("endless", run="r1")
    assert answer.status_code == 422
    assert "given up" in answer.json()["message"]
    assert answer.json()["hint"]
    monkeypatch.undo()
    assert client.ask("predict", run="r1", texts=[SOURCE]).status_code == 200


def test_a_client_that_goes_while_a_model_writes_holds_nobody_up(monkeypatch):
    """A search of hundreds of turns, left after its first: the next question is answered, and nothing half is kept."""
    on, other = workspace(), text_model("transformer")
    config = other.config.model_copy(update={"decoding": Decoding(max_new_tokens=400, min_new_tokens=400)})
    model = open_model(StoredModel(config, other.module, other.tokenizers))
    on.run("r1").model = model
    turns, step = [], model.module.step

    def slow(tokens, state):
        turns.append(1)
        time.sleep(0.05)
        return step(tokens, state)

    monkeypatch.setattr(model.module, "step", slow)
    with server.serve_in_thread(on) as keys:
        url, headers = f"http://127.0.0.1:{keys.port}/api/", {"Authorization": f"Bearer {keys.token}"}
        with pytest.raises(httpx2.TimeoutException):
            httpx2.post(f"{url}attention/lens", json={"run": "r1", "text": SOURCE}, headers=headers, timeout=0.5)
        asked = {"run": "r2", "texts": [SOURCE]}
        assert httpx2.post(f"{url}predict", json=asked, headers=headers, timeout=5).status_code == 200
        assert len(turns) < 60
        assert not on._kept


def test_a_full_line_turns_away_at_once_and_says_when_to_come_back():
    queue, gate = JobQueue("test", max_waiting=2), threading.Event()

    async def ask():
        first = asyncio.create_task(queue.submit(gate.wait))
        await asyncio.sleep(0.02)
        waiting = [asyncio.create_task(queue.submit(lambda: None)) for _ in range(2)]
        await asyncio.sleep(0.02)
        with pytest.raises(QueueFull) as refused:
            await queue.submit(lambda: None)
        gate.set()
        await asyncio.gather(first, *job_queue)
        assert await queue.submit(lambda: "there is room again") == "there is room again"
        return refused.value.seconds

    assert run_async(ask()) >= 1


class Served:
    """A server with a route that takes as long as the test wants."""

    def __init__(self, monkeypatch):
        self.gate, self.begun = threading.Event(), []

        def slow(workspace, asked: RunRequest) -> dict:
            self.begun.append(asked.run)
            assert self.gate.wait(20)
            return {"run": asked.run}

        monkeypatch.setitem(routes.ROUTES, "slow", Route(RunRequest, slow))


def test_the_server_turns_away_those_that_are_too_many_and_passes_over_those_that_left(monkeypatch):
    served = Served(monkeypatch)

    async def ask():
        transport = httpx2.ASGITransport(make_app(workspace()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7777", headers=BEARER) as client:
            asked = []
            for number in range(20):
                asked.append(asyncio.create_task(client.post("/api/slow", json={"run": f"r{number + 1}"})))
                while not served.begun:  # the first is being answered before the others ask
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            asked[5].cancel()  # its page was closed
            await asyncio.sleep(0.05)
            served.gate.set()
            return await asyncio.gather(*asked, return_exceptions=True)

    answers = run_async(ask())
    statuses = [getattr(each, "status_code", 0) for each in answers]
    assert statuses.count(429) == 3  # one is being answered, sixteen wait
    assert all(int(each.headers["retry-after"]) >= 1 for each in answers if getattr(each, "status_code", 0) == 429)
    assert statuses.count(200) == 16
    assert "r6" not in served.begun
    assert len(served.begun) == 16


def test_a_real_connection_that_is_closed_leaves_the_line(monkeypatch):
    served = Served(monkeypatch)
    with server.serve_in_thread(workspace()) as keys:
        url, headers = f"http://127.0.0.1:{keys.port}/api/slow", {"Authorization": f"Bearer {keys.token}"}
        first = threading.Thread(target=lambda: httpx2.post(url, json={"run": "r1"}, headers=headers, timeout=20))
        first.start()
        _until(lambda: served.begun)
        with pytest.raises(httpx2.TimeoutException):
            httpx2.post(url, json={"run": "r2"}, headers=headers, timeout=0.3)
        # What only reads files is answered meanwhile.
        answer = httpx2.get(url.replace("slow", "runs"), headers=headers, timeout=5)
        assert (answer.status_code, "server" in answer.headers) == (200, False)
        served.gate.set()
        assert httpx2.post(url, json={"run": "r3"}, headers=headers, timeout=5).json() == {"run": "r3"}
        first.join()
    assert served.begun == ["r1", "r3"]


def _until(holds, seconds=10.0):
    waiting = threading.Event()
    for _ in range(int(seconds * 100)):
        if holds():
            return
        job_queue.wait(0.01)
    raise AssertionError("it never came to that")


def test_two_questions_at_once_do_not_mix():
    """Each gets what it would get alone, also where a model is watched while it answers."""
    texts = [SOURCE, "他们的大书", "你说的是中国人 abc"]
    models = {"r1": text_model("transformer"), "r2": text_model("rnn")}
    alone = {
        (run, text): model.trace(text, "ab").of("attention")[-1].values[0]
        for run, model in models.items()
        for text in texts
    }
    last = {run: len(model.trace(SOURCE, "ab").of("attention")) - 1 for run, model in models.items()}

    async def ask():
        transport = httpx2.ASGITransport(make_app(workspace()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7777", headers=BEARER) as client:
            asked = [
                client.post("/api/attention/head", json={"run": run, "text": text, "target": "ab", "layer": last[run]})
                for run, text in alone
            ]
            return await asyncio.gather(*asked)

    for answer, expected in zip(run_async(ask()), alone.values(), strict=True):
        shape = tuple(map(int, answer.headers["x-shape"].split(",")))
        np.testing.assert_array_equal(np.frombuffer(answer.content, "<f4").reshape(shape), expected)


def test_the_server_lives_on_after_a_bad_question(capsys, monkeypatch):
    def broken(workspace, asked: RunRequest) -> dict:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setitem(routes.ROUTES, "broken", Route(RunRequest, broken))
    client = Client(make_app(workspace()))
    assert client.ask("broken", run="r1").status_code == 500
    assert client.ask("predict", run="r1", texts=[SOURCE]).status_code == 200
    assert "a mistake of ours" in capsys.readouterr().err
    assert KEYS.token not in client.ask("broken", run="r1").text
