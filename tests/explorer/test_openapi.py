"""What the server says of itself is true: every route is described, and every part of a question is bounded."""

from __future__ import annotations

import pytest
from benches import Client, app_of, bench

from seq2see.explorer.routes import ROUTES


@pytest.fixture(scope="module")
def client():
    return Client(app_of(bench()))


def test_every_route_is_described_and_no_other(client):
    told = client.send("GET", "/api/openapi.json").json()
    assert set(told["paths"]) == {"/api/runs", *(f"/api/{name}" for name in ROUTES)}
    for name, route in ROUTES.items():
        operation = told["paths"][f"/api/{name}"]["post"]
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = told["components"]["schemas"][reference.split("/")[-1]]
        assert set(schema["properties"]) == set(route.asked.model_fields)
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

    found = [each for name, route in ROUTES.items() for each in loose(route.asked.model_json_schema(), name)]
    assert not found
