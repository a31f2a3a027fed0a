"""What a saved page asks, and what it is answered: the page's questions, put beforehand.

Each view that can be saved has a function in `saved_views.py`, which asks as the view does. Whatever else the page may
ask (another text, another setting) it answers with the remark that this was not saved.
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
"""Of all answers together: a browser takes long to open a page that is larger."""


class ResponseRecorder:
    """The questions that a page will put about one run and one text, with their answers."""

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
        """Put a question about the run as the page would, and keep the answer, also if it is a complaint."""
        asked = {"run": self.run["id"], **body}  # a body may be about another run
        route = ROUTES[name]
        try:
            answer = route.handler(self.workspace, route.request_model.model_validate_json(json.dumps(asked)))
        except UserError as error:
            self._store(name, asked, {"error": json.loads(bytes(error_response(422, error).body))})
            raise
        content = bytes(to_response(answer).body)
        if isinstance(answer, ArrayResponse):
            content = base64.b64encode(content)
        self.bytes_left -= len(content)
        if self.bytes_left < 0:
            limit = f"What there is to save is more than {MAX_PAGE_BYTES >> 20} MB, which no browser opens gladly."
            raise PageTooLarge(limit, location=self.run["name"], hint="Save a shorter text, or fewer runs.")
        if isinstance(answer, ArrayResponse):
            kept = {"shape": list(answer.array.shape), "base64": content.decode("ascii")}
            return self._store(name, asked, kept)
        return self._store(name, asked, {"response": json.loads(content)})

    def store(self, name: str, answer: Any, **body: Any) -> None:
        """Answer a question with something else than the server would."""
        self._store(name, {"run": self.run["id"], **body}, {"response": answer})

    def _store(self, name: str, asked: dict[str, Any], kept: dict[str, Any]) -> Any:
        self.responses[request_key(name, asked)] = kept
        return kept.get("response")


class PageTooLarge(UserError):
    """More than a page should hold."""


def request_key(name: str, body: dict[str, Any]) -> str:
    """How `request.js` finds an answer again."""
    return f"{name} {json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(',', ':'))}"


def record_views(recorder: ResponseRecorder, views: Collection[str]) -> dict[str, dict[str, Any]]:
    """The answers that some views need about one run; a view that complains does so in the saved page, too."""
    for view in (each for each in views if each in recorder.run["views"]):
        try:
            VIEW_RECORDERS[view](recorder)
        except PageTooLarge:
            raise
        except UserError:
            continue
    return recorder.responses


# view: what the page asks when it shows it
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
