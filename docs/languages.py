"""What the generated pages say by themselves, in two languages; docstrings have their Chinese in `chinese.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

CHINESE: dict[str, str] = tomllib.loads((Path(__file__).parent / "chinese.toml").read_text(encoding="utf-8"))

PHRASES = {
    "recipes: introduction": (
        "`seq2see train NAME` trains one, `seq2see show NAME` explains every setting of it, and `seq2see diff A B` "
        "shows what differs. Below stands, for each, in which settings it differs from `pocket-transformer`.",
        "`seq2see train 名称` 训练一个配方，`seq2see show 名称` 解释它的每一项设置，"
        "`seq2see diff 甲 乙` 列出两者的差别。下面逐一列出各配方与 `pocket-transformer` 不同的设置。",
    ),
    "recipes: the base": ("The others are compared with this one.", "其他配方都与它比较。"),
    "settings: introduction": (
        "A recipe is a tree of settings. Change one by its path: `--set encoder.width=64` on the command line, "
        '`recipe.with_(**{"encoder.width": 64})` in Python, or in a TOML file that `seq2see show NAME --toml` gives. '
        "Where there are several kinds, `--set encoder.kind=recurrent` swaps one for another.",
        "配方是一棵设置树，每项设置用路径来改：命令行写 `--set encoder.width=64`，Python 里写 "
        '`recipe.with_(**{"encoder.width": 64})`，也可以改 `seq2see show 名称 --toml` 给出的 TOML 文件。'
        "有几种可选时，用 `--set encoder.kind=recurrent` 换成另一种。",
    ),
    "figures: note": (
        "BLEU and the share of exactly right sentences (%) on `test`; the share of exactly right sentences on `pairs`, "
        "`roles` and `length`; alignment error rate of attention (0 is perfect).",
        "表中为 `test` 上的 BLEU 和整句完全正确的比例（%），`pairs`、`roles`、`length` 上整句完全正确的比例，"
        "以及注意力的对齐错误率（0 为最好）。",
    ),
    "measured with": ("Measured with `{command}` ({machine}).", "测量命令：`{command}`（{machine}）。"),
    ", ": (", ", "，"),
}
"""What the pages say by themselves: English, Chinese."""

WORDS = {
    "eleven to fourteen runs side by side on one GPU: the seconds are an upper bound":
        "一块 GPU 上同时跑十一到十四个训练，所以秒数只是上限",
    "Not measured yet.": "尚未测量。", "One of the kinds below.": "下列几种之一。", "The recipe itself": "配方本身",
    "Recipes": "配方", "Settings": "设置", "recipe": "配方", "setting": "设置", "what it is": "说明",
    "what it does": "作用", "values": "取值", "default": "默认值", "must be given": "必须给出", "whole number": "整数",
    "number": "数", "true or false": "true 或 false", "text": "文本", "weights": "参数量", "steps": "步数",
    "seconds": "秒", "exact": "完全正确", "alignment error": "对齐错误率",
    "source": "原文", "reference": "参考译文", "yes": "是", "no": "否",
    "valid BLEU": "验证集 BLEU", "test BLEU": "测试集 BLEU",
    "valid chrF2": "验证集 chrF2", "test chrF2": "测试集 chrF2",
    "test BLEU, lower-cased and tokenized": "测试集 BLEU（小写、已分词）",
    "valid BLEU, lower-cased and tokenized": "验证集 BLEU（小写、已分词）",
    "p against the row above": "与上一行相比的 p 值", "from": "从", "to": "到", "test BLEU gained": "测试集 BLEU 增量",
    "95 % interval": "95 % 区间", "p of each seed": "各种子的 p 值", "change": "改动", "as it is": "原样",
    "without R-Drop": "不用 R-Drop", "without label smoothing": "不用标签平滑", "without averaging": "不用权重平均",
    "dropout 0.1": "dropout 为 0.1", "with BPE-dropout 0.1": "BPE-dropout 0.1",
    "difference": "差", "source words": "原文词数", "sentences": "句数", "seeds": "种子数",
    "multi30k/lengths": "不同原文长度上的 BLEU", "ensemble": "集成",
    "valid exact match %": "验证集整句正确率（%）", "test exact match %": "测试集整句正确率（%）",
    "test words wrong %": "测试集词错误率（%）", "test phonemes wrong %": "测试集音素错误率（%）",
    "test words wrong %, with stress": "测试集词错误率（%，计重音）",
    "test phonemes wrong %, with stress": "测试集音素错误率（%，计重音）",
    "valid loss": "验证集损失", "test loss": "测试集损失",
    "valid bits per character": "验证集每字符比特数", "test bits per character": "测试集每字符比特数",
    "valid perplexity": "验证集困惑度", "test perplexity": "测试集困惑度",
    "valid right %": "验证集正确率（%）", "test right %": "测试集正确率（%）",
    "test macro F1 %": "测试集宏平均 F1（%）", "test F1 of spans %": "测试集片段 F1（%）",
    "cell": "项目", "name": "名称", "value": "数值", "ratio": "比值", "how": "方式", "spread": "波动",
    "command": "命令",
    "wait": "等待", "milliseconds": "毫秒", "bound": "上限", "kept": "达到",
    "first view of a pocket model, after the page is loaded": "页面载入后，pocket 模型的第一个视图",
    "a cell that is pointed at": "指向一个格子",
    "1,000 × 1,000 tokens of a small GPT: computed, fetched and painted":
    "小 GPT 的 1,000 × 1,000 个词元：计算、传送、绘制",
    "of it, painting": "其中绘制",
    "the machine did other work too: waits are an upper bound": "机器同时还在做别的事：等待时间只是上限",
    "the machine did other work too: speeds are a lower bound": "机器同时还在做别的事：速度只是下限",
    "order": "阶数", "kinds of n-grams": "n 元组种数", "unseen %": "未见（%）", "bits per character": "每字符比特数",
    "published": "已发表", "line by line": "逐行", "corpus": "语料", "seen once %": "只出现一次（%）", "slope": "斜率",
    "slope, ranks to 100": "斜率（前 100 名）", "slope, ranks from 100": "斜率（100 名以后）", "tokenizer": "分词器",
    "tokens": "词元数", "tokenizers alone, tokens per second": "单用 tokenizers，词元/秒",
    "text to array, tokens per second": "文本到数组，词元/秒", "share %": "占比（%）",
    "counted to order 5, tokens per second": "数到 5 阶，词元/秒",
    "tokens per second": "词元/秒", "sentences per second": "句/秒", "threads": "线程数", "precision": "精度",
    "batch": "批大小", "beams": "束宽", "device": "设备", "system": "系统", "compiled": "编译",
    "forecast by": "预测方法", "side": "边长", "1 ahead": "向前 1 步", "4 ahead": "向前 4 步", "16 ahead": "向前 16 步",
    "64 ahead": "向前 64 步", "the last value": "最后一个值", "least squares": "最小二乘",
    "labeled sentences": "带标签的句子数", "one-hot %": "独热（%）", "learned %": "学得（%）",
    "pre-trained %": "预训练（%）",
    "the machine did other work too": "机器同时还在做别的事",
    "compiled, one CUDA graph": "编译，整步一个 CUDA 图", "one CUDA graph": "整步一个 CUDA 图",
    "seq2see, compiled": "seq2see，编译", "seq2see, torch's products": "seq2see，用 torch 的乘积", "memory": "内存",
    "to compiled": "与编译者之比", "to graphed": "与录成图者之比", "full rows": "满行", "real sentences": "真实句子",
    "question": "问题", "first letter": "第一个字母", "write on": "接着写", "other alphabet": "另一套字母",
    "message": "内容", "case": "情形", "busy neighbor": "另有任务", "size": "规模",
    "lines": "行数", "lines a second": "行/秒", "seconds to the first answer": "首个答案前的秒数",
    "MB at a tenth": "十分之一处的 MB", "MB at the end": "结束时的 MB",
    "as they come": "依次取用", "like length": "长度相近",
    "12,000 steps, alone": "12,000 步，单独运行", "9,500 steps, alone": "9,500 步，单独运行",
    "8,000 steps, alone": "8,000 步，单独运行", "48,000 steps": "48,000 步",
    "12,000 steps, beside the ResNet": "12,000 步，与 ResNet 同时运行",
    "16,000 steps, beside two others": "16,000 步，另有两个同时运行",
    "beside the hybrid": "与混合模型同时运行", "beside three others": "另有三个同时运行",
    "a table of 32,768 rows": "表有 32,768 行", "a table of 65,536 rows": "表有 65,536 行",
    "R-Drop of weight 1, 1,500 steps": "R-Drop 权重为 1，1,500 步",
    "model": "模型", "search": "搜索", "greedy": "贪心", "beam 4": "束宽 4", "bleu": "BLEU",
    "same as float32": "与 float32 相同（%）", "rows": "行数", "same answers": "答案相同", "target": "目标值",
    "float32, 4 beams": "float32，束宽 4", "training step": "训练一步", "one thread": "一个线程",
    "never spin": "从不自旋", "spin 10,000": "自旋 10,000 次",
    "one sentence, small": "一句话，small", "one sentence, base": "一句话，base",
    "256 lines, small": "256 行，small", "48 lines, base": "48 行，base",
    "torch 1 x 1, never spin": "torch 1 x 1，从不自旋", "torch 1 x 2, never spin": "torch 1 x 2，从不自旋",
    "torch 2 x 1, never spin": "torch 2 x 1，从不自旋", "torch 1 x 2, spin": "torch 1 x 2，自旋",
    "native 1 x 1, never spin": "C++ 1 x 1，从不自旋", "native 1 x 2, never spin": "C++ 1 x 2，从不自旋",
    "native 2 x 1, never spin": "C++ 2 x 1，从不自旋",
    "valid words wrong %": "验证集词错误率（%）", "valid phonemes wrong %": "验证集音素错误率（%）",
    "valid words wrong %, with stress": "验证集词错误率（%，计重音）",
    "valid phonemes wrong %, with stress": "验证集音素错误率（%，计重音）",
    "machine": "机器", "who": "谁", "numbers": "数的格式", "least": "最少", "most": "最多", "forward": "前向",
    "images/s": "图片/秒", "times the fastest other": "与其他各家中最快者之比",
    "plain": "原有的", "own": "自己的", "training": "训练", "writing": "写作", "by hand": "手写",
    "the same first 64 tokens in float32": "float32 下前 64 个词元相同",
}  # fmt: skip
"""Titles and short words: English, Chinese."""

Translate = Callable[[str], str]
"""A sentence in the language of the page."""


ENGLISH = {"multi30k/lengths": "BLEU by the length of the source"}
"""Words of the results files that would not read well as they are."""


def english(sentence: str) -> str:
    """As it stands in the source."""
    return PHRASES[sentence][0] if sentence in PHRASES else ENGLISH.get(sentence, sentence)


def chinese(sentence: str) -> str:
    """Its Chinese counterpart, if there is one yet."""
    return PHRASES[sentence][1] if sentence in PHRASES else (WORDS | CHINESE).get(sentence, sentence)
