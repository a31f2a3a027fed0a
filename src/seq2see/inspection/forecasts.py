"""A series and what was said of it, several steps ahead: one panel for each number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.pictures import DOTS, GREY, ORANGE, in_words, save


def draw_forecasts(first: int, truth: NDArray[np.float64], said: Mapping[int, NDArray[np.float64]], path: Path) -> None:
    """The true values from time `first` on, and over them, for each number of steps ahead, the forecasts."""
    chinese = use_chinese_font()
    figure = Figure(figsize=(12, 2.6 * len(said)), dpi=DOTS, layout="constrained")
    panels = figure.subplots(len(said), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    times = np.arange(first, first + len(truth))
    for panel, (ahead, guesses) in zip(panels, said.items(), strict=True):
        panel.plot(times, truth, color=GREY, linewidth=1, label=in_words("series", chinese))
        panel.plot(times, guesses, color=ORANGE, linewidth=2.2, label=in_words("forecast", chinese))
        panel.set_title(f"{in_words('ahead', chinese)}: {ahead}", loc="left", fontsize=13)
        panel.grid(color="#DDDDDD", linewidth=0.8)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    panels[0].legend(frameon=False, fontsize=11, ncols=2, loc="upper right")
    panels[-1].set_xlabel(in_words("time", chinese), fontsize=13)
    save(figure, path)
