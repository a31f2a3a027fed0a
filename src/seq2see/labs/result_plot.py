"""The plot of a result: the measured lines, and the interval of each quantity with its threshold."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes as Panel
from matplotlib.figure import Figure

from seq2see.inspection.plotting import BLUE, DPI, GRAY, ORANGE, PALETTE, save_figure, use_chinese_font
from seq2see.labs.claims import Claim
from seq2see.labs.experiment import Axes
from seq2see.labs.verdicts import CHINESE_VERDICTS, Text, Verdict


def draw_result(claim: Claim, result: dict[str, Any], axes: Axes | None, path: Path) -> None:
    """Draw a result as a PNG file; with a Chinese font, the texts are in both languages."""
    has_chinese = use_chinese_font()

    def text(both: Text) -> str:
        return "\n".join(both) if has_chinese and both[0] != both[1] else both[0]

    quantities, lines = result["quantities"], result["lines"] if axes else {}
    height = 2.6 + 1.5 * len(quantities)
    figure = Figure(figsize=(15 if lines else 9, max(5.0, height)), dpi=DPI, layout="constrained")
    grid = figure.add_gridspec(len(quantities), 2 if lines else 1)
    verdict = Verdict(result["verdict"])
    title = f"{claim.id}  {claim.quote if has_chinese else claim.english}"
    figure.suptitle(f"{title[:90]}\n{text((verdict, CHINESE_VERDICTS[verdict])).replace(chr(10), '  ')}", fontsize=15)
    if lines and axes:
        panel = figure.add_subplot(grid[:, 0])
        _draw_lines(panel, lines, axes)
        panel.set_xlabel(text(axes.x))
        panel.set_ylabel(text(axes.y))
    for index, row in enumerate(quantities):
        panel = figure.add_subplot(grid[index, -1])
        _draw_quantity(panel, row)
        panel.set_title(text((row["title"][0], row["title"][1])), loc="left", fontsize=11)
    save_figure(figure, path, description=f"{claim.id}: {verdict}")


def _draw_lines(panel: Panel, lines: dict[str, Any], axes: Axes) -> None:
    for index, (name, line) in enumerate(lines.items()):
        color = PALETTE[(index + 4) % len(PALETTE)]
        panel.fill_between(line["x"], line["low"], line["high"], color=color, alpha=0.2, linewidth=0)
        panel.plot(line["x"], line["mean"], "o-", color=color, label=name, linewidth=2, markersize=4)
    panel.set_xscale("log" if axes.log_x else "linear")
    panel.set_yscale("log" if axes.log_y else "linear")
    panel.grid(color="#DDDDDD", linewidth=0.8)
    panel.legend(fontsize=11, frameon=False)


def _draw_quantity(panel: Panel, row: dict[str, Any]) -> None:
    """Each seed is a dot; the bar is the interval, the dashed line the threshold."""
    values = [value for value in row["values"] if math.isfinite(value)]
    panel.plot(values, [0.0] * len(values), "o", color=GRAY, alpha=0.4, markersize=6)
    panel.axvline(row["threshold"], color=ORANGE, linestyle="--", linewidth=2)
    if row["kind"] == "Equivalence":
        panel.axvline(-row["threshold"], color=ORANGE, linestyle="--", linewidth=2)
    if math.isfinite(row["low"]) and math.isfinite(row["high"]):
        panel.plot([row["low"], row["high"]], [0, 0], color=BLUE, linewidth=5, solid_capstyle="butt", alpha=0.8)
    if math.isfinite(row["estimate"]):
        panel.plot([row["estimate"]], [0], "D", color=BLUE, markersize=9)
    panel.set_yticks([])
    panel.set_title(f"{row['predicted'][0]}", loc="right", fontsize=11, color=ORANGE)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
