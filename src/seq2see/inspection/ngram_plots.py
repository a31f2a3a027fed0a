"""Two plots of n-gram models: perplexity by order, and frequency by rank (Zipf's law)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.plotting import BLUE, DPI, GREEN, ORANGE, label_text, save_figure
from seq2see.metrics.zipf import rank_ranges, zipf_slope

COLORS = (BLUE, GREEN, ORANGE)


def draw_orders(metrics: Sequence[Mapping[str, Any]], unit: str, path: Path) -> None:
    """Draw the perplexity and the share of unseen n-grams of the validation text by order, from `metrics.jsonl`."""
    has_chinese_font = use_chinese_font()
    figure = Figure(figsize=(14, 6), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2)
    orders = [row["step"] for row in metrics]
    perplexities = np.exp([row["valid_loss"] for row in metrics])
    left.semilogy(orders, perplexities, "o-", color=ORANGE, linewidth=2.5)
    right.plot(orders, [row["unseen_ngrams"] for row in metrics], "o-", color=BLUE, linewidth=2.5)
    for order, perplexity, row in zip(orders, perplexities, metrics, strict=True):
        _annotate(left, order, perplexity, f"{perplexity:.4g}", ORANGE)
        _annotate(right, order, row["unseen_ngrams"], f"{row['unseen_ngrams']:.1%}", BLUE)
    left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    left.yaxis.set_minor_formatter(NullFormatter())
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    right.set_ylim(-0.05, 1.1)
    for panel, title in ((left, f"perplexity_per_{unit}"), (right, "unseen")):
        _style_axes(panel, label_text(title, has_chinese_font), label_text("order", has_chinese_font))
        panel.set_xticks(orders)
        panel.margins(x=0.1, y=0.12)
    save_figure(figure, path)


def draw_zipf(frequencies: Mapping[str, Mapping[str, Sequence[int]]], path: Path) -> None:
    """Draw frequency over rank on logarithmic axes, from the distinct counts of each order and their frequencies."""
    has_chinese_font = use_chinese_font()
    figure = Figure(figsize=(10, 7), dpi=DPI, layout="constrained")
    panel = figure.subplots()
    for color, (order, spectrum) in zip(COLORS, frequencies.items(), strict=False):
        counts, times = spectrum["counts"], spectrum["frequencies"]
        first, last = rank_ranges(counts, times)
        ranks = np.stack([first, last], axis=1).flatten()
        name = f"{order}  ({label_text('slope', has_chinese_font)} {zipf_slope(counts, times):.2f})"
        panel.loglog(ranks, np.repeat(counts, 2), "-", color=color, linewidth=2.2, label=name)
    _style_axes(panel, label_text("zipf", has_chinese_font), label_text("rank", has_chinese_font))
    panel.set_ylabel(label_text("frequency", has_chinese_font), fontsize=13)
    panel.legend(title=label_text("order", has_chinese_font), fontsize=12, title_fontsize=12, frameon=False)
    save_figure(figure, path)


def _annotate(panel: Axes, order: int, value: float, text: str, color: str) -> None:
    offset = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center"}
    panel.annotate(text, (order, value), fontsize=11, color=color, **offset)  # type: ignore[arg-type]


def _style_axes(panel: Axes, title: str, x_label: str) -> None:
    panel.set_title(title, loc="left", fontsize=15)
    panel.set_xlabel(x_label, fontsize=13)
    panel.tick_params(labelsize=12)
    panel.grid(color="#DDDDDD", linewidth=0.8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
