"""Questions drawn at random from the server's own description, and rubbish: none is answered with a mistake of ours."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from random_requests import random_request
from tiny_workspace import KEYS, Client, make_app, workspace

from seq2see.explorer.routes import ROUTES

TYPES = ("application/json", "application/octet-stream", "text/html", "text/javascript", "text/css")


@cache
def client() -> Client:
    return Client(make_app(workspace(Path(tempfile.mkdtemp()))))


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 40), pytest.param(2, 2_000, marks=[pytest.mark.long, pytest.mark.timeout(400)])]
)
def test_no_question_is_answered_with_a_mistake_of_ours(seed, count):
    lots = random.Random(seed)
    requests = [random_request(lots) for _ in range(count)]
    answers = client().all(requests)
    for asked, answer in zip(requests, answers, strict=True):
        assert answer.status_code < 500, (asked, answer.text)
        assert answer.headers["x-content-type-options"] == "nosniff", asked
        assert answer.headers["content-type"].split(";")[0] in TYPES, asked
        if answer.status_code >= 400 and asked["method"] != "HEAD":
            assert {"message", "location", "hint"} <= set(answer.json()), asked
        assert KEYS.token not in answer.text
    if count < 1_000:
        return
    # The draw is only good for something if questions to every route get past the door, and are answered.
    well = Counter(asked["url"] for asked, answer in zip(requests, answers, strict=True) if answer.status_code == 200)
    assert [name for name in ROUTES if not well[f"/api/{name}"]] == []
    assert {200, 400, 403, 404, 405, 415, 421, 422, 431} <= {answer.status_code for answer in answers}
