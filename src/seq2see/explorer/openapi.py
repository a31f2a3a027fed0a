"""The OpenAPI schema of the server, generated from the table of routes."""

from __future__ import annotations

from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import seq2see
from seq2see.explorer.routes import ROUTES, Route
from seq2see.explorer.schemas import ArrayResponse

REFERENCE = "#/components/schemas/{model}"
ERROR_SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("message", "location", "hint", "id")},
    "required": ["message", "location", "hint"],
}
ERROR_RESPONSES = {
    "401": "the token is missing", "404": "there is no such run", "413": "too large", "415": "not JSON",
    "422": "the request is not valid; the error has the reason and a hint",
    "429": "the queue is full; see Retry-After",
}  # fmt: skip


@cache
def openapi_schema() -> dict[str, Any]:
    """The whole schema."""
    models = [route.request_model for route in ROUTES.values()] + [
        response_model for response_model in map(_response_model, ROUTES.values()) if response_model
    ]
    _, schemas = models_json_schema([(model, "validation") for model in dict.fromkeys(models)], ref_template=REFERENCE)
    paths = {f"/api/{name}": {"post": _operation(name, route)} for name, route in ROUTES.items()}
    runs_response = {
        "200": {"description": "the runs", "content": {"application/json": {"schema": {"type": "object"}}}}
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "seq2see explorer", "version": seq2see.__version__},
        "paths": {"/api/runs": {"get": {"summary": "The opened runs", "responses": runs_response}}, **paths},
        "components": {
            "schemas": {**schemas.get("$defs", {}), "Error": ERROR_SCHEMA},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(name: str, route: Route) -> dict[str, Any]:
    request_schema = {"schema": {"$ref": REFERENCE.format(model=route.request_model.__name__)}}
    error_responses = {
        status: {
            "description": description,
            "content": {"application/json": {"schema": {"$ref": REFERENCE.format(model="Error")}}},
        }
        for status, description in ERROR_RESPONSES.items()
    }
    return {
        "operationId": name.replace("/", "_"),
        "summary": (route.handler.__doc__ or "").split("\n")[0],
        "requestBody": {"required": True, "content": {"application/json": request_schema}},
        "responses": {"200": _success_response(route), **error_responses},
    }


def _success_response(route: Route) -> dict[str, Any]:
    if get_type_hints(route.handler).get("return") is ArrayResponse:
        header = {"description": "rows, columns, ...", "schema": {"type": "string", "pattern": r"^[0-9]+(,[0-9]+)*$"}}
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        return {"description": "float32, little-endian", "headers": {"X-Shape": header}, "content": content}
    response_model = _response_model(route)
    schema = {"$ref": REFERENCE.format(model=response_model.__name__)} if response_model else {"type": "object"}
    return {"description": "the result", "content": {"application/json": {"schema": schema}}}


def _response_model(route: Route) -> type[BaseModel] | None:
    """The pydantic model of a response, if the handler has one."""
    response_model = get_type_hints(route.handler).get("return")
    return response_model if isinstance(response_model, type) and issubclass(response_model, BaseModel) else None
