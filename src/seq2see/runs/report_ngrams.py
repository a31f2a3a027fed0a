"""The parts of a report for n-gram models: perplexity by order, and the frequencies of n-grams."""

from __future__ import annotations

import json
import math
from typing import Any

from seq2see.data.windows import UNITS
from seq2see.metrics.zipf import zipf_slope
from seq2see.runs.report_page import bilingual, cell, head, image, table
from seq2see.runs.report_strings import TEXTS
from seq2see.runs.run_folder import RunFolder

Tree = dict[str, Any]


def is_ngram_model(recipe: Tree) -> bool:
    """Whether a recipe (a TOML tree) has an n-gram model."""
    return bool(recipe.get("decoder", {}).get("kind") == "ngram")


def unit_of(recipe: Tree) -> str:
    """The unit that an n-gram recipe predicts: character, word or token."""
    return UNITS.get(recipe["target"]["tokenizer"]["kind"], "token")


def orders(recipe: Tree, metrics: list[Tree]) -> str:
    """A row for each order: distinct n-grams, validation perplexity, and unseen n-grams."""
    if not is_ngram_model(recipe):
        return ""
    titles = ("order", "kinds", "valid_perplexity", "unseen_ngrams")
    rows = [[head(bilingual(title), "number") for title in titles]]
    for row in metrics:
        perplexity = f"{math.exp(row['valid_loss']):.2f}"
        shown = (f"{row['step']}", f"{row['ngrams']:,}", perplexity, f"{row['unseen_ngrams']:.1%}")
        rows.append([cell(value, "number") for value in shown])
    return table(rows) + f'<p class="note">{bilingual("orders_note")}</p>'


def frequencies(run: RunFolder) -> str:
    """The rank-frequency plot, and the slope of each of its lines."""
    path = run.path / "zipf.json"
    if not path.exists():
        return ""
    from seq2see.inspection.result_plots import draw_zipf  # matplotlib only where it is used

    orders: dict[str, dict[str, list[int]]] = json.loads(path.read_text(encoding="utf-8"))
    draw_zipf(orders, run.path / "zipf.png")
    rows = [[head(bilingual(title), "number") for title in ("order", "kinds", "once", "slope")]]
    for order, each in orders.items():
        kinds, once = sum(each["frequencies"]), each["frequencies"][-1] if each["counts"][-1] == 1 else 0
        slope = zipf_slope(each["counts"], each["frequencies"])
        shown = (order, f"{kinds:,}", f"{once / kinds:.1%}", "" if math.isnan(slope) else f"{slope:.2f}")
        rows.append([cell(value, "number") for value in shown])
    return image(run.path / "zipf.png", TEXTS["zipf"]) + table(rows) + f'<p class="note">{bilingual("zipf_note")}</p>'
