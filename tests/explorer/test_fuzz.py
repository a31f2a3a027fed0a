"""Random requests from the OpenAPI schema, and malformed ones: no response is an internal error."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from random_requests import random_request
from tiny_workspace import CREDENTIALS, Client, make_app, workspace

from seq2see.explorer.routes import ROUTES

TYPES = ("application/json", "application/octet-stream", "text/html", "text/javascript", "text/css")


@cache
def client() -> Client:
    return Client(make_app(workspace(Path(tempfile.mkdtemp()))))


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 40), pytest.param(2, 3_000, marks=[pytest.mark.long, pytest.mark.timeout(400)])]
)
def test_no_response_is_an_internal_error(seed, count):
    rng = random.Random(seed)
    requests = [random_request(rng) for _ in range(count)]
    responses = client().all(requests)
    for request, response in zip(requests, responses, strict=True):
        assert response.status_code < 500, (request, response.text)
        assert response.headers["x-content-type-options"] == "nosniff", request
        assert response.headers["content-type"].split(";")[0] in TYPES, request
        if response.status_code >= 400 and request["method"] != "HEAD":
            assert {"message", "location", "hint"} <= set(response.json()), request
        assert CREDENTIALS.token not in response.text
    if count < 1_000:
        return
    # The test is only useful if some requests to every route are valid.
    successes = Counter(
        request["url"] for request, response in zip(requests, responses, strict=True) if response.status_code == 200
    )
    # No run of this workspace has an adapter; test_adapter_view.py has one.
    assert [name for name in ROUTES if not successes[f"/api/{name}"]] == [name for name in ROUTES if "adapter/" in name]
    assert {200, 400, 403, 404, 405, 415, 421, 422, 431} <= {response.status_code for response in responses}
