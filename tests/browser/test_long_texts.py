"""A thousand tokens: every view of texts responds, and does not block the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from page_data import follow_link

from conftest import DRAWN
from seq2see.data.tokenizers.tokenizer import Characters, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.explorer.server import serve_in_thread
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.load import open_model
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

TEXT = ("我有一支笔，你有两本书。" * 84)[:999]
COMPARED = 980
"""Tokens of a text whose output fits into the thousand tokens for which attention is shown."""
MAX_BLOCKED = 1500
"""Milliseconds for which a page may be blocked on a busy machine; on an idle one it is a fifth."""
WATCH = """() => {
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.blocked = Math.max(window.blocked, duration);
  }).observe({ type: "longtask" });
}"""


@pytest.fixture(scope="module")
def long_text_model() -> Model:
    """A language model for a thousand characters with random weights."""
    settings = ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(), max_tokens=1024),
        decoder=TransformerSettings(width=16, depth=2, heads=2, dropout=0.0),
    )
    tokenizer = train_tokenizer(Characters(), [TEXT])
    module = fresh_model(settings, (len(tokenizer), len(tokenizer)), "xavier", seed=1).eval()
    config = ModelConfig(
        task=pretrained_task(settings), name="long", step=1, model=settings, decoding=Decoding(max_new_tokens=8)
    )
    return open_model(StoredModel(config, module, Tokenizers(tokenizer, tokenizer)))


@pytest.fixture(scope="module")
def link(long_text_model: Model) -> Iterator[str]:
    run = OpenRun("r1", "long", None, Path())
    run.model = long_text_model
    with serve_in_thread(Workspace({"r1": run})) as server:
        yield server.link


@pytest.fixture
def open_long(page: Any, link: str) -> Any:
    """Open a view of the long text, and return the maximum time for which its page was blocked."""
    home = link.partition("#")[0]

    def open_it(view: str) -> float:
        if not page.url.startswith(home):
            page.goto(f"{link}&view=tokenize&text=笔")
            page.wait_for_selector(DRAWN)
            page.evaluate(WATCH)
        page.evaluate("window.blocked = 0")
        text = TEXT[:COMPARED] if view == "compare" else TEXT
        follow_link(page, urlencode({"view": view, "run": "r1", "text": text}), 30_000)
        assert page.locator(".error").count() == 0
        page.wait_for_timeout(100)
        return page.evaluate("window.blocked")

    return open_it


@pytest.mark.parametrize(
    "view", ["tokenize", "positions", "attention", "single-head", "next-token", "decode", "compare", "architecture"]
)
def test_a_thousand_tokens_do_not_block_a_page(open_long, page, view):
    assert open_long(view) < MAX_BLOCKED or open_long(view) < MAX_BLOCKED  # again, if the machine was busy
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
