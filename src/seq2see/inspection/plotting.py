"""Shared parts of all plots: colors, fonts, labels in two languages, and writing a figure to a file.

The colors are those of Okabe & Ito, which are safe for color-blind readers. Chinese labels need a font with Chinese
characters: an installed one, or the one of the extra `zh`. No plot uses matplotlib's global state: each is a `Figure`
of its own.
"""

from __future__ import annotations

import importlib.util
import io
import math
from pathlib import Path

from matplotlib import font_manager, rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2see.core.files import write_bytes

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
