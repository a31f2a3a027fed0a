"""The responses of the server: runs, the page, curves and predictions; and nothing else is accessible."""

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
from seq2see.data.readers.image_files import decode_image
from seq2see.explorer import server
from seq2see.explorer import workspace as workspace_module
from seq2see.explorer.routes import ROUTES, capabilities_of, error_response
from seq2see.explorer.workspace import MAX_CACHE_BYTES, MAX_CACHED, Workspace


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    return Client(make_app(workspace(tmp_path_factory.mktemp("runs"))))


class TestRuns:
    def test_each_run_is_listed_with_its_family_and_task(self, client):
        runs = client.send("GET", "/api/runs").json()["runs"]
        assert [run["id"] for run in runs] == [f"r{number}" for number in range(1, 14)]
        families = ["transformer", "recurrent", "gpt", "bert", "vit", "transformer", "transformer", "vit", "caption"]
        families += ["recurrent", "video", "recurrent", "ctc"]
        tasks = ["translate", "translate", "write", "fill", "classify-image", "translate", "translate"]
        tasks += ["classify-image", "caption", "forecast", "caption-video", "forecast", "transcribe"]
        assert [run["family"] for run in runs] == families
        assert [run["task"] for run in runs] == tasks
        assert [run["id"] for run in runs if not run["ready"]] == ["r6"]
        assert runs[5]["languages"] == ["zh", "en"]

    def test_no_response_contains_a_path(self, client):
        result = client.send("GET", "/api/runs").text + client.post("runs/metrics", run="r6").text
        result += client.post("predict", run="r6", texts=["x"]).text
        assert "half-done" in result
        assert str(Path.cwd()) not in result
        assert "/tmp" not in result

    def test_a_run_that_is_not_open_is_not_found(self, client):
        for route in ("predict", "runs/metrics"):
            response = client.post(route, run="r99")
            assert response.status_code == 404
            assert set(response.json()) == {"message", "location", "hint"}

    def test_runs_with_equal_names_get_numbers(self, tmp_path):
        for folder in ("a", "b"):
            unfinished_run(tmp_path / folder / "mine")
        opened = Workspace.open([str(tmp_path / "a" / "mine"), str(tmp_path / "b" / "mine")])
        assert [run.name for run in opened.runs.values()] == ["mine", "mine (2)"]


class TestPredict:
    @pytest.mark.parametrize(("id", "name"), [("r1", "transformer"), ("r2", "rnn"), ("r3", "gpt"), ("r4", "bert")])
    def test_the_predictions_are_those_of_the_model(self, client, id, name):
        texts = [SOURCE, "他们 abc"] if name != "bert" else ["我有[MASK]本书", "[MASK]国"]
        result = client.post("predict", run=id, texts=texts).json()["predictions"]
        found = text_model(name).predict(texts)
        assert [each["outputs"][0]["text"] for each in result] == [each.text for each in found]
        assert [each["outputs"][0]["score"] for each in result] == pytest.approx([each.score for each in found])
        assert [len(each["candidates"]) for each in result] == [len(each.candidates) for each in found]

    def test_settings_reach_the_decoder(self, client):
        response = client.post(
            "predict", run="r1", texts=[SOURCE], num_beams=3, num_return_sequences=3, max_new_tokens=4
        )
        found = text_model("transformer").predict([SOURCE], num_beams=3, num_return_sequences=3, max_new_tokens=4)[0]
        result = response.json()["predictions"][0]["outputs"]
        assert [each["text"] for each in result] == [each.text for each in found.outputs]

    def test_images_are_files_in_base64(self, client):
        result = client.post("predict", run="r5", images=[image(20)], top_k=0).json()["predictions"][0]
        pixels = decode_image(base64.b64decode(image(20)), "", 8, 3)
        found = image_classifier().predict([pixels], top_k=0)[0]
        assert [each["text"] for each in result["candidates"][0]] == [each.text for each in found.candidates[0]]
        assert {each["text"] for each in result["candidates"][0]} == {SCRIPT, "红"}
        assert result["candidates"][0][0]["probability"] == pytest.approx(found.candidates[0][0].probability)

    @pytest.mark.parametrize(
        ("id", "body", "message"),
        [
            ("r5", {"images": ["no base64!"]}, "base64"),
            ("r5", {"images": [base64.b64encode(b"<svg/>").decode()]}, "not an image"),
            ("r1", {"images": ["AAAA"]}, "does not accept images"),
            ("r1", {"texts": ["我"], "images": ["AAAA"]}, "both texts and images"),
            ("r1", {}, "no input"),
            ("r1", {"texts": [" "]}, "empty"),
            ("r1", {"texts": ["我"], "num_beams": 2, "do_sample": True}, "do_sample"),
            ("r4", {"texts": ["我"], "num_beams": 2}, "num_beams"),
        ],
    )
    def test_an_invalid_request_has_an_error(self, client, id, body, message):
        response = client.post("predict", run=id, **body)
        assert response.status_code == 422
        assert message in response.json()["message"]


