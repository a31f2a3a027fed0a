"""What is asked and answered: the list of runs, the page, curves, predictions, and that nothing else gets in or out."""

from __future__ import annotations

import base64
import json
import socket
import sys
from copy import copy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from text_models import SOURCE, text_model
from tiny_workspace import (
    HOST_HEADER,
    SCRIPT,
    Client,
    image,
    image_classifier,
    make_app,
    required_fields,
    series_model,
    unfinished_run,
    workspace,
)

from seq2see.core.errors import UserError
from seq2see.explorer import server
from seq2see.explorer import workspace as workspace_module
from seq2see.explorer.describe import capabilities_of
from seq2see.explorer.endpoints import error_response
from seq2see.explorer.routes import ROUTES
from seq2see.explorer.workspace import MAX_CACHE_BYTES, MAX_CACHED, Workspace
from seq2see.sources.image_decoding import decode_image


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    return Client(make_app(workspace(tmp_path_factory.mktemp("runs"))))


class TestRuns:
    def test_each_is_listed_with_what_it_is(self, client):
        runs = client.send("GET", "/api/runs").json()["runs"]
        assert [run["id"] for run in runs] == [f"r{number}" for number in range(1, 13)]
        families = ["transformer", "recurrent", "gpt", "bert", "vit", "transformer", "transformer", "vit", "caption"]
        families += ["recurrent", "video", "recurrent"]
        tasks = ["translate", "translate", "write", "fill", "classify", "translate", "translate", "classify", "caption"]
        tasks += ["forecast", "caption", "forecast"]
        assert [run["family"] for run in runs] == families
        assert [run["task"] for run in runs] == tasks
        assert [run["id"] for run in runs if not run["ready"]] == ["r6"]
        assert runs[5]["languages"] == ["zh", "en"]

    def test_no_answer_tells_where_anything_lies(self, client):
        told = client.send("GET", "/api/runs").text + client.post("runs/metrics", run="r6").text
        told += client.post("predict", run="r6", texts=["x"]).text
        assert "half-done" in told
        assert str(Path.cwd()) not in told
        assert "/tmp" not in told

    def test_a_run_that_was_not_opened_is_not_found(self, client):
        for route in ("predict", "runs/metrics"):
            answer = client.post(route, run="r99")
            assert answer.status_code == 404
            assert set(answer.json()) == {"message", "location", "hint"}

    def test_runs_of_one_name_are_told_apart(self, tmp_path):
        for place in ("a", "b"):
            unfinished_run(tmp_path / place / "mine")
        opened = Workspace.open([str(tmp_path / "a" / "mine"), str(tmp_path / "b" / "mine")])
        assert [run.name for run in opened.runs.values()] == ["mine", "mine (2)"]


class TestPredict:
    @pytest.mark.parametrize(("id", "name"), [("r1", "transformer"), ("r2", "rnn"), ("r3", "gpt"), ("r4", "bert")])
    def test_the_model_gives_the_same_answers(self, client, id, name):
        texts = [SOURCE, "他们 abc"] if name != "bert" else ["我有[MASK]本书", "[MASK]国"]
        told = client.post("predict", run=id, texts=texts).json()["predictions"]
        found = text_model(name).predict(texts)
        assert [each["candidates"][0]["text"] for each in told] == [each.text for each in found]
        assert [each["candidates"][0]["score"] for each in told] == pytest.approx([each.score for each in found])
        assert [len(each["one_step_predictions"]) for each in told] == [len(each.candidates) for each in found]

    def test_settings_reach_the_decoder(self, client):
        answer = client.post("predict", run="r1", texts=[SOURCE], num_beams=3, num_return_sequences=3, max_new_tokens=4)
        found = text_model("transformer").predict([SOURCE], num_beams=3, num_return_sequences=3, max_new_tokens=4)[0]
        told = answer.json()["predictions"][0]["candidates"]
        assert [each["text"] for each in told] == [each.text for each in found.outputs]

    def test_images_are_files_in_base64(self, client):
        told = client.post("predict", run="r5", images=[image(20)], top_k=0).json()["predictions"][0]
        pixels = decode_image(base64.b64decode(image(20)), "", 8, 3)
        found = image_classifier().predict([pixels], top_k=0)[0]
        assert [each["text"] for each in told["one_step_predictions"][0]] == [each.text for each in found.candidates[0]]
        assert {each["text"] for each in told["one_step_predictions"][0]} == {SCRIPT, "红"}
        assert told["one_step_predictions"][0][0]["probability"] == pytest.approx(found.candidates[0][0].probability)

    @pytest.mark.parametrize(
        ("id", "body", "message"),
        [
            ("r5", {"images": ["no base64!"]}, "base64"),
            ("r5", {"images": [base64.b64encode(b"<svg/>").decode()]}, "not an image"),
            ("r1", {"images": ["AAAA"]}, "does not look at images"),
            ("r1", {"texts": ["我"], "images": ["AAAA"]}, "Texts and images"),
            ("r1", {}, "nothing to answer"),
            ("r1", {"texts": [" "]}, "empty"),
            ("r1", {"texts": ["我"], "num_beams": 2, "do_sample": True}, "do_sample"),
            ("r4", {"texts": ["我"], "num_beams": 2}, "num_beams"),
        ],
    )
    def test_what_cannot_be_answered_is_told(self, client, id, body, what):
        answer = client.post("predict", run=id, **body)
        assert answer.status_code == 422
        assert what in answer.json()["message"]


