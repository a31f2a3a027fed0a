"""What the server says of itself is true: every route is described, and every part of a question is bounded."""

from __future__ import annotations

import pytest
from tiny_workspace import Client, make_app, workspace

from seq2see.explorer.routes import ROUTES


@pytest.fixture(scope="module")
def client():
    return Client(make_app(workspace()))


def test_every_route_is_described_and_no_other(client):
    told = client.send("GET", "/api/openapi.json").json()
    assert set(told["paths"]) == {"/api/runs", *(f"/api/{name}" for name in ROUTES)}
    for name, route in ROUTES.items():
        operation = told["paths"][f"/api/{name}"]["post"]
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = told["components"]["schemas"][reference.split("/")[-1]]
        assert set(schema["properties"]) == set(route.request_model.model_fields)
        assert operation["summary"]


def test_what_is_referred_to_is_there(client):
    told = client.send("GET", "/api/openapi.json")
    names = set(told.json()["components"]["schemas"])
    assert {part.split('"')[0] for part in told.text.split("#/components/schemas/")[1:]} <= names


def test_every_text_and_list_and_number_of_a_question_is_bounded():
    def loose(node, path):
        if isinstance(node, dict):
            bounds = {
                "string": "maxLength pattern enum const",
                "array": "maxItems",
                "integer": "maximum",
                "number": "maximum exclusiveMaximum",
            }
            kind = node.get("type")
            if kind in bounds and not set(bounds[kind].split()) & set(node):
                yield path
            for key, value in node.items():
                yield from loose(value, f"{path}.{key}")
        elif isinstance(node, list):
            for each in node:
                yield from loose(each, path)

    found = [each for name, route in ROUTES.items() for each in loose(route.request_model.model_json_schema(), name)]
    assert not found


def test_it_says_that_all_of_it_needs_the_token(client):
    told = client.send("GET", "/api/openapi.json").json()
    (needed,) = told["security"]
    assert told["components"]["securitySchemes"][next(iter(needed))] == {"type": "http", "scheme": "bearer"}


@pytest.mark.parametrize(
    "body", [{"padding": 1}, {"text": 5}, {"text": None}, {"text": ["a"]}, {"run": 1}], ids=lambda body: str(body)
)
def test_what_a_question_does_not_have_and_what_is_of_another_kind_is_refused(client, body):
    answer = client.ask("tokenize", **({"run": "r1", "text": "a"} | body))
    assert (answer.status_code, "cannot be read" in answer.json()["message"]) == (422, True)
    assert client.ask("tokenize", run="r1", text="a").status_code == 200


def test_a_number_is_not_made_of_a_text(client):
    assert client.ask("attention/head", run="r1", text="我", layer="0").status_code == 422
    assert client.ask("attention/head", run="r1", text="我", layer=0).status_code == 200
