"""From a question's bytes to an answer's: checking it, waiting for the model, and telling what went wrong."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException

from seq2see.core.errors import UserError
from seq2see.explorer.job_queue import JobQueue, QueueFull
from seq2see.explorer.routes import Route
from seq2see.explorer.schemas import ApiRequest, ArrayResponse
from seq2see.explorer.security import Credentials, internal_error
from seq2see.explorer.workspace import RunNotFound, Workspace

NO_PATHS: Mapping[str, str] = {}
Endpoint = Callable[[Request], Awaitable[Response]]

LOCAL_PATH = re.compile(r"(?<![\w.~<])(?:~/|/(?=[^\s/]+/)|[A-Za-z]:[\\/])[^\s'\"`<>]+")
"""What looks like a place on this machine."""


class LoginRequest(ApiRequest):
    """The token of the printed link."""

    token: str = Field(max_length=200)


def login_endpoint(keys: Credentials) -> Endpoint:
    """Changes the token for a cookie that scripts cannot read and other pages cannot send."""

    async def endpoint(request: Request) -> Response:
        try:
            payload = LoginRequest.model_validate_json(await request.body())
        except ValidationError as error:
            return error_response(422, _validation_error(error))
        if not keys.verify(payload.token):
            return error_response(401, UserError("This is not the token.", hint="Open the printed link."))
        answer = to_response({"logged_in": True})
        answer.set_cookie(keys.cookie_name, keys.token, httponly=True, samesite="strict", path="/")
        return answer

    return endpoint


def route_endpoint(route: Route, workspace: Workspace, queue: JobQueue) -> Endpoint:
    """What answers the questions of one route."""

    async def endpoint(request: Request) -> Response:
        try:
            payload = route.request_model.model_validate_json(await request.body())
        except ValidationError as error:
            return error_response(422, _validation_error(error))
        return await _cancel_on_disconnect(request, queue.submit(lambda: to_response(route.handler(workspace, payload))))

    return endpoint


def error_handlers(workspace: Workspace) -> dict[type[Exception], Callable[[Request, Any], Response]]:
    """What is answered where a question cannot be, whoever finds out; anything else that is raised is our mistake."""

    def queue_full(request: Request, error: QueueFull) -> Response:
        answer = error_response(429, UserError("Too many questions are waiting.", hint="Ask again in a moment."))
        answer.headers["Retry-After"] = str(error.retry_after)
        return answer

    def file_missing(request: Request, error: FileNotFoundError) -> Response:
        return error_response(
            422, UserError("A file of this run is no longer there.", hint="Was its folder moved or deleted?")
        )

    def http_error(request: Request, error: HTTPException) -> Response:
        return error_response(error.status_code, UserError(f"{error.detail}."))

    return {
        QueueFull: queue_full,
        FileNotFoundError: file_missing,
        HTTPException: http_error,
        RunNotFound: lambda request, error: error_response(404, error),
        UserError: lambda request, error: error_response(422, error, workspace.path_names),
        Exception: lambda request, error: Response(
            json.dumps(internal_error(error)), 500, media_type="application/json"
        ),
    }


def to_response(answer: dict[str, Any] | BaseModel | ArrayResponse) -> Response:
    """An answer as it travels."""
    if isinstance(answer, ArrayResponse):
        values = np.asarray(answer.array, dtype="<f4")
        shape = ",".join(map(str, values.shape))
        return Response(values.tobytes(), media_type="application/octet-stream", headers={"X-Shape": shape})
    plain = answer.model_dump() if isinstance(answer, BaseModel) else answer
    return Response(_json(plain), media_type="application/json")


def _json(plain: Any) -> str:
    """JSON has no word for what is not a number; a loss can be one all the same."""
    try:
        return json.dumps(plain, allow_nan=False)
    except ValueError:
        return json.dumps(_nan_to_none(plain), allow_nan=False)


def _nan_to_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _nan_to_none(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_nan_to_none(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


async def _cancel_on_disconnect(request: Request, job: Any) -> Response:
    """The answer, unless whoever asked goes away first: then there is nobody to answer."""
    work = asyncio.ensure_future(job)
    gone = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        return await work if work.done() else Response(status_code=499)
    finally:
        work.cancel()
        gone.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _validation_error(error: ValidationError) -> UserError:
    """The first thing that is wrong with a question; what was sent is not repeated."""
    first = error.errors()[0]
    location = ".".join(map(str, first["loc"]))
    return UserError(
        f"This question cannot be read: {first['msg']}.", location=location, hint="openapi.json tells how."
    )


def error_response(status: int, error: UserError, path_names: Mapping[str, str] = NO_PATHS) -> Response:
    """A mistake of whoever asked; of places on this machine no more is told than the names of runs."""
    plain = {"message": error.message, "location": error.location, "hint": error.hint}
    for place, name in path_names.items():
        plain = {part: text.replace(place, name) for part, text in plain.items()}
    body = {part: LOCAL_PATH.sub("…", text) for part, text in plain.items()}
    return Response(json.dumps(body), status, media_type="application/json")
