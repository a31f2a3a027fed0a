"""How answers travel, who waits for the model, and how mistakes are told: the server's forms, one by one."""

from __future__ import annotations

import asyncio
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_workspace import BEARER, KEYS, OWN, Client, make_app, required_fields, run_async, workspace

from seq2see.core.errors import UserError
from seq2see.explorer.endpoints import _cancel_on_disconnect, to_response
from seq2see.explorer.job_queue import JobQueue
from seq2see.explorer.routes import ROUTES, Route
from seq2see.explorer.schemas import ArrayResponse, RunRequest
from seq2see.explorer.server import build_app

FILES = {"architecture/source", "mistakes/confusion", "mistakes/forecasts", "mistakes/rows", "mistakes/splits"}
FILES |= {"runs/metrics", "runs/samples"}
"""What is answered from files, also while a model is busy."""


def test_numbers_go_row_by_row_whatever_they_were_kept_as():
    answer = to_response(ArrayResponse(np.arange(6.0).reshape(3, 2).T))
    assert answer.headers["x-shape"] == "2,3"
    assert np.frombuffer(answer.body, "<f4").tolist() == [0, 2, 4, 1, 3, 5]


def test_what_is_no_number_is_null():
    answer = to_response({"a": (math.nan, [1.5, -math.inf]), "b": {"c": math.inf}, "d": "nan"})
    assert json.loads(answer.body) == {"a": [None, [1.5, None]], "b": {"c": None}, "d": "nan"}


@pytest.mark.parametrize(
    ("route", "body", "location"),
    [("runs/metrics", {"run": ["a secret"]}, "run"), ("predict", {"run": "r1", "texts": ["a", 5]}, "texts.1")],
)
def test_what_cannot_be_read_is_told_by_its_place_and_not_repeated(route, body, location):
    answer = Client(make_app(workspace())).ask(route, **body)
    assert answer.status_code == 422
    what = "This question cannot be read: Input should be a valid string."
    assert answer.json() == {"message": what, "location": location, "hint": "openapi.json tells how."}


def test_places_of_runs_are_told_by_their_names(monkeypatch, tmp_path):
    def complain(workspace, asked: RunRequest) -> dict:
        raise UserError("No.", location=str(tmp_path / "my runs" / "half-done" / "metrics.jsonl"))

    monkeypatch.setitem(ROUTES, "complain", Route(RunRequest, complain))
    answer = Client(make_app(workspace(tmp_path / "my runs"))).ask("complain", run="r6")
    assert answer.json()["location"] == "half-done/metrics.jsonl"


@pytest.mark.parametrize("body", [{}, {"token": "x" * 201}, {"token": KEYS.token, "more": 1}])
def test_who_enters_says_the_token_and_nothing_else(body):
    own = {**OWN, "Origin": f"http://{OWN['Host']}"}
    answer = Client(make_app(workspace())).send("POST", "/api/login", own, json=body)
    assert (answer.status_code, "set-cookie" in answer.headers) == (422, False)


def test_whoever_is_not_let_in_is_told_in_the_same_form():
    answer = Client(make_app(workspace())).send("GET", "/api/runs", OWN)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/json")
    assert answer.json().keys() == {"message", "location", "hint"}
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_what_only_reads_files_does_not_wait_for_the_model():
    """In a line in which nobody may wait, whoever needs a model is told to come back."""
    client = Client(build_app(workspace(), KEYS, JobQueue("models", max_body_bytes=0)))
    asked = [
        {"method": "POST", "url": f"/api/{name}", "json": {"run": "r1", **required_fields(name)}} for name in ROUTES
    ]
    answers = client.all([{**each, "headers": BEARER} for each in asked])
    read = {name: each for name, each in zip(ROUTES, answers, strict=True) if "cannot be read" not in each.text}
    assert {name for name, route in ROUTES.items() if not route.uses_model} == FILES
    assert {name for name, each in read.items() if each.status_code != 429} == FILES & read.keys()
    assert read["tokenize"].headers["retry-after"] == "0"


@pytest.mark.parametrize(
    ("path", "most"), [("/api/vit/upload", 20), ("/api/predict", 20), ("/api/tokenize", 1), ("/api/login", 1), ("/", 1)]
)
def test_a_question_with_a_image_may_be_longer(path, most):
    assert make_app(workspace()).max_body_bytes(path) == most << 20


def test_nobody_is_waited_for_once_an_answer_is_given():
    async def asked() -> tuple[object, int]:
        request = SimpleNamespace(receive=asyncio.Event().wait)  # it never goes away
        answer = await _cancel_on_disconnect(request, asyncio.sleep(0, "answer"))
        await asyncio.sleep(0)
        return answer, len(asyncio.all_tasks())

    assert run_async(asked()) == ("answer", 1)
