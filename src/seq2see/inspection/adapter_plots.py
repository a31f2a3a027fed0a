"""Plot of an adapter: what it does to the singular values of each matrix.

The left panel is a heat map: a row for each matrix, sorted by their place in a block, and from left to right its
singular values, the largest first. The color is the factor of the singular value: z of singular value fine-tuning, or
the singular value of the changed matrix over that of the frozen one. The right panel has the singular values of a few
matrices before and after.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from seq2see.inspection.plotting import BLUE, DPI, GRAY, GREEN, ORANGE, label_text, save_figure, use_chinese_font
from seq2see.inspection.singular_values import COLUMNS, AdaptedMatrix, resampled

ROW_HEIGHT, SMALLEST, LARGEST = 0.17, 3.6, 9.0
"""The height of a row, and the smallest and the largest height of the figure, in inches."""
SHOWN = 3
"""The number of matrices in the right panel: those that changed most."""


def kind_of(name: str) -> str:
    """The name of a matrix without the numbers of blocks; such matrices have the same place in each block.

    >>> kind_of("decoder.blocks.12.self_attention.q_proj")
    'decoder.self_attention.q_proj'
    """
    return re.sub(r"\.blocks\.\d+", "", name)


def draw_adapter(matrices: Sequence[AdaptedMatrix], path: Path) -> None:
    """Draw the factors of all matrices, and the singular values of those that changed most."""
    has_chinese_font = use_chinese_font()
    height = min(max(1.6 + ROW_HEIGHT * len(matrices), SMALLEST), LARGEST)
    figure = Figure(figsize=(13, height), dpi=DPI, layout="constrained")
    heat, lines = figure.subplots(1, 2, width_ratios=[3, 2])

    by_kind: dict[str, list[AdaptedMatrix]] = {}
    for each in matrices:
        by_kind.setdefault(kind_of(each.name), []).append(each)
    table = np.stack([resampled(each.factors) for group in by_kind.values() for each in group])
    span = max(float(np.abs(table - 1).max()), 1e-3)
    colors = heat.imshow(table, cmap="PuOr_r", vmin=1 - span, vmax=1 + span, aspect="auto", interpolation="nearest")
    ends = np.cumsum([len(group) for group in by_kind.values()])
    centers = [end - len(group) / 2 - 0.5 for end, group in zip(ends, by_kind.values(), strict=True)]
    heat.set_yticks(centers, list(by_kind), fontsize=8)
    for end in ends[:-1]:
        heat.axhline(end - 0.5, color=GRAY, linewidth=0.6)
    heat.set_xticks([0, COLUMNS - 1], [label_text(each, has_chinese_font) for each in ("largest", "smallest")])
    heat.set_xlabel(label_text("singular_values", has_chinese_font))
    heat.set_title(label_text("factor", has_chinese_font), fontsize=10)
    figure.colorbar(colors, ax=heat, pad=0.01)

    chosen = sorted(matrices, key=lambda each: -each.change)[:SHOWN]
    for each, color in zip(chosen, (BLUE, ORANGE, GREEN), strict=False):
        lines.plot(range(1, len(each.before) + 1), each.before, color=color, linestyle=":")
        lines.plot(range(1, len(each.after) + 1), each.after, color=color, label=each.name)
    lines.set_ylim(bottom=0)
    lines.set_xlabel(label_text("value_rank", has_chinese_font))
    lines.set_title(label_text("before_after", has_chinese_font), fontsize=10)
    lines.legend(fontsize=8, frameon=False)
    lines.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
