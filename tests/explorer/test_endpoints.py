"""Responses, the job queue of the models, and the format of errors."""

from __future__ import annotations

import asyncio
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_workspace import BEARER, CREDENTIALS, HOST_HEADER, Client, make_app, required_fields, run_async, workspace

from seq2see.core.errors import UserError
from seq2see.explorer.job_queue import JobQueue
from seq2see.explorer.routes import ROUTES, Route, _cancel_on_disconnect, to_response
from seq2see.explorer.schemas import ArrayResponse, RunRequest
from seq2see.explorer.server import build_app

FILES = {"architecture/source", "mistakes/confusion", "mistakes/forecasts", "mistakes/rows", "mistakes/splits"}
FILES |= {"runs/metrics", "runs/samples"}
"""The routes that only read files, which work while a model is busy."""


def test_arrays_are_sent_in_row_major_order():
    response = to_response(ArrayResponse(np.arange(6.0).reshape(3, 2).T))
    assert response.headers["x-shape"] == "2,3"
    assert np.frombuffer(response.body, "<f4").tolist() == [0, 2, 4, 1, 3, 5]


def test_nan_and_infinity_become_null():
    response = to_response({"a": (math.nan, [1.5, -math.inf]), "b": {"c": math.inf}, "d": "nan"})
    assert json.loads(response.body) == {"a": [None, [1.5, None]], "b": {"c": None}, "d": "nan"}


@pytest.mark.parametrize(
    ("route", "body", "location"),
    [("runs/metrics", {"run": ["a secret"]}, "run"), ("predict", {"run": "r1", "texts": ["a", 5]}, "texts.1")],
)
def test_a_validation_error_has_a_location_and_does_not_repeat_the_value(route, body, location):
    response = Client(make_app(workspace())).post(route, **body)
    assert response.status_code == 422
    message = "The request is not valid: Input should be a valid string."
    assert response.json() == {"message": message, "location": location, "hint": "See openapi.json for the schema."}


def test_paths_of_runs_become_their_names(monkeypatch, tmp_path):
    def fail(workspace, request: RunRequest) -> dict:
        raise UserError("No.", location=str(tmp_path / "my runs" / "half-done" / "metrics.jsonl"))

    monkeypatch.setitem(ROUTES, "fail", Route(RunRequest, fail))
    response = Client(make_app(workspace(tmp_path / "my runs"))).post("fail", run="r6")
    assert response.json()["location"] == "half-done/metrics.jsonl"


@pytest.mark.parametrize("body", [{}, {"token": "x" * 201}, {"token": CREDENTIALS.token, "more": 1}])
def test_a_login_request_has_a_token_and_no_other_field(body):
    headers = {**HOST_HEADER, "Origin": f"http://{HOST_HEADER['Host']}"}
    response = Client(make_app(workspace())).send("POST", "/api/login", headers, json=body)
    assert (response.status_code, "set-cookie" in response.headers) == (422, False)


def test_a_rejected_request_has_the_usual_error_fields():
    response = Client(make_app(workspace())).send("GET", "/api/runs", HOST_HEADER)
    assert (response.status_code, response.headers["content-type"]) == (401, "application/json")
    assert response.json().keys() == {"message", "location", "hint"}
    assert int(response.headers["content-length"]) == len(response.content)


def test_routes_that_only_read_files_do_not_use_the_queue_of_the_models():
    """With a queue of size 0, every route that needs a model is rejected."""
    client = Client(build_app(workspace(), CREDENTIALS, JobQueue("models", max_waiting=0)))
    requests = [
        {"method": "POST", "url": f"/api/{name}", "json": {"run": "r1", **required_fields(name)}} for name in ROUTES
    ]
    responses = client.all([{**each, "headers": BEARER} for each in requests])
    valid = {name: each for name, each in zip(ROUTES, responses, strict=True) if "is not valid" not in each.text}
    assert {name for name, route in ROUTES.items() if not route.uses_model} == FILES
    assert {name for name, each in valid.items() if each.status_code != 429} == FILES & valid.keys()
    assert valid["tokenize"].headers["retry-after"] == "0"


@pytest.mark.parametrize(
    ("path", "megabytes"),
    [("/api/vit/upload", 20), ("/api/predict", 20), ("/api/tokenize", 1), ("/api/login", 1), ("/", 1)],
)
def test_requests_with_images_may_be_larger(path, megabytes):
    assert make_app(workspace()).max_body_bytes(path) == megabytes << 20


def test_the_wait_for_a_disconnect_ends_with_the_response():
    async def run() -> tuple[object, int]:
        request = SimpleNamespace(receive=asyncio.Event().wait)  # it never disconnects
        response = await _cancel_on_disconnect(request, asyncio.sleep(0, "response"))
        await asyncio.sleep(0)
        return response, len(asyncio.all_tasks())

    assert run_async(run()) == ("response", 1)
