"""The plot of one word in several sentences: the cosine similarity of its vectors, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.plotting import DPI, PALETTE, label_text, save_figure

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
