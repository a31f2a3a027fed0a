"""One word in several sentences, as a picture: how alike its vectors are, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.pictures import DOTS, SEVERAL, in_words, save

FEW = 8
"""Names of layers that stand side by side; more are written upwards."""


def draw_contexts(
    word: str, pairs: Sequence[tuple[int, int]], cosines: Mapping[str, Sequence[float]], path: Path
) -> None:
    """A line for each pair of sentences, from the table of vectors to the last block."""
    chinese = use_chinese_font()
    figure = Figure(figsize=(9, 5.5), dpi=DOTS, layout="constrained")
    panel = figure.add_subplot()
    names = list(cosines)
    for number, (first, second) in enumerate(pairs):
        line = [cosines[name][number] for name in names]
        colour = SEVERAL[number % len(SEVERAL)]
        panel.plot(range(len(names)), line, "o-", color=colour, linewidth=2.2, label=f"{first + 1} – {second + 1}")
    panel.set_xticks(range(len(names)), names, rotation=0 if len(names) <= FEW else 90)
    panel.set_title(f"{in_words('contexts', chinese)}: {word}", loc="left", fontsize=15)
    panel.set_ylabel(in_words("cosine", chinese), fontsize=13)
    panel.grid(color="#DDDDDD", linewidth=0.8)
    panel.legend(title=in_words("sentences", chinese), frameon=False, fontsize=11)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    save(figure, path)
