"""Which label was taken for which, as an image: rows are the truth, columns the answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.plotting import DPI, label_text, save_figure

MAX_LABELS = 24
"""With more labels than this, only the commonest are drawn: nobody reads more."""


def draw_confusion(labels: Sequence[str], counts: Sequence[Sequence[int]], path: Path) -> None:
    """Each cell is colored by its share of its row, and says how many there were; what is not drawn is one column."""
    has_chinese_font = use_chinese_font()
    table = np.array(counts)
    kept = np.sort(np.argsort(-table.sum(1), kind="stable")[:MAX_LABELS])
    names, rows = [labels[place] for place in kept], table[kept]
    table = rows[:, kept]
    if len(labels) > len(kept):  # else a row would look as if it had no other answers
        table = np.column_stack([table, rows.sum(1) - table.sum(1)])
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    answers = [*names, label_text("others", has_chinese_font)][: table.shape[1]]
    size = 2.2 + 0.55 * len(names)
    figure = Figure(figsize=(max(size + 1, 5), max(size, 3.5)), dpi=DPI, layout="constrained")
    panel = figure.add_subplot()
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    panel.set_xticks(range(len(answers)), answers, rotation=45, ha="right")
    panel.set_yticks(range(len(names)), names)
    panel.set_xlabel(label_text("answer", has_chinese_font))
    panel.set_ylabel(label_text("truth", has_chinese_font))
    for row, column in np.argwhere(table):
        color = "white" if shares[row, column] > 0.55 else "black"
        panel.text(column, row, f"{table[row, column]:,}", ha="center", va="center", fontsize=9, color=color)
    save_figure(figure, path)
