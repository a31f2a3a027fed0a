"""What all images share: colors, words in two languages, and how they become files.

Colors are those of Okabe & Ito, which color-blind eyes can tell apart. Nothing touches matplotlib's
global drawing state: every image is a `Figure` of its own.
"""

from __future__ import annotations

import io
import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2see.core.files import write_bytes

BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#007A5A", "#555555"
PALETTE = (GRAY, "#B07A00", GREEN, "#A0457B", BLUE, ORANGE)
"""For many lines in one panel, in this order."""
DPI = 140
"""Dots an inch: large enough for a projector."""

LABELS = {
    "loss": ("loss", "损失"),
    "valid_accuracy": ("valid accuracy", "正确率"),
    "learning_rate": ("learning rate", "学习率"),
    "grad_norm": ("gradient norm", "梯度范数"),
    "clipped": ("clipped", "被裁剪"),
    "tokens_per_second": ("tokens/s", "每秒词元数"),
    "answers_per_second": ("answers/s", "每秒答案数"),
    "step": ("step", "步"),
    "source": ("source", "源"),
    "target": ("target", "目标"),
    "darker": ("darker: looks there more (white 0 %, darkest 100 %)", "颜色越深，注意力越大"),
    "sure": ("solid box: a link of the true alignment", "实线框：标准对齐"),
    "bleu_by_length": ("BLEU by sentence length", "不同句长上的 BLEU"),
    "source_words": ("words in the source (sentences)", "源句词数（句数）"),
    "perplexity_per_token": ("valid perplexity per token", "验证集困惑度（每词元）"),
    "perplexity_per_word": ("valid perplexity per word", "验证集困惑度（每词）"),
    "perplexity_per_character": ("valid perplexity per character", "验证集困惑度（每字符）"),
    "unseen": ("n-grams never counted (valid)", "没数到过的 n 元组（验证集）"),
    "order": ("order n", "阶数 n"),
    "zipf": ("how often n-grams occur", "n 元组出现的次数"),
    "rank": ("rank", "名次"),
    "frequency": ("times in the text", "出现次数"),
    "slope": ("slope", "斜率"),
    "answer": ("answer of the model", "模型的回答"),
    "others": ("others", "其他"),
    "contexts": ("one word in several sentences", "不同句子里的同一个词"),
    "cosine": ("cosine of its vectors", "向量的余弦"),
    "sentences": ("sentences", "句子"),
    "series": ("series", "序列"),
    "forecast": ("forecast", "预测"),
    "ahead": ("steps ahead", "向前步数"),
    "time": ("time", "时间"),
    "truth": ("truth", "正确标签"),
    "as_stored": ("images as they are", "原图"),
    "as_seen": ("the same as the model sees them", "模型所见"),
    "surest_mistakes": ("truth → answer, the surest mistakes first", "正确标签 → 回答，最有把握的错误在前"),
    "images": ("images", "图片"),
    "rollout": ("rollout: what reached the answer, through all layers", "注意力展开：经过所有层到达回答的部分"),
    "possible": ("dashed box: a link that is not wrong", "虚线框：可接受的对齐"),
}
"""The words in the images, in English and in Chinese; Chinese is shown where a font has it."""


def label_text(name: str, has_chinese_font: bool) -> str:
    """A word of the table, in both languages if Chinese can be written; any other text as it is."""
    if name not in LABELS:
        return name
    return "  ".join(LABELS[name]) if has_chinese_font else LABELS[name][0]


def save_figure(figure: Figure, path: Path, description: str = "") -> None:
    """Write a figure as a PNG, all at once; `description` is a note that the file carries unseen."""
    content = io.BytesIO()
    figure.savefig(
        content, format="png", facecolor="white", metadata={"Description": description} if description else None
    )
    write_bytes(path, content.getvalue())


def label_line_ends(panel: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Write names (height, name, color) where lines end on the right, pushed apart if they end close together."""
    right, below = panel.get_xlim()[1], -math.inf
    for value, name, color in sorted(ends):
        height = panel.transData.transform((right, value))[1] * 72 / DPI
        place = max(height, below + 17)
        below = place
        panel.annotate(
            name, (right, value), xytext=(3, place - height), textcoords="offset points",
            va="center", fontsize=14, color=color, annotation_clip=False,
        )  # fmt: skip
