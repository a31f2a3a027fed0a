"""Models in a notebook: where one looked is shown as the explorer shows it, in a page that needs no server."""

from __future__ import annotations

from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.runs import model
from seq2see.runs.model import Model
from seq2see.runs.text_attention import TextAttention

MAX_PAGE_BYTES = 16 << 20
"""Of a page: a notebook keeps every output in its file."""
MAX_TABLE_CELLS = 1_000
"""Of a table that is stored beside a page: each takes some eighty bytes."""
NOT_TRUSTED = "Nothing above? Trust this notebook to see it. · 上面没有内容？请信任此笔记本。"


def load(name: str | Path, engine: str = "own") -> Model:
    """The model of a finished run: a folder, a name under `runs/`, or "latest"; or one in a Hugging Face folder."""
    found = model.load(name, engine)
    found.render_attention = attention_page
    return found


def attention_page(model: Model, source: str, target: str | None) -> str:
    """The view "Attention" of one answer, in a frame; a plain table where there is more than a notebook should hold."""
    # Only here: who loads a model to use it does not wait for a server.
    from seq2see.explorer.offline import saved_page, to_iframe
    from seq2see.explorer.saved_responses import PageTooLarge
    from seq2see.explorer.workspace import OpenRun, Workspace

    workspace = Workspace({"r1": OpenRun.from_model(model)})
    try:
        frame = to_iframe(
            saved_page(workspace, source, target, views=("attention", "tokenize"), max_bytes=MAX_PAGE_BYTES)
        )
    except PageTooLarge:
        return TextAttention.of(model.trace(source, target)).html()
    return frame + _fallback_table(model, source, target)


def _fallback_table(model: Model, source: str, target: str | None) -> str:
    """What is left where frames are taken out: in a notebook that is not trusted, or on a page that shows its file."""
    try:
        found = TextAttention.of(model.trace(source, target))
    except UserError:  # which the frame tells
        return ""
    table = found.html() if found.matrix.size <= MAX_TABLE_CELLS else ""
    return f"<details><summary>{NOT_TRUSTED}</summary>{table}</details>"
