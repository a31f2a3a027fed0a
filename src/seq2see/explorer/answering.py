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
from seq2see.explorer.bench import Bench, NoSuchRun
from seq2see.explorer.guard import Keys, mishap
from seq2see.explorer.messages import Asked, Numbers
from seq2see.explorer.routes import Route
from seq2see.explorer.waiting import Busy, Line

NOWHERE: Mapping[str, str] = {}
Endpoint = Callable[[Request], Awaitable[Response]]

PATHS = re.compile(r"(?<![\w.~<])(?:~/|/(?=[^\s/]+/)|[A-Za-z]:[\\/])[^\s'\"`<>]+")
"""What looks like a place on this machine."""


class Enter(Asked):
    """The token of the printed link."""

    token: str = Field(max_length=200)


def entered(keys: Keys) -> Endpoint:
    """Changes the token for a cookie that scripts cannot read and other pages cannot send."""

    async def endpoint(request: Request) -> Response:
        try:
            asked = Enter.model_validate_json(await request.body())
        except ValidationError as error:
            return wrong(422, _misread(error))
        if not keys.fits(asked.token):
            return wrong(401, UserError("This is not the token.", remedy="Open the printed link."))
        answer = told({"entered": True})
        answer.set_cookie(keys.cookie, keys.token, httponly=True, samesite="strict", path="/")
        return answer

    return endpoint


def answered(route: Route, bench: Bench, line: Line) -> Endpoint:
    """What answers the questions of one route."""

    async def endpoint(request: Request) -> Response:
        try:
            asked = route.asked.model_validate_json(await request.body())
        except ValidationError as error:
            return wrong(422, _misread(error))
        return await _while_there(request, line.turn(lambda: told(route.answer(bench, asked))))

    return endpoint


def complaints(bench: Bench) -> dict[type[Exception], Callable[[Request, Any], Response]]:
    """What is answered where a question cannot be, whoever finds out; anything else that is raised is our mistake."""

    def busy(request: Request, error: Busy) -> Response:
        answer = wrong(429, UserError("Too many questions are waiting.", remedy="Ask again in a moment."))
        answer.headers["Retry-After"] = str(error.seconds)
        return answer

    def lost(request: Request, error: FileNotFoundError) -> Response:
        return wrong(
            422, UserError("A file of this run is no longer there.", remedy="Was its folder moved or deleted?")
        )

    def elsewhere(request: Request, error: HTTPException) -> Response:
        return wrong(error.status_code, UserError(f"{error.detail}."))

    return {
        Busy: busy,
        FileNotFoundError: lost,
        HTTPException: elsewhere,
        NoSuchRun: lambda request, error: wrong(404, error),
        UserError: lambda request, error: wrong(422, error, bench.places),
        Exception: lambda request, error: Response(json.dumps(mishap(error)), 500, media_type="application/json"),
    }


def told(answer: dict[str, Any] | BaseModel | Numbers) -> Response:
    """An answer as it travels."""
    if isinstance(answer, Numbers):
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
        return json.dumps(_numbered(plain), allow_nan=False)


def _numbered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbered(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_numbered(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


async def _while_there(request: Request, working: Any) -> Response:
    """The answer, unless whoever asked goes away first: then there is nobody to answer."""
    work = asyncio.ensure_future(working)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        return await work if work.done() else Response(status_code=499)
    finally:
        work.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _misread(error: ValidationError) -> UserError:
    """The first thing that is wrong with a question; what was sent is not repeated."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return UserError(f"This question cannot be read: {first['msg']}.", where=where, remedy="openapi.json tells how.")


def wrong(status: int, error: UserError, places: Mapping[str, str] = NOWHERE) -> Response:
    """A mistake of whoever asked; of places on this machine no more is told than the names of runs."""
    plain = {"what": error.what, "where": error.where, "remedy": error.remedy}
    for place, name in places.items():
        plain = {part: text.replace(place, name) for part, text in plain.items()}
    body = {part: PATHS.sub("…", text) for part, text in plain.items()}
    return Response(json.dumps(body), status, media_type="application/json")
