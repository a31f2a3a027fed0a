"""Plot of an adapter: what it does to the singular values of each matrix.

The left panel is a heat map: a row for each matrix, and from left to right its singular values, the largest first. The
color is the factor of the singular value: z of singular value fine-tuning, or the singular value of the changed matrix
over that of the frozen one. The right panel has the singular values of a few matrices before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from seq2see.inspection.plotting import BLUE, DPI, GREEN, ORANGE, label_text, save_figure, use_chinese_font
from seq2see.inspection.singular_values import COLUMNS, AdaptedMatrix, resampled

ROW_HEIGHT, SMALLEST, LARGEST = 0.17, 3.2, 40.0
"""The height of a row, and the smallest and the largest height of the figure, in inches."""
LABEL_ROWS = 70
"""With more matrices than this, only every second, third, ... row has a name."""
SHOWN = 3
"""The number of matrices in the right panel: those that changed most."""


def draw_adapter(matrices: Sequence[AdaptedMatrix], path: Path) -> None:
    """Draw the factors of all matrices, and the singular values of those that changed most."""
    has_chinese_font = use_chinese_font()
    table = np.stack([resampled(each.factors) for each in matrices])
    span = max(float(np.abs(table - 1).max()), 1e-3)
    height = min(max(1.6 + ROW_HEIGHT * len(matrices), SMALLEST), LARGEST)
    figure = Figure(figsize=(13, height), dpi=DPI, layout="constrained")
    heat, lines = figure.subplots(1, 2, width_ratios=[3, 2])
    colors = heat.imshow(table, cmap="PuOr_r", vmin=1 - span, vmax=1 + span, aspect="auto", interpolation="nearest")
    step = -(-len(matrices) // LABEL_ROWS)
    heat.set_yticks(range(0, len(matrices), step), [each.name for each in matrices[::step]], fontsize=7)
    heat.set_xticks([0, COLUMNS - 1], [label_text(each, has_chinese_font) for each in ("largest", "smallest")])
    heat.set_xlabel(label_text("singular_values", has_chinese_font))
    figure.colorbar(colors, ax=heat, label=label_text("factor", has_chinese_font), pad=0.01)

    chosen = sorted(matrices, key=lambda each: -each.change)[:SHOWN]
    for each, color in zip(chosen, (BLUE, ORANGE, GREEN), strict=False):
        lines.plot(range(1, len(each.before) + 1), each.before, color=color, linestyle=":")
        lines.plot(range(1, len(each.after) + 1), each.after, color=color, label=each.name)
    lines.set_ylim(bottom=0)
    lines.set_xlabel(label_text("value_rank", has_chinese_font))
    lines.set_title(label_text("before_after", has_chinese_font), fontsize=10)
    lines.legend(fontsize=7, frameon=False)
    lines.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