class TestSeries:
    def test_a_series_is_continued(self, client):
        result = client.post("predict", run="r10", texts=["0.1 0.2 0.3"], max_new_tokens=4).json()["predictions"][0]
        assert result["outputs"][0]["text"] == series_model()("0.1 0.2 0.3", max_new_tokens=4).text

    @pytest.mark.parametrize("route", sorted(ROUTES))
    def test_no_request_about_texts_is_an_internal_error(self, client, route):
        texts = {"text": "0.1 0.2"} if "text" in ROUTES[route].request_model.model_fields else {}
        assert client.post(route, run="r10", **(required_fields(route) | texts)).status_code < 500


class TestSecurity:
    def test_a_text_is_never_a_file_name(self, client, tmp_path):
        """In Python, a text as input of an image model is a file name. Over HTTP no route may open a file."""
        secret = tmp_path / "secret.png"
        secret.write_bytes(base64.b64decode(image()))
        opened: list[str] = []
        sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
        for name, route in ROUTES.items():
            texts = [key for key, field in route.request_model.model_fields.items() if field.annotation is str]
            body = dict.fromkeys(texts, str(secret)) | {"run": "r5"}
            assert client.post(name, **body).status_code < 500
        assert client.post("predict", run="r5", texts=[str(secret)]).status_code == 422
        assert str(secret) not in opened

    def test_markup_is_returned_as_text(self, client):
        for response in (
            client.send("GET", "/api/runs"),
            client.post("predict", run="r3", texts=[SCRIPT]),
            client.post("predict", run="r5", images=[image()]),
            client.post("runs/samples", run="r6", step=10),
        ):
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/json"
            assert SCRIPT in str(response.json())

    @pytest.mark.parametrize(
        "path",
        [
            "/page/../server.py", "/page/%2e%2e/server.py", "/page/..%2fserver.py", "/page/..;/server.py",
            "/page//etc/passwd", "/page/%2fetc%2fpasswd", "/page/..\\server.py", "/page/main.js%00", "/page/",
            "/page/views", "/page/__init__.py", "/page/\u2215etc\u2215passwd",
        ],
    )  # fmt: skip
    def test_only_files_of_the_page_are_served(self, client, path):
        assert client.send("GET", path).status_code == 404

    def test_the_page_is_public_and_has_the_right_content_types(self, client):
        for name, kind in (("", "text/html"), ("page/main.js", "text/javascript"), ("page/style.css", "text/css")):
            response = client.send("GET", f"/{name}", HOST_HEADER)
            assert (response.status_code, response.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
            assert response.content == (server.PAGE / (name.removeprefix("page/") or "index.html")).read_bytes()

    def test_the_default_pages_of_fastapi_do_not_exist(self, client):
        for path in ("/docs", "/redoc", "/openapi.json", "/api/docs", "/docs/oauth2-redirect"):
            assert client.send("GET", path).status_code == 404


def test_arrays_are_sent_without_loss(client):
    response = client.post("attention/head", run="r1", text=SOURCE, layer=0)
    shape = tuple(map(int, response.headers["x-shape"].split(",")))
    values = np.frombuffer(response.content, "<f4").reshape(shape)
    assert response.headers["content-type"] == "application/octet-stream"
    np.testing.assert_array_equal(values, text_model("transformer").trace(SOURCE).of("attention")[0].values[0])


class TestCache:
    def test_a_cached_value_is_not_computed_again(self):
        opened, computed = workspace(), []
        for _ in range(3):
            assert opened.cached("key", lambda: computed.append(1) or "value") == "value"
        assert computed == [1]

    def test_the_least_recently_used_values_are_removed(self):
        opened, computed = workspace(), []
        for number in [*range(MAX_CACHED), 0, MAX_CACHED, 0, 1]:
            opened.cached(number, lambda number=number: computed.append(number))
        assert computed == [*range(MAX_CACHED), MAX_CACHED, 1]  # 1 was the least recently used

    def test_lists_of_arrays_have_a_size(self, monkeypatch):
        monkeypatch.setattr(workspace_module, "MAX_CACHE_BYTES", 1_000)
        opened, computed = workspace(), []
        for key in ("a", "b", "b", "a"):
            opened.cached(
                key, lambda key=key: computed.append(key) or [np.zeros(100, np.float32), np.zeros(100, np.float32)]
            )
        assert computed == ["a", "b", "a"]

    def test_the_cache_has_a_maximum_size(self):
        opened, computed = workspace(), []
        for key in ("a", "b", "b", "a"):
            opened.cached(key, lambda key=key: computed.append(key) or SimpleNamespace(bytes=MAX_CACHE_BYTES - 1))
        assert computed == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The file /srv/x/y.json is bad.", "The file … is bad."),
        ("See `C:\\Users\\me` or ~/a.", "See `…` or …"),
        ("Line 3 of /srv/my runs/a/metrics.jsonl", "Line 3 of mine/metrics.jsonl"),
        ("他/她 and/or 1/2 </b> runs/a/b yes /no", "他/她 and/or 1/2 </b> runs/a/b yes /no"),
    ],
)
def test_an_error_contains_no_paths_of_this_machine(text, expected):
    response = error_response(422, UserError(text, location=text, hint=text), {"/srv/my runs/a": "mine"})
    assert json.loads(response.body) == dict.fromkeys(("message", "location", "hint"), expected)


