"""Models in a notebook: where one looked is shown as the explorer shows it, in a page that needs no server."""

from __future__ import annotations

from pathlib import Path

from seq2see.workbench import predict
from seq2see.workbench.attention import TextAttention
from seq2see.workbench.predict import Model


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
        return framed(saved_page(bench, source, target, views=("attention", "tokenise")))
    except TooMuch:
        return TextAttention.of(model.trace(source, target)).html()
