"""Plots: colors, fonts and labels in two languages, and the plots of the results of a run.

The colors are those of Okabe & Ito, which are safe for color-blind readers. Chinese labels need a font with Chinese
characters: an installed one, or the one of the extra `zh`. No plot uses matplotlib's global state: each is a `Figure`
of its own.

`draw_curves` draws loss, accuracy, learning rate, gradient norm and speed. The lines of a panel are labeled at their
right ends; the last value of each panel is in its corner. The two plots of n-gram models show the effect of the order,
and Zipf's law.

The plots of an evaluation are the confusion matrix, score by length, forecasts, and words in context. Bands show the
minimum and the maximum over the seeds. The axis labels contain the number of sentences in each group, because a score
on few sentences is not reliable.
"""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager, rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from seq2see.core.files import write_bytes
from seq2see.metrics.zipf import rank_ranges, zipf_slope

BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#007A5A", "#555555"
PALETTE = (GRAY, "#B07A00", GREEN, "#A0457B", BLUE, ORANGE)
"""The colors of several lines in one panel, in this order."""
DPI = 140
"""Dots per inch: large enough for a projector."""

LABELS = {
    "loss": ("loss", "损失"),
    "valid_accuracy": ("valid accuracy", "准确率"),
    "learning_rate": ("learning rate", "学习率"),
    "grad_norm": ("gradient norm", "梯度范数"),
    "clipped": ("clipped", "被裁剪"),
    "tokens_per_second": ("tokens/s", "每秒词元数"),
    "predictions_per_second": ("predictions/s", "每秒预测数"),
    "step": ("step", "步"),
    "source": ("source", "源"),
    "target": ("target", "目标"),
    "darker": ("darker: more attention (white 0 %, darkest 100 %)", "颜色越深，注意力越大"),
    "sure": ("solid box: a sure link of the gold alignment", "实线框：标准对齐"),
    "mixture": ("coefficients of the experts", "各专家的系数"),
    "mixture_for": ("mixture for", "混合用于"),
    "bleu_by_length": ("BLEU by sentence length", "不同句长上的 BLEU"),
    "source_words": ("words in the source (sentences)", "源句词数（句数）"),
    "perplexity_per_token": ("valid perplexity per token", "验证集困惑度（每词元）"),
    "perplexity_per_word": ("valid perplexity per word", "验证集困惑度（每词）"),
    "perplexity_per_character": ("valid perplexity per character", "验证集困惑度（每字符）"),
    "unseen": ("n-grams not in the training text (valid)", "训练文本中没有的 n 元组（验证集）"),
    "order": ("order n", "阶数 n"),
    "zipf": ("frequency of n-grams", "n 元组出现的次数"),
    "rank": ("rank", "名次"),
    "frequency": ("frequency", "出现次数"),
    "slope": ("slope", "斜率"),
    "seconds": ("seconds", "秒"),
    "prediction": ("prediction of the model", "模型的预测"),
    "others": ("others", "其他"),
    "contexts": ("one word in several sentences", "不同句子里的同一个词"),
    "cosine": ("cosine similarity of its vectors", "向量的余弦相似度"),
    "sentences": ("sentences", "句子"),
    "series": ("series", "序列"),
    "forecast": ("forecast", "预测"),
    "horizon": ("steps ahead", "向前步数"),
    "time": ("time", "时间"),
    "truth": ("true label", "正确标签"),
    "original": ("original images", "原图"),
    "model_input": ("the same images as input of the model", "模型的输入"),
    "confident_mistakes": (
        "true label → prediction, the most confident mistakes first",
        "正确标签 → 预测，置信度最高的错误在前",
    ),
    "largest": ("largest", "最大"),
    "smallest": ("smallest", "最小"),
    "singular_values": ("singular values of each matrix", "各矩阵的奇异值"),
    "factor": ("factor of each singular value, block by block", "各奇异值的倍数"),
    "value_rank": ("singular value, the largest first", "奇异值（从大到小）"),
    "before_after": ("dotted: before, solid: after", "虚线：之前，实线：之后"),
    "images": ("images", "图片"),
    "rollout": ("attention rollout through all layers", "注意力展开（经过所有层）"),
    "possible": ("dashed box: a possible link of the gold alignment", "虚线框：可接受的对齐"),
}
"""The labels of the plots in English and Chinese; Chinese is drawn if a font has it."""


