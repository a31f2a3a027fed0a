"""What the server can be asked, in OpenAPI's words; written from the table of routes, so that it is true."""

from __future__ import annotations

from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import seq2see
from seq2see.explorer.messages import Numbers
from seq2see.explorer.routes import ROUTES, Route

REFERENCE = "#/components/schemas/{model}"
WRONG = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("what", "where", "remedy", "id")},
    "required": ["what", "where", "remedy"],
}
REFUSALS = {
    "401": "the token is missing", "404": "there is no such run", "413": "too large", "415": "not JSON",
    "422": "what was asked cannot be answered; says why and what to do", "429": "too many wait; see Retry-After",
}  # fmt: skip


@cache
def described() -> dict[str, Any]:
    """The whole description."""
    models = [route.asked for route in ROUTES.values()] + [given for given in map(_given, ROUTES.values()) if given]
    _, schemas = models_json_schema([(model, "validation") for model in dict.fromkeys(models)], ref_template=REFERENCE)
    paths = {f"/api/{name}": {"post": _operation(name, route)} for name, route in ROUTES.items()}
    listing = {"200": {"description": "the runs", "content": {"application/json": {"schema": {"type": "object"}}}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "seq2see explorer", "version": seq2see.__version__},
        "paths": {"/api/runs": {"get": {"summary": "The opened runs", "responses": listing}}, **paths},
        "components": {
            "schemas": {**schemas.get("$defs", {}), "Wrong": WRONG},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(name: str, route: Route) -> dict[str, Any]:
    asked = {"schema": {"$ref": REFERENCE.format(model=route.asked.__name__)}}
    refusals = {
        status: {
            "description": why,
            "content": {"application/json": {"schema": {"$ref": REFERENCE.format(model="Wrong")}}},
        }
        for status, why in REFUSALS.items()
    }
    return {
        "operationId": name.replace("/", "_"),
        "summary": (route.answer.__doc__ or "").split("\n")[0],
        "requestBody": {"required": True, "content": {"application/json": asked}},
        "responses": {"200": _answer(route), **refusals},
    }


def _answer(route: Route) -> dict[str, Any]:
    if get_type_hints(route.answer).get("return") is Numbers:
        header = {"description": "rows, columns, ...", "schema": {"type": "string", "pattern": r"^[0-9]+(,[0-9]+)*$"}}
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        return {"description": "float32, little-endian", "headers": {"X-Shape": header}, "content": content}
    given = _given(route)
    schema = {"$ref": REFERENCE.format(model=given.__name__)} if given else {"type": "object"}
    return {"description": "the answer", "content": {"application/json": {"schema": schema}}}


def _given(route: Route) -> type[BaseModel] | None:
    """The model of an answer, where it has one."""
    given = get_type_hints(route.answer).get("return")
    return given if isinstance(given, type) and issubclass(given, BaseModel) else None
