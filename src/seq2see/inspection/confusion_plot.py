"""The plot of a confusion matrix: rows are true labels, columns are predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.plotting import DPI, label_text, save_figure

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
