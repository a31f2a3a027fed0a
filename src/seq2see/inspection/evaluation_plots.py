"""Plots of an evaluation: confusion matrix, score by length, forecasts, and words in context.

Bands show the minimum and the maximum over the seeds. The axis labels contain the number of sentences in each group,
because a score on few sentences is not reliable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seq2see.inspection.plotting import (
    DPI,
    GRAY,
    ORANGE,
    PALETTE,
    label_line_ends,
    label_text,
    save_figure,
    use_chinese_font,
)

MAX_LABELS = 24
"""The most frequent labels are drawn, at most this many."""


def draw_confusion(labels: Sequence[str], counts: Sequence[Sequence[int]], path: Path) -> None:
    """Draw counts, colored by their share of the row; labels beyond `MAX_LABELS` are joined in one column."""
    has_chinese_font = use_chinese_font()
    table = np.array(counts)
    indices = np.sort(np.argsort(-table.sum(1), kind="stable")[:MAX_LABELS])
    names, rows = [labels[index] for index in indices], table[indices]
    table = rows[:, indices]
    if len(labels) > len(indices):  # else the predictions of the other labels would be missing from the row
        table = np.column_stack([table, rows.sum(1) - table.sum(1)])
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    columns = [*names, label_text("others", has_chinese_font)][: table.shape[1]]
    size = 2.2 + 0.55 * len(names)
    figure = Figure(figsize=(max(size + 1, 5), max(size, 3.5)), dpi=DPI, layout="constrained")
    panel = figure.add_subplot()
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    panel.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
    panel.set_yticks(range(len(names)), names)
    panel.set_xlabel(label_text("prediction", has_chinese_font))
    panel.set_ylabel(label_text("truth", has_chinese_font))
    for row, column in np.argwhere(table):
        color = "white" if shares[row, column] > 0.55 else "black"
        panel.text(column, row, f"{table[row, column]:,}", ha="center", va="center", fontsize=9, color=color)
    save_figure(figure, path)


GROUP = ("words", "pairs")
"""The keys of a row that describe its group of sentences; every other key is a system with one score for each seed."""


def draw_lengths(rows: Sequence[dict[str, Any]], path: Path, description: str = "") -> None:
    """Draw rows such as {"words": "9–10", "pairs": 238, "gru": [31.2, 30.9], ...}; `description` goes into the file."""
    has_chinese_font = use_chinese_font()
    figure = Figure(figsize=(11, 6), dpi=DPI)
    panel = figure.add_axes((0.07, 0.15, 0.68, 0.75))
    positions = np.arange(len(rows))
    panel.set_title(label_text("bleu_by_length", has_chinese_font), loc="left", fontsize=16)
    panel.set_xlabel(label_text("source_words", has_chinese_font), fontsize=13)
    panel.set_xticks(positions, [f"{row['words']}\n({row['pairs']:,})" for row in rows], fontsize=12)
    panel.set_xlim(-0.15, len(rows) - 0.8)
    panel.tick_params(labelsize=12)
    panel.grid(color="#DDDDDD", linewidth=0.8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    ends = []
    for name, color in zip(_systems(rows), PALETTE * len(rows), strict=False):
        ends.append((_draw(panel, [row[name] for row in rows], color), name, color))
    panel.set_ylim(bottom=0)
    label_line_ends(panel, ends)
    save_figure(figure, path, description)


def _systems(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [key for key in dict.fromkeys(key for row in rows for key in row) if key not in GROUP]


def _draw(panel: Axes, scores: Sequence[Sequence[float]], color: str) -> float:
    """Draw one system; returns the last value of its line."""
    positions, means = np.arange(len(scores)), [float(np.mean(seeds)) for seeds in scores]
    panel.fill_between(
        positions, [min(seeds) for seeds in scores], [max(seeds) for seeds in scores], color=color, alpha=0.15
    )
    panel.plot(positions, means, "o-", color=color, linewidth=2.5, markersize=7)
    return means[-1]


def draw_forecasts(
    first: int, values: NDArray[np.float64], predictions: Mapping[int, NDArray[np.float64]], path: Path
) -> None:
    """Draw the true values, which start at time `first`, and the forecasts of each horizon (in steps) over them."""
    has_chinese_font = use_chinese_font()
    figure = Figure(figsize=(12, 2.6 * len(predictions)), dpi=DPI, layout="constrained")
    panels = figure.subplots(len(predictions), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    times = np.arange(first, first + len(values))
    for panel, (horizon, forecasts) in zip(panels, predictions.items(), strict=True):
        panel.plot(times, values, color=GRAY, linewidth=1, label=label_text("series", has_chinese_font))
        panel.plot(times, forecasts, color=ORANGE, linewidth=2.2, label=label_text("forecast", has_chinese_font))
        panel.set_title(f"{label_text('horizon', has_chinese_font)}: {horizon}", loc="left", fontsize=13)
        panel.grid(color="#DDDDDD", linewidth=0.8)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    panels[0].legend(frameon=False, fontsize=11, ncols=2, loc="upper right")
    panels[-1].set_xlabel(label_text("time", has_chinese_font), fontsize=13)
    save_figure(figure, path)


MAX_HORIZONTAL_LABELS = 8
"""With more layers than this, the axis labels are vertical."""


def draw_contexts(
    word: str, pairs: Sequence[tuple[int, int]], cosines: Mapping[str, Sequence[float]], path: Path
) -> None:
    """Draw one line for each pair of sentences, from the embedding table to the last block."""
    has_chinese_font = use_chinese_font()
    figure = Figure(figsize=(9, 5.5), dpi=DPI, layout="constrained")
    panel = figure.add_subplot()
    names = list(cosines)
    for number, (first, second) in enumerate(pairs):
        line = [cosines[name][number] for name in names]
        color = PALETTE[number % len(PALETTE)]
        panel.plot(range(len(names)), line, "o-", color=color, linewidth=2.2, label=f"{first + 1} – {second + 1}")
    panel.set_xticks(range(len(names)), names, rotation=0 if len(names) <= MAX_HORIZONTAL_LABELS else 90)
    panel.set_title(f"{label_text('contexts', has_chinese_font)}: {word}", loc="left", fontsize=15)
    panel.set_ylabel(label_text("cosine", has_chinese_font), fontsize=13)
    panel.grid(color="#DDDDDD", linewidth=0.8)
    panel.legend(title=label_text("sentences", has_chinese_font), frameon=False, fontsize=11)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    save_figure(figure, path)
