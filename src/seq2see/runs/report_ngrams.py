"""The parts of a report that only a counting run has: what each order is worth, and how frequent n-grams are."""

from __future__ import annotations

import json
import math
from typing import Any

from seq2see.metrics.zipf import zipf_slope
from seq2see.runs.report_page import bilingual, cell, head, image, table
from seq2see.runs.report_strings import TEXTS
from seq2see.runs.run_folder import RunFolder
from seq2see.sequences.windows import UNITS

Tree = dict[str, Any]


def is_ngram_model(recipe: Tree) -> bool:
    """Whether a recipe, as TOML has it, counts instead of training step by step."""
    return bool(recipe.get("decoder", {}).get("kind") == "ngram")


def unit_of(recipe: Tree) -> str:
    """What a counting recipe's guesses are about."""
    return UNITS.get(recipe["target"]["tokenizer"]["kind"], "token")


def orders(recipe: Tree, notes: list[Tree]) -> str:
    """A row for each order: its n-grams, and how it finds the validation text."""
    if not is_ngram_model(recipe):
        return ""
    titles = ("order", "kinds", "valid_perplexity", "unseen_ngrams")
    rows = [[head(bilingual(title), "number") for title in titles]]
    for note in notes:
        perplexity = f"{math.exp(note['valid_loss']):.2f}"
        shown = (f"{note['step']}", f"{note['ngrams']:,}", perplexity, f"{note['unseen']:.1%}")
        rows.append([cell(figure, "number") for figure in shown])
    return table(rows) + f'<p class="note">{bilingual("orders_note")}</p>'


def frequencies(run: RunFolder) -> str:
    """Frequency by rank: an image, and the slope of each of its lines."""
    path = run.path / "zipf.json"
    if not path.exists():
        return ""
    from seq2see.inspection.ngram_plots import draw_zipf  # matplotlib only where it is used

    found: dict[str, dict[str, list[int]]] = json.loads(path.read_text(encoding="utf-8"))
    draw_zipf(found, run.path / "zipf.png")
    rows = [[head(bilingual(title), "number") for title in ("order", "kinds", "once", "slope")]]
    for order, each in found.items():
        kinds, once = sum(each["frequencies"]), each["frequencies"][-1] if each["counts"][-1] == 1 else 0
        slope = zipf_slope(each["counts"], each["frequencies"])
        shown = (order, f"{kinds:,}", f"{once / kinds:.1%}", "" if math.isnan(slope) else f"{slope:.2f}")
        rows.append([cell(figure, "number") for figure in shown])
    return image(run.path / "zipf.png", TEXTS["zipf"]) + table(rows) + f'<p class="note">{bilingual("zipf_note")}</p>'