def test_folders_of_runs_become_their_names(tmp_path):
    opened = workspace(tmp_path)
    assert opened.path_names[str(tmp_path / "half-done")] == "half-done"
    opened.run("r7").folder.evaluation.joinpath("test.tsv").write_bytes(b"\xff")
    response = Client(make_app(opened)).post("mistakes/rows", run="r7", split="test")
    assert response.status_code == 422
    assert str(tmp_path) not in response.text


class TestCapabilities:
    def test_an_unfinished_run_has_only_its_curves(self, client):
        runs = {run["id"]: run["capabilities"] for run in client.send("GET", "/api/runs").json()["runs"]}
        assert runs["r6"] == ["curves"]
        assert runs["r1"] == ["text", "embeddings", "attention", "target", "decode"]
        assert runs["r2"] == ["text", "embeddings", "attention", "recurrent", "target", "decode"]
        assert runs["r5"] == ["images", "attention"]
        assert runs["r7"] == ["curves", "text", "embeddings", "attention", "target", "decode", "evaluation"]

    def test_an_ensemble_has_neither_attention_nor_embeddings(self):
        opened = workspace()
        model = copy(text_model("transformer"))
        model.config = model.config.model_copy(update={"members": (model.config.model,)})
        opened.run("r1").model = model
        assert capabilities_of(opened.run("r1")) == ["text", "target", "decode"]


def test_nagles_algorithm_is_disabled():
    """asyncio disables it only for sockets with IPPROTO_TCP; else every response is delayed by 40 ms."""
    with server.bind_socket(None) as found:
        assert found.proto == socket.IPPROTO_TCP
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)  # after a restart the port is available
