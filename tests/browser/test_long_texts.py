"""A thousand tokens: every view that takes a text answers, and its page is not frozen meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from looking import follow

from conftest import DRAWN
from seq2see.decoding.settings import Decoding
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.server import serving
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, TextTarget, Tokens
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import Characters
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.workbench.model_folder import ModelConfig, StoredModel
from seq2see.workbench.predict import Model, opened
from seq2see.workbench.tokenisers import Tokenisers

TEXT = ("我有一支笔，你有两本书。" * 84)[:999]
COMPARED = 980
"""Tokens of a text that still has room for an answer beside it: attention is shown of a thousand."""
FROZEN = 1500
"""Milliseconds that a page may be deaf on a machine that does other things besides; alone, it is a fifth."""
WATCH = """() => {
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.frozen = Math.max(window.frozen, duration);
  }).observe({ type: "longtask" });
}"""


@pytest.fixture(scope="module")
def long_writer() -> Model:
    """A language model that reads a thousand characters; its weights are random."""
    settings = ModelSettings(
        target=TextTarget(frontend=Tokens(), longest=1024),
        decoder=TransformerSettings(width=16, depth=2, heads=2, dropout=0.0),
    )
    letters = train_tokeniser(Characters(), [TEXT])
    module = fresh_model(settings, (len(letters), len(letters)), "xavier", seed=1).eval()
    config = ModelConfig(name="long", step=1, model=settings, decoding=Decoding(max_new_tokens=8))
    return opened(StoredModel(config, module, Tokenisers(letters, letters)))


@pytest.fixture(scope="module")
def link(long_writer: Model) -> Iterator[str]:
    run = OpenRun("r1", "long", None, Path())
    run.model = long_writer
    with serving(Bench({"r1": run})) as keys:
        yield keys.link


@pytest.fixture
def look(page: Any, link: str) -> Any:
    """Opens a view of the long text, and tells how long its page was deaf at most."""
    home = link.partition("#")[0]

    def look_at(view: str) -> float:
        if not page.url.startswith(home):
            page.goto(f"{link}&view=tokenise&text=笔")
            page.wait_for_selector(DRAWN)
            page.evaluate(WATCH)
        page.evaluate("window.frozen = 0")
        text = TEXT[:COMPARED] if view == "compare" else TEXT
        follow(page, urlencode({"view": view, "run": "r1", "text": text}), 30_000)
        assert page.locator(".complaint").count() == 0
        page.wait_for_timeout(100)
        return page.evaluate("window.frozen")

    return look_at


@pytest.mark.parametrize(
    "view", ["tokenise", "positions", "attention", "one-head", "next-token", "decode", "compare", "architecture"]
)
def test_a_thousand_tokens_do_not_freeze_a_page(look, page, view):
    assert look(view) < FROZEN or look(view) < FROZEN  # once more, if the machine did other things besides
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