class TestNumbers:
    def test_a_series_is_gone_on_from(self, client):
        told = client.post("predict", run="r10", texts=["0.1 0.2 0.3"], max_new_tokens=4).json()["predictions"][0]
        assert told["candidates"][0]["text"] == series_model()("0.1 0.2 0.3", max_new_tokens=4).text

    @pytest.mark.parametrize("route", sorted(ROUTES))
    def test_no_question_about_words_is_a_mistake_of_ours(self, client, route):
        texts = {"text": "0.1 0.2"} if "text" in ROUTES[route].request_model.model_fields else {}
        assert client.post(route, run="r10", **(required_fields(route) | texts)).status_code < 500


class TestNothingGetsInOrOut:
    def test_a_text_never_names_a_file(self, client, tmp_path):
        """In Python a text given to a model of images is a file's name. Over HTTP no route may open one."""
        secret = tmp_path / "secret.png"
        secret.write_bytes(base64.b64decode(image()))
        seen: list[str] = []
        sys.addaudithook(lambda event, arguments: seen.append(str(arguments[0])) if event == "open" else None)
        for name, route in ROUTES.items():
            texts = [key for key, field in route.request_model.model_fields.items() if field.annotation is str]
            body = dict.fromkeys(texts, str(secret)) | {"run": "r5"}
            assert client.post(name, **body).status_code < 500
        assert client.post("predict", run="r5", texts=[str(secret)]).status_code == 422
        assert str(secret) not in seen

    def test_markup_comes_back_as_text(self, client):
        for answer in (
            client.send("GET", "/api/runs"),
            client.post("predict", run="r3", texts=[SCRIPT]),
            client.post("predict", run="r5", images=[image()]),
            client.post("runs/samples", run="r6", step=10),
        ):
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
            assert SCRIPT in str(answer.json())

    @pytest.mark.parametrize(
        "path",
        [
            "/page/../server.py", "/page/%2e%2e/server.py", "/page/..%2fserver.py", "/page/..;/server.py",
            "/page//etc/passwd", "/page/%2fetc%2fpasswd", "/page/..\\server.py", "/page/main.js%00", "/page/",
            "/page/views", "/page/__init__.py", "/page/\u2215etc\u2215passwd",
        ],
    )  # fmt: skip
    def test_only_files_of_the_page_are_given(self, client, path):
        assert client.send("GET", path).status_code == 404

    def test_the_page_is_given_to_everybody_with_the_right_type(self, client):
        for name, kind in (("", "text/html"), ("page/main.js", "text/javascript"), ("page/style.css", "text/css")):
            answer = client.send("GET", f"/{name}", HOST_HEADER)
            assert (answer.status_code, answer.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
            assert answer.content == (server.PAGE / (name.removeprefix("page/") or "index.html")).read_bytes()

    def test_pages_that_would_load_from_elsewhere_are_not_there(self, client):
        for path in ("/docs", "/redoc", "/openapi.json", "/api/docs", "/docs/oauth2-redirect"):
            assert client.send("GET", path).status_code == 404


def test_numbers_travel_as_they_are(client):
    answer = client.post("attention/head", run="r1", text=SOURCE, layer=0)
    shape = tuple(map(int, answer.headers["x-shape"].split(",")))
    values = np.frombuffer(answer.content, "<f4").reshape(shape)
    assert answer.headers["content-type"] == "application/octet-stream"
    np.testing.assert_array_equal(values, text_model("transformer").trace(SOURCE).of("attention")[0].values[0])


class TestKept:
    def test_what_was_worked_out_is_not_worked_out_again(self):
        on, made = workspace(), []
        for _ in range(3):
            assert on.cached("key", lambda: made.append(1) or "thing") == "thing"
        assert made == [1]

    def test_only_the_last_few_are_kept(self):
        on, made = workspace(), []
        for number in [*range(MAX_CACHED), 0, MAX_CACHED, 0, 1]:
            on.cached(number, lambda number=number: made.append(number))
        assert made == [*range(MAX_CACHED), MAX_CACHED, 1]  # 1 had been asked for longest ago

    def test_so_it_is_with_lists_of_arrays(self, monkeypatch):
        monkeypatch.setattr(workspace_module, "MAX_CACHE_BYTES", 1_000)
        on, made = workspace(), []
        for key in ("a", "b", "b", "a"):
            on.cached(key, lambda key=key: made.append(key) or [np.zeros(100, np.float32), np.zeros(100, np.float32)])
        assert made == ["a", "b", "a"]

    def test_large_things_are_not_kept_all(self):
        on, made = workspace(), []
        for key in ("a", "b", "b", "a"):
            on.cached(key, lambda key=key: made.append(key) or SimpleNamespace(bytes=MAX_CACHE_BYTES - 1))
        assert made == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("The file /srv/x/y.json is bad.", "The file … is bad."),
        ("See `C:\\Users\\me` or ~/a.", "See `…` or …"),
        ("Line 3 of /srv/my runs/a/metrics.jsonl", "Line 3 of mine/metrics.jsonl"),
        ("他/她 and/or 1/2 </b> runs/a/b yes /no", "他/她 and/or 1/2 </b> runs/a/b yes /no"),
    ],
)
def test_a_mistake_leaves_out_places_of_this_machine(told, shown):
    answer = error_response(422, UserError(told, location=told, hint=told), {"/srv/my runs/a": "mine"})
    assert json.loads(answer.body) == dict.fromkeys(("message", "location", "hint"), shown)


