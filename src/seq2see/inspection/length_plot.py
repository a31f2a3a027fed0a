"""The plot of a score by source length, one line for each system.

Bands show the minimum and the maximum over the seeds. The axis labels contain the number of sentences in each group,
because a score on few sentences is not reliable.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.plotting import DPI, PALETTE, label_line_ends, label_text, save_figure

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
