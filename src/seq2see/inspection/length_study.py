"""Who suffers from long sentences: a score by the length of the source, one line for each system.

Bands show the lowest and the highest of the seeds. The group sizes stand below the lengths, because a
score on few sentences says little.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.pictures import DOTS, SEVERAL, in_words, name_ends, save

GROUP = ("words", "pairs")
"""What a row says of its group of sentences; every other key is a system with one score for each seed."""


def draw_lengths(rows: Sequence[dict[str, Any]], path: Path, about: str = "") -> None:
    """Draw rows such as {"words": "9–10", "pairs": 238, "gru": [31.2, 30.9], ...}; `about` is kept in the file."""
    chinese = use_chinese_font()
    figure = Figure(figsize=(11, 6), dpi=DOTS)
    panel = figure.add_axes((0.07, 0.15, 0.68, 0.75))
    places = np.arange(len(rows))
    panel.set_title(in_words("bleu_by_length", chinese), loc="left", fontsize=16)
    panel.set_xlabel(in_words("source_words", chinese), fontsize=13)
    panel.set_xticks(places, [f"{row['words']}\n({row['pairs']:,})" for row in rows], fontsize=12)
    panel.set_xlim(-0.15, len(rows) - 0.8)
    panel.tick_params(labelsize=12)
    panel.grid(color="#DDDDDD", linewidth=0.8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    ends = []
    for name, colour in zip(_systems(rows), SEVERAL * len(rows), strict=False):
        ends.append((_draw(panel, [row[name] for row in rows], colour), name, colour))
    panel.set_ylim(bottom=0)
    name_ends(panel, ends)
    save(figure, path, about)


def _systems(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [key for key in dict.fromkeys(key for row in rows for key in row) if key not in GROUP]


def _draw(panel: Axes, scores: Sequence[Sequence[float]], colour: str) -> float:
    """One system; gives the height at which its line ends."""
    places, means = np.arange(len(scores)), [float(np.mean(seeds)) for seeds in scores]
    panel.fill_between(
        places, [min(seeds) for seeds in scores], [max(seeds) for seeds in scores], color=colour, alpha=0.15
    )
    panel.plot(places, means, "o-", color=colour, linewidth=2.5, markersize=7)
    return means[-1]