def label_text(name: str, has_chinese_font: bool) -> str:
    """The label of a key of `LABELS`, in both languages if a font has Chinese; any other text is returned unchanged."""
    if name not in LABELS:
        return name
    return "  ".join(LABELS[name]) if has_chinese_font else LABELS[name][0]


def save_figure(figure: Figure, path: Path, description: str = "") -> None:
    """Write a figure as a PNG file, atomically; `description` becomes metadata of the file."""
    content = io.BytesIO()
    figure.savefig(
        content, format="png", facecolor="white", metadata={"Description": description} if description else None
    )
    write_bytes(path, content.getvalue())


def label_line_ends(panel: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Draw names at the right ends of lines, from (value, name, color); names that would overlap are moved apart."""
    right, previous = panel.get_xlim()[1], -math.inf
    for value, name, color in sorted(ends):
        height = panel.transData.transform((right, value))[1] * 72 / DPI
        shifted = max(height, previous + 17)
        previous = shifted
        panel.annotate(
            name, (right, value), xytext=(3, shifted - height), textcoords="offset points",
            va="center", fontsize=14, color=color, annotation_clip=False,
        )  # fmt: skip


CHINESE = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN",
    "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans GB",
    "Microsoft YaHei", "SimHei",
)  # fmt: skip
ADVICE = "For Chinese in the images: pip install 'seq2see[zh]'"


def use_chinese_font() -> bool:
    """Set a font with Chinese glyphs as matplotlib's fallback; False if this machine has none."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    name = next((name for name in CHINESE if name in installed), None) or _packaged_font()
    if name is None:
        return False
    rcParams["font.family"] = ["DejaVu Sans", name]
    rcParams["axes.unicode_minus"] = False
    return True


def _packaged_font() -> str | None:
    """The font file inside the package `zhplot` (the extra `zh`), read without importing the package."""
    spec = importlib.util.find_spec("zhplot")
    if spec is None or not spec.submodule_search_locations:
        return None
    files = [path for folder in spec.submodule_search_locations for path in sorted(Path(folder).rglob("*.[ot]tf"))]
    if not files:
        return None
    font_manager.fontManager.addfont(str(files[0]))
    return font_manager.FontProperties(fname=str(files[0])).get_name()


Row = dict[str, Any]
Series = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Steps, and the value of a metric at each."""

TEXT_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
"""The background of text that is drawn over a line."""
LOG_SCALE_RATIO = 8
"""The axis is logarithmic if the largest value is at least this many times the smallest."""


def draw_curves(metrics: list[Row], timing: list[Row], path: Path, clip: float = 0.0, unit: str = "tokens") -> None:
    """Draw the rows of `metrics.jsonl` and `timing.jsonl` as one PNG file; `clip` is the maximum gradient norm.

    `unit` is the unit of the speed: tokens or predictions.
    """
    has_chinese_font = use_chinese_font()
    figure = Figure(figsize=(14, 7), dpi=DPI)
    grid = figure.add_gridspec(
        2,
        3,
        width_ratios=(2.1, 1, 1),
        left=0.05,
        right=0.985,
        top=0.93,
        bottom=0.085,
        wspace=0.34,
        hspace=0.36,
    )
    cells = {"loss": grid[:, 0], "valid_accuracy": grid[0, 1], "learning_rate": grid[0, 2]}
    cells |= {"grad_norm": grid[1, 1], "tokens_per_second": grid[1, 2]}
    panels = {name: figure.add_subplot(cell) for name, cell in cells.items()}
    last = max((row["step"] for row in [*metrics, *timing]), default=1)
    for name, panel in panels.items():
        title = f"{unit}_per_second" if name == "tokens_per_second" else name
        _style_axes(panel, label_text(title, has_chinese_font), last, large=name == "loss")
        panel.set_xlabel(label_text("step", has_chinese_font), fontsize=11)
    _draw_loss(panels["loss"], _series(metrics, "loss"), _series(metrics, "valid_loss"))
    _draw_line(panels["valid_accuracy"], _series(metrics, "valid_accuracy"), ORANGE, "o-", "{:.1%}")
    _draw_line(panels["learning_rate"], _series(metrics, "learning_rate"), BLUE, "-", "{:.2g}")
    _draw_norm(panels["grad_norm"], _series(metrics, "grad_norm"), clip, label_text("clipped", has_chinese_font))
    speed = _series(timing, "tokens_per_second")
    _draw_line(panels["tokens_per_second"], speed, GREEN, "o-", "{:,.0f}")
    # Rounded to whole per cents, the ticks "99.5%" and "99%" would be equal.
    panels["valid_accuracy"].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
    panels["tokens_per_second"].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panels["tokens_per_second"].set_ylim(0, 1.15 * speed[1].max(initial=1))
    save_figure(figure, path)


def _draw_loss(panel: Axes, train: Series, valid: Series) -> None:
    smooth = _draw_smoothed(panel, train, BLUE)
    panel.plot(*valid, "o-", color=ORANGE, linewidth=2.5, markersize=7)
    _scale(panel, np.concatenate([smooth, valid[1]]))
    ends = []
    if len(smooth):
        ends.append((smooth[-1], "train", BLUE))
    if len(valid[1]):
        ends.append((valid[1][-1], "valid", ORANGE))
        best = int(np.argmin(valid[1]))
        _corner(panel, f"best valid {valid[1][best]:.4g} at step {valid[0][best]:,.0f}", ORANGE)
    label_line_ends(panel, ends)


def _draw_norm(panel: Axes, series: Series, clip: float, clipped: str) -> None:
    """Draw the gradient norm before clipping, the maximum norm as a line, and the share of clipped steps."""
    smooth = _draw_smoothed(panel, series, GREEN)
    if not clip or not len(smooth):
        return
    panel.axhline(clip, color=ORANGE, linewidth=1.8, linestyle="--")
    share = f"> {clip:g}: {np.mean(series[1] > clip):.0%} {clipped}"
    panel.text(
        0.98, clip, share, transform=panel.get_yaxis_transform(), ha="right", va="bottom", color=ORANGE, bbox=TEXT_BOX
    )


def _draw_smoothed(panel: Axes, series: Series, color: str) -> NDArray[np.float64]:
    """Draw the raw values as a faint line and their moving average over it; returns the average."""
    steps, values = series
    smooth = moving_average(values)
    panel.plot(steps, values, "-", color=color, linewidth=0.8, alpha=0.25)
    panel.plot(steps, smooth, "-", color=color, linewidth=2.5)
    _scale(panel, smooth)
    if len(values):
        _corner(panel, f"{smooth[-1]:.2g}", color)
    _mark_if_empty(panel, series)
    return smooth


def _draw_line(panel: Axes, series: Series, color: str, style: str, form: str) -> None:
    """Draw one line, with its last value in the corner of the panel."""
    steps, values = series
    panel.plot(steps, values, style, color=color, linewidth=2.2, markersize=5)
    if len(values):
        _corner(panel, form.format(values[-1]), color)
    _mark_if_empty(panel, series)


def _series(rows: list[Row], name: str) -> Series:
    """Steps and values of the rows that contain this metric."""
    pairs = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def moving_average(values: NDArray[np.float64], percent: float = 2) -> NDArray[np.float64]:
    """The centered moving average; the window is this percentage of the run. It has no lag.

    >>> moving_average(np.array([0.0, 3.0, 6.0, 0.0]), 50).tolist()
    [1.5, 3.0, 3.0, 3.0]
    """
    if len(values) == 0:
        return values
    window = np.ones(2 * int(len(values) * percent / 200) + 1)
    # Near the ends the window has fewer values: the second convolution counts them.
    means = np.convolve(values, window, "full") / np.convolve(np.ones(len(values)), window, "full")
    return means[len(window) // 2 :][: len(values)]


def _scale(panel: Axes, values: NDArray[np.float64]) -> None:
    """Use a logarithmic axis for values of a wide range, so that the end of a run is not a flat line."""
    values = values[np.isfinite(values)]
    if len(values) == 0 or values.min() <= 0 or values.max() < LOG_SCALE_RATIO * values.min():
        return
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())


def _style_axes(panel: Axes, title: str, last: int, large: bool) -> None:
    panel.set_title(title, loc="left", fontsize=16 if large else 12)
    panel.set_xlim(0, last * 1.03)
    panel.margins(y=0.1)
    panel.xaxis.set_major_locator(MaxNLocator(6 if large else 4, integer=True))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.tick_params(labelsize=13 if large else 11)
    panel.grid(color="#DDDDDD", linewidth=0.8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _corner(panel: Axes, text: str, color: str) -> None:
    panel.set_title(text, loc="right", fontsize=12, color=color)


def _mark_if_empty(panel: Axes, series: Series) -> None:
    if len(series[0]) == 0:
        panel.text(0.5, 0.5, "no values yet", transform=panel.transAxes, ha="center", color=GRAY)


COLORS = (BLUE, GREEN, ORANGE)


def draw_orders(metrics: Sequence[Mapping[str, Any]], unit: str, path: Path) -> None:
    """Draw the perplexity and the share of unseen n-grams of the validation text by order, from `metrics.jsonl`."""
    has_chinese_font = use_chinese_font()
    figure = Figure(figsize=(14, 6), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2)
    orders = [row["step"] for row in metrics]
    perplexities = np.exp([row["valid_loss"] for row in metrics])
    left.semilogy(orders, perplexities, "o-", color=ORANGE, linewidth=2.5)
    right.plot(orders, [row["unseen_ngrams"] for row in metrics], "o-", color=BLUE, linewidth=2.5)
    for order, perplexity, row in zip(orders, perplexities, metrics, strict=True):
        _annotate(left, order, perplexity, f"{perplexity:.4g}", ORANGE)
        _annotate(right, order, row["unseen_ngrams"], f"{row['unseen_ngrams']:.1%}", BLUE)
    left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    left.yaxis.set_minor_formatter(NullFormatter())
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    right.set_ylim(-0.05, 1.1)
    for panel, title in ((left, f"perplexity_per_{unit}"), (right, "unseen")):
        _style_order_axes(panel, label_text(title, has_chinese_font), label_text("order", has_chinese_font))
        panel.set_xticks(orders)
        panel.margins(x=0.1, y=0.12)
    save_figure(figure, path)


def draw_zipf(frequencies: Mapping[str, Mapping[str, Sequence[int]]], path: Path) -> None:
    """Draw frequency over rank on logarithmic axes, from the distinct counts of each order and their frequencies."""
    has_chinese_font = use_chinese_font()
    figure = Figure(figsize=(10, 7), dpi=DPI, layout="constrained")
    panel = figure.subplots()
    for color, (order, spectrum) in zip(COLORS, frequencies.items(), strict=False):
        counts, times = spectrum["counts"], spectrum["frequencies"]
        first, last = rank_ranges(counts, times)
        ranks = np.stack([first, last], axis=1).flatten()
        name = f"{order}  ({label_text('slope', has_chinese_font)} {zipf_slope(counts, times):.2f})"
        panel.loglog(ranks, np.repeat(counts, 2), "-", color=color, linewidth=2.2, label=name)
    _style_order_axes(panel, label_text("zipf", has_chinese_font), label_text("rank", has_chinese_font))
    panel.set_ylabel(label_text("frequency", has_chinese_font), fontsize=13)
    panel.legend(title=label_text("order", has_chinese_font), fontsize=12, title_fontsize=12, frameon=False)
    save_figure(figure, path)


def _annotate(panel: Axes, order: int, value: float, text: str, color: str) -> None:
    offset = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center"}
    panel.annotate(text, (order, value), fontsize=11, color=color, **offset)  # type: ignore[arg-type]


def _style_order_axes(panel: Axes, title: str, x_label: str) -> None:
    panel.set_title(title, loc="left", fontsize=15)
    panel.set_xlabel(x_label, fontsize=13)
    panel.tick_params(labelsize=12)
    panel.grid(color="#DDDDDD", linewidth=0.8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


# --- evaluation ---


MAX_LABELS = 24
"""The most frequent labels are drawn, at most this many."""


def draw_confusion(labels: Sequence[str], counts: Sequence[Sequence[int]], path: Path) -> None:
    """Draw counts, colored by their share of the row; labels beyond `MAX_LABELS` are joined in one column."""
    has_chinese_font = use_chinese_font()
    table = np.array(counts)
    indices = np.sort(np.argsort(-table.sum(1), kind="stable")[:MAX_LABELS])
    names, rows = [labels[index] for index in indices], table[indices]
    table = rows[:, indices]
    if len(labels) > len(indices):  # else the predictions of the other labels would be missing from the row
        table = np.column_stack([table, rows.sum(1) - table.sum(1)])
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    columns = [*names, label_text("others", has_chinese_font)][: table.shape[1]]
    size = 2.2 + 0.55 * len(names)
    figure = Figure(figsize=(max(size + 1, 5), max(size, 3.5)), dpi=DPI, layout="constrained")
    panel = figure.add_subplot()
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    panel.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
    panel.set_yticks(range(len(names)), names)
    panel.set_xlabel(label_text("prediction", has_chinese_font))
    panel.set_ylabel(label_text("truth", has_chinese_font))
    for row, column in np.argwhere(table):
        color = "white" if shares[row, column] > 0.55 else "black"
        panel.text(column, row, f"{table[row, column]:,}", ha="center", va="center", fontsize=9, color=color)
    save_figure(figure, path)


GROUP = ("words", "pairs")
"""The keys of a row that describe its group of sentences; every other key is a system with one score for each seed."""


def draw_mixtures(rows: Sequence[dict[str, Any]], path: Path, description: str = "") -> None:
    """Draw rows such as {"task": "sort", "add": [0.1, 0.3], "sort": [0.9, 0.7]}: bars with a dot for each seed."""
    has_chinese_font = use_chinese_font()
    experts = [key for key in rows[0] if key != "task"]
    figure = Figure(figsize=(9, 4.5), dpi=DPI, layout="constrained")
    panel = figure.subplots()
    width = 0.8 / len(experts)
    for number, (expert, color) in enumerate(zip(experts, PALETTE * len(experts), strict=False)):
        positions = np.arange(len(rows)) + (number - (len(experts) - 1) / 2) * width
        panel.bar(positions, [float(np.mean(row[expert])) for row in rows], 0.9 * width, color=color, label=expert)
        for position, row in zip(positions, rows, strict=True):
            panel.plot([position] * len(row[expert]), row[expert], "o", color="black", alpha=0.5, markersize=4)
    _style_order_axes(panel, label_text("mixture", has_chinese_font), label_text("mixture_for", has_chinese_font))
    panel.set_xticks(range(len(rows)), [row["task"] for row in rows])
    panel.set_ylim(0, 1.02)
    panel.set_axisbelow(True)
    panel.legend(fontsize=12, frameon=False, ncols=len(experts), loc="lower right", bbox_to_anchor=(1, 1))
    save_figure(figure, path, description)


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
