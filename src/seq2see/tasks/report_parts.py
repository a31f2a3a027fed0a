"""What a task shows of a run, as plain data: the report draws it, and the terminal prints it.

A task returns sections of tables, figures and notes (`Task.sections`), and neither reads files nor writes HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TEXTS = {
    "report": ("run report", "训练报告"),
    "this_run": ("This run", "本次训练"),
    "curves": ("Training curves", "训练曲线"),
    "scores": ("Scores", "评测结果"),
    "samples": ("Samples during training", "训练过程中的样例"),
    "predictions": ("Best and worst predictions", "最好与最差的预测"),
    "confusion": ("Confusion matrix", "混淆矩阵"),
    "confusion_note": (
        "Rows: true labels. Columns: predictions. The darker a cell, the larger its share of the row.",
        "行为正确标签，列为预测；颜色越深，在该行所占比例越大。",
    ),
    "mistakes": ("Most confident mistakes", "置信度最高的错误"),
    "mistakes_note": (
        "Wrong predictions on the test texts, those with the highest probability first; all predictions are in eval/.",
        "测试文本上的错误预测，概率最高的在前；全部预测见 eval/。",
    ),
    "adapter": ("Adapter", "适配器"),
    "adapter_note": (
        "What the adapter does to each matrix of the pretrained model. Left: the factor of each singular value (z of "
        "SVF); white is 1, no change. Right: the singular values of the matrices that change most.",
        "适配器对预训练模型各矩阵的改变。左图为每个奇异值的倍数（SVF 中即 z），白色为 1，表示没有改变；"
        "右图为改变最大的几个矩阵的奇异值。",
    ),
    "batch": ("Training images", "训练图片"),
    "batch_note": (
        "Images of the first step: as stored, and below as input of the model.",
        "第一步训练所用的图片：上为原图，下为模型的输入。",
    ),
    "confused": ("Most common confusions", "最常见的混淆"),
    "confused_note": (
        "Test images: true label → prediction, and how many there are; below each image the probability.",
        "测试图片：正确标签 → 预测，以及数量；每张图下为预测的概率。",
    ),
    "worst_images": ("Most confident mistakes", "置信度最高的错误"),
    "worst_images_note": (
        "Test images: true label → prediction and its probability, the highest first; all predictions are in eval/.",
        "测试图片：正确标签 → 预测及其概率，概率最高的在前；全部预测见 eval/。",
    ),
    "patches_note": (
        "The brighter a patch, the more attention it receives. Each layer: attention of the class token (without one, "
        "the mean over all patches), mean of the heads. Rollout: the attention through all layers, back to the image.",
        "图块越亮，得到的注意力越大。逐层：类别词元的注意力（没有类别词元时，为所有图块的平均），取各头的平均；"
        "最后一行为注意力展开（rollout）：把注意力穿过所有层追溯到图片。",
    ),
    "regions_note": (
        "For each word of a caption, its attention to the image: the brighter, the more; last layer, mean of heads.",
        "说明文字中每个词对图片的注意力：越亮越大；取最后一层各头的平均。",
    ),
    "frames_note": (
        "A few videos. Below each frame are the words with the most attention to it, in the last layer.",
        "几段视频。每一帧下面是对这一帧注意力最大的词，取最后一层。",
    ),
    "label": ("label", "标签"),
    "support": ("examples", "例数"),
    "precision": ("precision", "精确率"),
    "recall": ("recall", "召回率"),
    "f1": ("F1", "F1 值"),
    "test_accuracy": ("accuracy % (test)", "准确率 %（测试集）"),
    "test_macro_f1": ("macro F1 % (test)", "宏平均 F1 %（测试集）"),
    "classes_note": (
        "{split}: accuracy {accuracy} %, macro F1 {f1} %",
        "{split}：准确率 {accuracy} %，宏平均 F1 {f1} %",
    ),
    "prediction": ("prediction", "预测"),
    "probability": ("probability", "概率"),
    "token_losses": ("Token losses", "各词元的损失"),
    "attention": ("Attention", "注意力"),
    "zipf": ("Frequencies of n-grams", "n 元组出现的次数"),
    "forecasts": ("The series and its forecasts", "序列与预测"),
    "forecasts_note": (
        "Test values, and the forecast of each value from the series up to 1 step, or several steps, before it.",
        "测试值，以及用一步或若干步之前的序列对它的预测。",
    ),
    "forecast_by": ("forecast by", "预测方法"),
    "forecast_model": ("this model", "本模型"),
    "forecast_persistence": ("persistence (last value)", "持续预测（最后一个值）"),
    "forecast_linear": ("linear autoregression", "线性自回归"),
    "ahead": ("{steps} ahead", "向前 {steps} 步"),
    "errors_note": (
        "Root mean squared error on {values} test values, in the units of the series; τ is the context length. The "
        "linear autoregression is fitted by least squares.",
        "{values} 个测试值上的均方根误差，单位与序列相同；τ 为上下文的长度。线性自回归用最小二乘法拟合。",
    ),
    "recipe": ("Complete recipe", "完整配方"),
    "environment": ("Environment", "运行环境"),
    "data": ("data", "数据"),
    "read": ("pairs read = kept + skipped + rejected", "读入句对 = 保留 + 跳过 + 拒绝"),
    "read_lines": ("lines read = kept + skipped + rejected", "读入行数 = 保留 + 跳过 + 拒绝"),
    "read_images": ("images read = kept + skipped + rejected", "读入图片 = 保留 + 跳过 + 拒绝"),
    "tokens": ("tokens", "词元"),
    "encoder": ("encoder", "编码器"),
    "decoder": ("decoder", "解码器"),
    "weights": ("weights", "参数量"),
    "training": ("training", "训练"),
    "time": ("training time (h:mm:ss)", "训练用时（时:分:秒）"),
    "best_loss": ("best validation loss", "最低验证损失"),
    "accuracy": ("accuracy (validation)", "准确率（验证集）"),
    "steps": ("steps", "步数"),
    "command": ("command", "启动命令"),
    "again": ("train again", "重新训练"),
    "use": ("use the model", "使用模型"),
    "unfinished": (
        "This run is not finished; the same command resumes it.",
        "本次训练尚未结束；再次运行同一命令即可从中断处继续。",
    ),
    "curves_note": (
        "Faint: every step. Bold: moving average over a fiftieth of the run. Orange: validation. "
        "The gradient norm is measured before clipping (dashed line: max_grad_norm); the corner shows the last value. "
        "The training loss includes label smoothing and dropout, the validation loss does not.",
        "浅色线为每一步的值，粗线为滑动平均（窗口为全程的五十分之一），橙色为验证集。"
        "梯度范数在裁剪之前测得，虚线为裁剪的界限；右上角为最后的值。"
        "训练损失包含标签平滑和 dropout，验证损失不含。",
    ),
    "counted": ("{orders} orders, counted in one pass", "一遍数完 {orders} 阶"),
    "order": ("order", "阶数"),
    "kinds": ("distinct n-grams", "n 元组种数"),
    "valid_perplexity": ("validation perplexity", "验证集困惑度"),
    "unseen_ngrams": ("unseen n-grams (validation)", "未见过的 n 元组（验证集）"),
    "once": ("occurring once", "只出现一次"),
    "slope": ("slope", "斜率"),
    "orders_note": (
        "A longer context is more informative if it occurs in the training text: with the order, the perplexity falls, "
        "and the share of unseen n-grams grows. Unseen n-grams are predicted from shorter contexts.",
        "上下文越长，信息越多，前提是在训练文本中出现过：阶数增大时困惑度下降，而未见过的 n 元组越来越多。"
        "未见过的 n 元组由更短的上下文来预测。",
    ),
    "zipf_note": (
        "Frequency over rank, both on a logarithmic scale. Single words are close to a straight line of slope -1 "
        "(Zipf's law); the longer the n-grams, the flatter the line, and the more of them occur only once.",
        "横轴为名次，纵轴为出现次数，均为对数坐标。单个词接近斜率 -1 的直线（Zipf 定律）；n 元组越长，线越平，"
        "只出现一次的也越多。",
    ),
    "no_scores": (
        "Not evaluated yet. This command adds scores and predictions:",
        "尚未评测。运行以下命令可得到评测结果与预测：",
    ),
    "split": ("split", "数据集"),
    "pairs": ("pairs", "句对"),
    "exact_match": ("exact match %", "完全一致 %"),
    "d2l_bleu": ("BLEU of d2l", "d2l 的 BLEU"),
    "bleu_tokenized": ("BLEU, lower-cased and tokenized", "BLEU（小写、已分词）"),
    "word_error_rate": ("word error rate %", "词错误率 %"),
    "phoneme_error_rate": ("phoneme error rate %", "音素错误率 %"),
    "word_error_rate_with_stress": ("word error rate %, with stress", "词错误率 %（计重音）"),
    "phoneme_error_rate_with_stress": ("phoneme error rate %, with stress", "音素错误率 %（计重音）"),
    "perplexity_token": ("perplexity per token ({split}, teacher forcing)", "每词元困惑度（{split}，教师强制）"),
    "perplexity_word": ("perplexity per word ({split}, teacher forcing)", "每词困惑度（{split}，教师强制）"),
    "perplexity_character": (
        "perplexity per character ({split}, teacher forcing)",
        "每字符困惑度（{split}，教师强制）",
    ),
    "bits": ("bits per character", "每字符比特数"),
    "token_accuracy": ("token accuracy % (teacher forcing)", "词元准确率 %（教师强制）"),
    "unknown_rate": (
        "unknown tokens %; <unk> is easy to predict, so these scores are too good",
        "未知词元 %；<unk> 很容易预测，所以这些分数偏好",
    ),
    "error_rate": ("alignment error rate of attention", "注意力的对齐错误率"),
    "heads": ("layer {layer}, head {heads}; selected on valid", "第 {layer} 层，第 {heads} 头；在验证集上选出"),
    "signatures": (
        "sacreBLEU signatures; only scores with equal signatures are comparable",
        "sacreBLEU 签名（签名一致的分数才能比较）",
    ),
    "samples_note": (
        "Outputs for the same validation examples at every evaluation. Marked: differences from the reference.",
        "每次评测时对同样的验证样例的输出。标记部分与参考答案不同。",
    ),
    "step": ("step", "步"),
    "source": ("source", "原文"),
    "reference": ("reference", "参考答案"),
    "output": ("output", "模型输出"),
    "best": ("Best", "最好"),
    "worst": ("Worst", "最差"),
    "predictions_note": (
        "Test sentences by chrF; of equal scores, the longest. log p is the score that ranks the outputs.",
        "测试集句子按 chrF 排序，分数相同时取较长者。log p 为模型给自己输出的得分。",
    ),
    "attention_note": (
        "Each row shows the attention of one generated word to the source words.",
        "每一行显示一个生成的词对原文各词的注意力。",
    ),
    "masked_accuracy": ("accuracy of masked tokens % (test)", "被遮住词元的准确率 %（测试集）"),
    "masked_perplexity": ("perplexity of masked tokens (test)", "被遮住词元的困惑度（测试集）"),
    "next_sentence_accuracy": (
        "accuracy of next sentence prediction % (test)",
        "下一句预测的准确率 %（测试集）",
    ),
    "token_losses_note": (
        "Test text, with each token masked in turn: the darker a token, the larger its loss. Point at a token to see "
        "the loss, −log p.",
        "测试文本：每次只遮住一个词元；颜色越深，损失越大。鼠标指向词元可看到损失 −log p。",
    ),
    "generated_token_losses_note": (
        "Test text, each token predicted from the tokens before it in its line: the darker a token, the larger its "
        "loss. Point at a token to see the loss, −log p.",
        "测试文本：每个词元根据本段中它前面的词元来预测；颜色越深，损失越大。鼠标指向词元可看到损失 −log p。",
    ),
    "recipe_note": ("All settings of this run, as TOML", "本次训练的全部设置（TOML）"),
    "nothing": ("(empty)", "（空）"),
}  # fmt: skip
"""Every text of the page: English, Chinese."""


Words = str | tuple[str, str]
"""A text of the report, in English and Chinese or the same in both."""
Tree = dict[str, Any]


@dataclass(frozen=True)
class RunResults:
    """What a run has so far; a task selects from it what its report shows."""

    recipe: Tree
    """The recipe, as in its TOML file."""
    metrics: list[Tree] = field(default_factory=list)
    """The rows of `metrics.jsonl`."""
    timing: list[Tree] = field(default_factory=list)
    """The rows of `timing.jsonl`."""
    scores: Tree = field(default_factory=dict)
    """The content of `scores.json`; empty before the evaluation."""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    """The tables of the evaluation by name, the header first."""
    documents: Tree = field(default_factory=dict)
    """The JSON documents of the run and of its evaluation by name, such as `token_losses`."""
    figures: Collection[str] = ()
    """The paths of the figures in the run folder, such as `eval/confusion.png`."""

    def rows(self, name: str, columns: int) -> list[list[str]]:
        """The rows of a table after its header; rows with another number of cells are skipped."""
        return [row for row in self.tables.get(name, [])[1:] if len(row) == columns]


@dataclass(frozen=True)
class Difference:
    """The cell of an output, in which the differences from the reference are marked."""

    output: str
    reference: str


@dataclass(frozen=True)
class ReportTable:
    """A table: the first columns are texts, the others numbers."""

    header: Sequence[Words]
    rows: Sequence[Sequence[Words | Difference]]
    text_columns: int = 1


@dataclass(frozen=True)
class NamedValues:
    """Names and their values, one below the other."""

    rows: Sequence[tuple[Words, Words]]


@dataclass(frozen=True)
class ReportFigure:
    """A figure of the run folder."""

    path: str
    name: Words
    draw: Callable[[Path], Any] | None = None
    """Draws the figure for the report; None if it exists."""


@dataclass(frozen=True)
class ReportText:
    """A paragraph."""

    text: Words
    is_note: bool = True
    """Whether it is an explanation in small print."""


@dataclass(frozen=True)
class ReportHeading:
    """A heading inside a section."""

    text: Words


@dataclass(frozen=True)
class ColoredTokens:
    """Texts with each token colored by its loss."""

    texts: Sequence[Tree]
    """For each text its `tokens` and their `losses`."""


@dataclass(frozen=True)
class CopiedLines:
    """Lines to copy, such as signatures, below a text."""

    text: Words
    lines: Sequence[str]


ReportPart = ReportTable | NamedValues | ReportFigure | ReportText | ReportHeading | ColoredTokens | CopiedLines


@dataclass(frozen=True)
class ReportSection:
    """A section of the report; it is left out if it has no parts."""

    name: str
    """Its name in links."""
    title: Words
    parts: Sequence[ReportPart]


def words(name: str, **values: str) -> tuple[str, str]:
    """A text of `report_strings.py` in both languages."""
    english, chinese = TEXTS[name]
    return english.format(**values), chinese.format(**values)


def section(name: str, *parts: ReportPart | None) -> ReportSection:
    """A section whose title is a text of `report_strings.py`; parts that are None are left out."""
    return ReportSection(name, words(name), [part for part in parts if part is not None])


def note(name: str, **values: str) -> ReportText:
    """An explanation in small print, from `report_strings.py`."""
    return ReportText(words(name, **values))


def figure_section(results: RunResults, path: str, name: str, note_name: str = "") -> ReportSection:
    """A section with one figure of the run folder and its note; empty if there is no such figure."""
    if path not in results.figures:
        return section(name)
    return section(name, ReportFigure(path, words(name)), note(f"{note_name or name}_note"))


def number_text(value: Any, digits: int = 1) -> str:
    """A score as a text; empty for a missing score. A score may be a tree with a `value`.

    >>> number_text(1234.56), number_text({"value": 0.5, "signature": "x"}, 2), number_text(None)
    ('1,234.6', '0.50', '')
    """
    number = value["value"] if isinstance(value, dict) else value
    return "" if number is None else f"{number:,.{digits}f}"


def is_number(text: str) -> bool:
    """Whether a cell of a table is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def flat_scores(scores: Tree, prefix: str = "") -> dict[str, float]:
    """All numbers of a tree of scores by path.

    >>> flat_scores({"test": {"error": 0.5, "examples": 3}, "name": "x"})
    {'test.error': 0.5, 'test.examples': 3}
    """
    found: dict[str, float] = {}
    for name, value in scores.items():
        if isinstance(value, dict):
            found |= flat_scores(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = value
    return found
