"""The OpenAPI schema describes every route, and every field of a request is bounded."""

from __future__ import annotations

import pytest
from tiny_workspace import Client, make_app, workspace

from seq2see.explorer.routes import ROUTES


@pytest.fixture(scope="module")
def client():
    return Client(make_app(workspace()))


def test_exactly_the_routes_are_described(client):
    response = client.send("GET", "/api/openapi.json").json()
    assert set(response["paths"]) == {"/api/runs", *(f"/api/{name}" for name in ROUTES)}
    for name, route in ROUTES.items():
        operation = response["paths"][f"/api/{name}"]["post"]
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = response["components"]["schemas"][reference.split("/")[-1]]
        assert set(schema["properties"]) == set(route.request_model.model_fields)
        assert operation["summary"]


def test_every_reference_has_a_schema(client):
    response = client.send("GET", "/api/openapi.json")
    names = set(response.json()["components"]["schemas"])
    assert {part.split('"')[0] for part in response.text.split("#/components/schemas/")[1:]} <= names


def test_every_text_and_list_and_number_of_a_request_is_bounded():
    def unbounded(node, path):
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
                yield from unbounded(value, f"{path}.{key}")
        elif isinstance(node, list):
            for each in node:
                yield from unbounded(each, path)

    found = [
        each for name, route in ROUTES.items() for each in unbounded(route.request_model.model_json_schema(), name)
    ]
    assert not found


def test_every_route_needs_the_token(client):
    response = client.send("GET", "/api/openapi.json").json()
    (scheme,) = response["security"]
    assert response["components"]["securitySchemes"][next(iter(scheme))] == {"type": "http", "scheme": "bearer"}


@pytest.mark.parametrize(
    "body", [{"padding": 1}, {"text": 5}, {"text": None}, {"text": ["a"]}, {"run": 1}], ids=lambda body: str(body)
)
def test_unknown_fields_and_wrong_types_are_errors(client, body):
    response = client.post("tokenize", **({"run": "r1", "text": "a"} | body))
    assert (response.status_code, "is not valid" in response.json()["message"]) == (422, True)
    assert client.post("tokenize", run="r1", text="a").status_code == 200


def test_a_text_is_not_converted_to_a_number(client):
    assert client.post("attention/head", run="r1", text="我", layer="0").status_code == 422
    assert client.post("attention/head", run="r1", text="我", layer=0).status_code == 200
