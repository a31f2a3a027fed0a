"""The plot of a series and its forecasts: one panel for each forecast horizon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.plotting import DPI, GRAY, ORANGE, label_text, save_figure


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
