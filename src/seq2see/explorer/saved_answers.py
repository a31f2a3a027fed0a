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
from seq2see.explorer.answering import told, wrong
from seq2see.explorer.bench import Bench
from seq2see.explorer.messages import Numbers
from seq2see.explorer.routes import ROUTES

MOST_BYTES = 48 << 20
"""Of all answers together: a browser takes long to open a page that is larger."""


class Answers:
    """The questions that a page will put about one run and one text, with their answers."""

    def __init__(self, bench: Bench, run: dict[str, Any], text: str, target: str | None = None, room: int = MOST_BYTES):
        self.bench, self.run = bench, run
        self.text, self.target = text, target
        self.stored: dict[str, dict[str, Any]] = {}
        self.room = room
        """Bytes that may still be stored."""

    def ask(self, name: str, **body: Any) -> Any:
        """Put a question about the run as the page would, and keep the answer, also if it is a complaint."""
        asked = {"run": self.run["id"], **body}  # a body may be about another run
        route = ROUTES[name]
        try:
            answer = route.answer(self.bench, route.asked.model_validate_json(json.dumps(asked)))
        except UserError as error:
            self._keep(name, asked, {"complaint": json.loads(bytes(wrong(422, error).body))})
            raise
        content = bytes(told(answer).body)
        if isinstance(answer, Numbers):
            content = base64.b64encode(content)
        self.room -= len(content)
        if self.room < 0:
            limit = f"What there is to save is more than {MOST_BYTES >> 20} MB, which no browser opens gladly."
            raise TooMuch(limit, where=self.run["name"], remedy="Save a shorter text, or fewer runs.")
        if isinstance(answer, Numbers):
            kept = {"shape": list(answer.array.shape), "base64": content.decode("ascii")}
            return self._keep(name, asked, kept)
        return self._keep(name, asked, {"answer": json.loads(content)})

    def tell(self, name: str, answer: Any, **body: Any) -> None:
        """Answer a question with something else than the server would."""
        self._keep(name, {"run": self.run["id"], **body}, {"answer": answer})

    def _keep(self, name: str, asked: dict[str, Any], kept: dict[str, Any]) -> Any:
        self.stored[key_of(name, asked)] = kept
        return kept.get("answer")


class TooMuch(UserError):
    """More than a page should hold."""


def key_of(name: str, body: dict[str, Any]) -> str:
    """How `ask.js` finds an answer again."""
    return f"{name} {json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(',', ':'))}"


def saved_for(answers: Answers, views: Collection[str]) -> dict[str, dict[str, Any]]:
    """The answers that some views need about one run; a view that complains does so in the saved page, too."""
    for view in (each for each in views if each in answers.run["views"]):
        try:
            SAVED[view](answers)
        except TooMuch:
            raise
        except UserError:
            continue
    return answers.stored


# view: what the page asks when it shows it
SAVED: dict[str, Callable[[Answers], None]] = {
    "attention": saved_views.attention,
    "one-head": saved_views.one_head,
    "tokenise": saved_views.tokenise,
    "next-token": saved_views.next_token,
    "decode": saved_views.decode,
    "architecture": saved_views.architecture,
    "compare": saved_views.compare,
    "mistakes": saved_views.mistakes,
    "embeddings": saved_views.embeddings,
    "runs": saved_views.runs,
    "recurrent": saved_views.recurrent,
    "vit": saved_views.pictures,
    "positions": saved_views.positions,
}