def test_folders_of_runs_are_told_by_their_names(tmp_path):
    on = workspace(tmp_path)
    assert on.places[str(tmp_path / "half-done")] == "half-done"
    on.run("r7").folder.evaluation.joinpath("test.tsv").write_bytes(b"\xff")
    answer = Client(make_app(on)).post("mistakes/rows", run="r7", split="test")
    assert answer.status_code == 422
    assert str(tmp_path) not in answer.text


class TestAbilities:
    def test_of_a_run_that_is_being_trained_only_its_curves_are_offered(self, client):
        runs = {run["id"]: run["capabilities"] for run in client.send("GET", "/api/runs").json()["runs"]}
        assert runs["r6"] == ["curves"]
        assert runs["r1"] == ["text", "vectors", "attention", "decode"]
        assert runs["r2"] == ["text", "vectors", "attention", "recurrent", "decode"]
        assert runs["r5"] == ["images", "attention"]
        assert runs["r7"] == ["curves", "text", "vectors", "attention", "decode", "evaluation"]

    def test_an_ensemble_has_no_one_attention(self):
        on = workspace()
        model = copy(text_model("transformer"))
        model.config = model.config.model_copy(update={"members": (model.config.model,)})
        on.run("r1").model = model
        assert capabilities_of(on.run("r1")) == ["text", "decode"]  # nor one table of vectors


def test_no_answer_waits_for_more_to_send():
    """asyncio switches Nagle's waiting off only where a socket is said to be TCP's; else every answer takes 40 ms."""
    with server.bind_socket(None) as found:
        assert found.proto == socket.IPPROTO_TCP
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)  # started again, it gets the same port
