"""Models in a notebook: attention is displayed by the explorer's view, in a page without a server."""

from __future__ import annotations

from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.runs.load import load as load_model
from seq2see.tasks.model import Model, TextAttention

MAX_PAGE_BYTES = 16 << 20
"""The maximum size of a page: a notebook stores every output in its file."""
MAX_TABLE_CELLS = 1_000
"""The maximum size of the fallback table; each cell takes about 80 bytes."""
NOT_TRUSTED = "Nothing above? Trust this notebook to see it. · 上面没有内容？请信任此笔记本。"


def load(name: str | Path, engine: str = "torch") -> Model:
    """The model of a finished run: a folder, a name under `runs/`, or "latest"; or one in a Hugging Face folder."""
    model = load_model(name, engine)
    model.render_attention = attention_page
    return model


def attention_page(model: Model, source: str, target: str | None) -> str:
    """The view "Attention" of one prediction in an iframe; a plain table if the page would be too large."""
    # Imported here, so that loading a model does not import the server.
    from seq2see.explorer.offline import PageTooLarge, saved_page, to_iframe
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
    """A table for viewers that remove iframes: untrusted notebooks, and pages that render notebook files."""
    try:
        attention = TextAttention.of(model.trace(source, target))
    except UserError:  # the page in the iframe shows the error
        return ""
    table = attention.html() if attention.matrix.size <= MAX_TABLE_CELLS else ""
    return f"<details><summary>{NOT_TRUSTED}</summary>{table}</details>"
