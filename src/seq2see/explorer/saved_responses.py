"""The responses of a saved page: the requests of its views, run in advance.

Each view that can be saved has a function in `saved_views.py`, which makes the requests of the view. For any other
request (another text, another setting) the page shows that its response was not saved.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection
from typing import Any

from seq2see.core.errors import UserError
from seq2see.explorer import saved_views
from seq2see.explorer.endpoints import error_response, to_response
from seq2see.explorer.routes import ROUTES
from seq2see.explorer.schemas import ArrayResponse
from seq2see.explorer.workspace import Workspace

MAX_PAGE_BYTES = 48 << 20
"""The maximum size of all responses together: browsers open larger pages slowly."""


class ResponseRecorder:
    """Runs the requests of a page about one run and one text, and stores their responses."""

    def __init__(
        self,
        workspace: Workspace,
        run: dict[str, Any],
        text: str,
        target: str | None = None,
        bytes_left: int = MAX_PAGE_BYTES,
    ):
        self.workspace, self.run = workspace, run
        self.text, self.target = text, target
        self.responses: dict[str, dict[str, Any]] = {}
        self.bytes_left = bytes_left
        """Bytes that may still be stored."""

    def request(self, name: str, **body: Any) -> Any:
        """Run a request about the run as the page does, and store the response or the error."""
        body = {"run": self.run["id"], **body}  # the body may name another run
        route = ROUTES[name]
        try:
            result = route.handler(self.workspace, route.request_model.model_validate_json(json.dumps(body)))
        except UserError as error:
            self._store(name, body, {"error": json.loads(bytes(error_response(422, error).body))})
            raise
        content = bytes(to_response(result).body)
        if isinstance(result, ArrayResponse):
            content = base64.b64encode(content)
        self.bytes_left -= len(content)
        if self.bytes_left < 0:
            message = f"The page is larger than {MAX_PAGE_BYTES >> 20} MB, which is too large for browsers."
            raise PageTooLarge(message, location=self.run["name"], hint="Save a shorter text, or fewer runs.")
        if isinstance(result, ArrayResponse):
            return self._store(name, body, {"shape": list(result.array.shape), "base64": content.decode("ascii")})
        return self._store(name, body, {"response": json.loads(content)})

    def store(self, name: str, response: Any, **body: Any) -> None:
        """Store another response for a request than that of the server."""
        self._store(name, {"run": self.run["id"], **body}, {"response": response})

    def _store(self, name: str, body: dict[str, Any], entry: dict[str, Any]) -> Any:
        self.responses[request_key(name, body)] = entry
        return entry.get("response")


class PageTooLarge(UserError):
    """The page would exceed its maximum size."""


def request_key(name: str, body: dict[str, Any]) -> str:
    """The key of a stored response, as `api.js` computes it."""
    return f"{name} {json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(',', ':'))}"


def record_views(recorder: ResponseRecorder, views: Collection[str]) -> dict[str, dict[str, Any]]:
    """The responses that some views need about one run; the saved page shows the errors that occur here."""
    for view in (each for each in views if each in recorder.run["views"]):
        try:
            VIEW_RECORDERS[view](recorder)
        except PageTooLarge:
            raise
        except UserError:
            continue
    return recorder.responses


# from the name of a view to the function that makes its requests
VIEW_RECORDERS: dict[str, Callable[[ResponseRecorder], None]] = {
    "attention": saved_views.attention,
    "single-head": saved_views.single_head,
    "tokenize": saved_views.tokenize,
    "next-token": saved_views.next_token,
    "decode": saved_views.decode,
    "architecture": saved_views.architecture,
    "compare": saved_views.compare,
    "mistakes": saved_views.mistakes,
    "embeddings": saved_views.embeddings,
    "runs": saved_views.runs,
    "recurrent": saved_views.recurrent,
    "vit": saved_views.images,
    "positions": saved_views.positions,
}
