"""Models in a notebook: where one looked is shown as the explorer shows it, in a page that needs no server."""

from __future__ import annotations

from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.workbench import predict
from seq2see.workbench.attention import TextAttention
from seq2see.workbench.predict import Model

MOST_BYTES = 16 << 20
"""Of a page: a notebook keeps every output in its file."""
MOST_CELLS = 1_000
"""Of a table that is stored beside a page: each takes some eighty bytes."""
NOT_TRUSTED = "Nothing above? Trust this notebook to see it. · 上面没有内容？请信任此笔记本。"


def load(name: str | Path, engine: str = "own") -> Model:
    """The model of a finished run: a folder, a name under `runs/`, or "latest"; or one in a Hugging Face folder."""
    model = predict.load(name, engine)
    model.shows = attention_page
    return model


def attention_page(model: Model, source: str, target: str | None) -> str:
    """The view "Attention" of one answer, in a frame; a plain table where there is more than a notebook should hold."""
    # Only here: who loads a model to use it does not wait for a server.
    from seq2see.explorer.bench import Bench, OpenRun
    from seq2see.explorer.offline import framed, saved_page
    from seq2see.explorer.saved_answers import TooMuch

    bench = Bench({"r1": OpenRun.around(model)})
    try:
        frame = framed(saved_page(bench, source, target, views=("attention", "tokenise"), most=MOST_BYTES))
    except TooMuch:
        return TextAttention.of(model.trace(source, target)).html()
    return frame + _instead(model, source, target)


def _instead(model: Model, source: str, target: str | None) -> str:
    """What is left where frames are taken out: in a notebook that is not trusted, or on a page that shows its file."""
    try:
        found = TextAttention.of(model.trace(source, target))
    except UserError:  # which the frame tells
        return ""
    table = found.html() if found.matrix.size <= MOST_CELLS else ""
    return f"<details><summary>{NOT_TRUSTED}</summary>{table}</details>"
