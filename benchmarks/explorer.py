"""How long a learner waits in the explorer: for the first view, for a pointer, for a thousand tokens.

    python benchmarks/explorer.py      about two minutes; needs Chromium

A pocket Transformer of the usual size (two steps of training: its weights are worth nothing, but as many as ever) is
looked into in a real browser; a small GPT gives the map of a thousand by a thousand tokens. Each figure has a bound
that it must keep, and the program ends with an error if one does not.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from seq2see.api import train
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.explorer.server import serve_in_thread
from seq2see.explorer.workspace import Workspace

REPEATS = 9
RESULTS = Path(__file__).parent / "results" / "explorer.json"
DRAWN = "section.view:not([aria-busy])"
TOKENS = 1000
BUSY = "the machine did other work too: waits are an upper bound"
IMAGE = ".attention-image canvas"

# Milliseconds from the moment that the page's script begins to run until the view is drawn.
SINCE_LOAD = f"""async () => {{
  while (!document.querySelector("{IMAGE}")?.shown) await new Promise(requestAnimationFrame);
  return performance.now() - performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd;
}}"""
# Milliseconds from a movement of the pointer until the cell is told and painted.
HOVER = f"""async (place) => {{
  const canvas = document.querySelector("{IMAGE}"), told = document.querySelector(".attention-image .heat-told");
  const box = canvas.getBoundingClientRect(), before = told.textContent, began = performance.now();
  const at = {{ clientX: box.left + box.width * place, clientY: box.top + box.height * place, bubbles: true }};
  canvas.dispatchEvent(new PointerEvent("pointermove", at));
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  return told.textContent === before ? -1 : performance.now() - began;
}}"""
# Milliseconds for a map of so many by so many cells: fetched from the server, and painted.
MAP = """async ([run, text]) => {
  const { numbers } = await import("/page/ask.js"), { heatMap } = await import("/page/parts/heat_map.js");
  const body = { run, text, target: null, layer: 0, head: 0, heads: "one" }, began = performance.now();
  const { shape: [count, width], values } = await numbers("attention/head", body), fetched = performance.now();
  const names = Array.from({ length: width }, (_, place) => String(place));
  const map = heatMap({ name: "map", rows: names.slice(0, count), columns: names, values });
  document.querySelector("main").replaceChildren(map.element);
  map.layOut();
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  const painted = performance.now();
  map.element.remove();
  return { cells: values.length, fetched: fetched - began, painted: painted - fetched };
}"""


def first_views(browser: Any, link: str) -> list[float]:
    """A new window every time: nothing is kept in it."""
    times = []
    for _ in range(REPEATS + 1):
        page = browser.new_context().new_page()
        page.goto(f"{link}&{urlencode({'view': 'attention', 'run': 'r1', 'text': '我有一支笔'})}")
        times.append(page.evaluate(SINCE_LOAD))
        page.context.close()
    return times[1:]  # the first reads files from the disk


def hovers(page: Any, link: str) -> list[float]:
    page.goto(f"{link}&{urlencode({'view': 'attention', 'run': 'r1', 'text': '我有一支笔'})}")
    page.wait_for_selector(DRAWN)
    places = [0.45 + 0.5 * (number % 7) / 7 for number in range(REPEATS * 3)]
    return [each for each in (page.evaluate(HOVER, place) for place in places) if each >= 0]


def maps(page: Any) -> list[dict[str, float]]:
    """Texts of their own, so that nothing is kept from the one before; <bos> is a token too."""
    texts = [f"{number:03d} " + "the cat sat on the mat. " * 60 for number in range(REPEATS)]
    return [page.evaluate(MAP, ["r2", text[: TOKENS - 1]]) for text in texts]


def row(name: str, times: list[float], bound: float) -> dict[str, object]:
    milliseconds = statistics.median(times)
    return {"wait": name, "milliseconds": milliseconds, "bound": bound, "kept": milliseconds < bound, "all": times}


def measure(folder: str) -> list[dict[str, object]]:
    train("pocket-transformer", out=f"{folder}/pocket", set={"training.steps": 2, "corpus.size": 200})
    book = Path(folder, "book.txt")
    book.write_text("000 the cat sat on the mat. 123456789\n" * 200, encoding="utf-8")
    small = {
        "training.steps": 2,
        "decoder.width": 64,
        "decoder.depth": 2,
        "target.max_tokens": 1024,
        "training.batch_tokens": 2048,
    }
    train("write", book, out=f"{folder}/gpt", set=small)
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with (
        serve_in_thread(Workspace.open([f"{folder}/pocket", f"{folder}/gpt"])) as keys,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        first = first_views(browser, keys.link)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        pointed = hovers(page, keys.link)
        painted = maps(page)
        browser.close()
    assert all(each["cells"] == TOKENS**2 for each in painted), painted[0]
    whole = [each["fetched"] + each["painted"] for each in painted]
    return [
        row("first view of a pocket model, after the page is loaded", first, 1000),
        row("a cell that is pointed at", pointed, 50),
        row("1,000 × 1,000 tokens of a small GPT: computed, fetched and painted", whole, 1000),
        row("of it, painting", [each["painted"] for each in painted], 1000),
    ]


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        rows = measure(place)
    print("\n".join(json.dumps(each | {"all": None}, ensure_ascii=False) for each in rows))
    busy = {"note": BUSY} if os.getloadavg()[1] > 2 * (os.cpu_count() or 1) else {}
    environment = describe_machine() | busy
    write_json(RESULTS, {"environment": environment, "command": "python benchmarks/explorer.py", "rows": rows})
    sys.exit(not all(each["kept"] for each in rows))
