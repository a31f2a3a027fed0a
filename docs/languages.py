"""The texts of the generated pages in English and Chinese; the Chinese of docstrings is in `chinese.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

CHINESE: dict[str, str] = tomllib.loads((Path(__file__).parent / "chinese.toml").read_text(encoding="utf-8"))

PHRASES = {
    "recipes: introduction": (
        "`seq2see train NAME` trains one, `seq2see show NAME` explains every setting of it, and `seq2see diff A B` "
        "shows what differs. For each recipe, the table lists the settings that differ from `pocket-transformer`.",
        "`seq2see train 名称` 训练一个配方，`seq2see show 名称` 解释它的每一项设置，"
        "`seq2see diff 甲 乙` 列出两者的差别。下面逐一列出各配方与 `pocket-transformer` 不同的设置。",
    ),
    "recipes: the base": ("The other recipes are compared with this one.", "其他配方都与它比较。"),
    "settings: introduction": (
        "A recipe is a tree of settings. Change one by its path: `--set encoder.width=64` on the command line, "
        '`recipe.with_(**{"encoder.width": 64})` in Python, or in the TOML file that `seq2see show NAME --toml` '
        "prints. If there are several kinds, `--set encoder.kind=recurrent` selects one.",
        "配方是一棵设置树，每项设置用路径来改：命令行写 `--set encoder.width=64`，Python 里写 "
        '`recipe.with_(**{"encoder.width": 64})`，也可以改 `seq2see show 名称 --toml` 打印的 TOML 文件。'
        "有几种可选时，用 `--set encoder.kind=recurrent` 选定一种。",
    ),
    "results: note": (
        "BLEU and exact match (%) on `test`; exact match (%) on `pairs`, `roles` and `length`; alignment error rate of "
        "attention (0 is perfect).",
        "表中为 `test` 上的 BLEU 和整句完全正确的比例（%），`pairs`、`roles`、`length` 上整句完全正确的比例，"
        "以及注意力的对齐错误率（0 为最好）。",
    ),
    "measured with": ("Measured with `{command}` ({machine}).", "测量命令：`{command}`（{machine}）。"),
    ", ": (", ", "，"),
}
"""Sentences of the generated pages: English, Chinese."""

WORDS = {
    "eleven to fourteen concurrent runs on one GPU: the seconds are an upper bound":
        "一块 GPU 上同时跑十一到十四个训练，所以秒数只是上限",
    "trained weights": "训练的参数量", "learning rate": "学习率", "right answers %": "正确回答（%）",
    "change of the other tasks": "其他任务的变化", "CPU seconds": "CPU 秒", "answered by": "作答者", "mean": "平均",
    "base model": "基座模型", "claim": "论断", "difference, points": "差（百分点）", "verdict": "结论",
    "one seed": "一个种子",
    "holds": "成立", "does not hold": "不成立", "undecided at this size": "在这个规模上无法判断",
    "SVF, cross-entropy": "SVF，交叉熵", "LoRA r = 8, cross-entropy": "LoRA r = 8，交叉熵",
    "LoRA r = 16, cross-entropy": "LoRA r = 16，交叉熵", "all weights, cross-entropy": "全部参数，交叉熵",
    "SVF, REINFORCE": "SVF，REINFORCE", "LoRA r = 8, REINFORCE": "LoRA r = 8，REINFORCE",
    "expert add": "专家 add", "expert reverse": "专家 reverse", "expert sort": "专家 sort",
    "few-shot, per matrix": "few-shot，每个矩阵各有系数", "oracle": "神谕（oracle）",
    "SVF by REINFORCE improves its tasks": "SVF 用 REINFORCE 提高本任务的成绩",
    "SVF by cross-entropy improves its tasks": "SVF 用交叉熵提高本任务的成绩",
    "SVF learns more by REINFORCE than by cross-entropy": "SVF 用 REINFORCE 比用交叉熵学得多",
    "SVF by REINFORCE is better than LoRA by cross-entropy": "SVF 加 REINFORCE 优于 LoRA 加交叉熵",
    "SVF is better than LoRA by cross-entropy": "用交叉熵时 SVF 优于 LoRA",
    "SVF is better than LoRA by REINFORCE": "用 REINFORCE 时 SVF 优于 LoRA",
    "SVF is better than LoRA on a new task": "在新任务上 SVF 优于 LoRA",
    "SVF by REINFORCE forgets less than LoRA": "SVF 加 REINFORCE 比 LoRA 遗忘少",
    "SVF by cross-entropy forgets less than LoRA": "SVF 加交叉熵比 LoRA 遗忘少",
    "SVF by cross-entropy forgets less than all weights": "SVF 加交叉熵比训练全部参数遗忘少",
    "prompt dispatch is better than the base model": "prompt 优于基座模型",
    "the classifier is better than prompt dispatch": "classifier 优于 prompt",
    "few-shot mixing is better than the base model": "few-shot 混合优于基座模型",
    "few-shot mixing is better than the best single expert": "few-shot 混合优于最好的单个专家",
    "few-shot mixing is better than prompt dispatch": "few-shot 混合优于 prompt",
    "transformer2/mixtures": "每个任务的混合中各专家的份量",
    "row": "行", "character error %": "字符错误率（%）", "word error %": "词错误率（%）",
    "groups resampled": "重采样组数", "wrong in the tone alone %": "仅声调错误（%）",
    "CPU seconds of training": "训练的 CPU 秒数", "low": "区间下限", "high": "区间上限",
    "chunk, median": "每块，中位数", "chunk, 95 %": "每块，95 % 分位",
    "end, median": "结束，中位数", "end, 95 %": "结束，95 % 分位",
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
    "95 % interval": "95 % 区间", "p of each seed": "各种子的 p 值", "change": "改动", "baseline": "基线",
    "without R-Drop": "不用 R-Drop", "without label smoothing": "不用标签平滑", "without averaging": "不用权重平均",
    "dropout 0.1": "dropout 为 0.1", "with BPE-dropout 0.1": "BPE-dropout 0.1",
    "difference": "差", "source words": "原文词数", "sentences": "句数", "seeds": "种子数",
    "multi30k/lengths": "不同原文长度上的 BLEU", "ensemble": "集成",
    "valid exact match %": "验证集整句正确率（%）", "test exact match %": "测试集整句正确率（%）",
    "test word error rate %": "测试集词错误率（%）", "test phoneme error rate %": "测试集音素错误率（%）",
    "test word error rate %, with stress": "测试集词错误率（%，计重音）",
    "test phoneme error rate %, with stress": "测试集音素错误率（%，计重音）",
    "valid loss": "验证集损失", "test loss": "测试集损失",
    "valid bits per character": "验证集每字符比特数", "test bits per character": "测试集每字符比特数",
    "valid perplexity": "验证集困惑度", "test perplexity": "测试集困惑度",
    "valid accuracy %": "验证集准确率（%）", "test accuracy %": "测试集准确率（%）",
    "test macro F1 %": "测试集宏平均 F1（%）", "test F1 of spans %": "测试集片段 F1（%）",
    "benchmark": "测试项", "name": "名称", "value": "数值", "ratio": "比值", "mode": "方式",
    "relative range": "相对极差",
    "command": "命令",
    "action": "操作", "milliseconds": "毫秒", "bound": "上限", "within bound": "未超上限",
    "first view of a pocket model, after the page is loaded": "页面载入后，pocket 模型的第一个视图",
    "hovering over a cell": "指针悬停在格子上",
    "1,000 × 1,000 tokens of a small GPT: computed, fetched and painted":
    "小 GPT 的 1,000 × 1,000 个词元：计算、传送、绘制",
    "of this, painting": "其中绘制",
    "the machine did other work too: latencies are an upper bound": "机器同时还在做别的事：延迟只是上限",
    "the machine did other work too: speeds are a lower bound": "机器同时还在做别的事：速度只是下限",
    "order": "阶数", "n-gram types": "n 元组种数", "unseen %": "未见（%）", "bits per character": "每字符比特数",
    "published": "已发表", "line by line": "逐行", "corpus": "语料", "seen once %": "只出现一次（%）", "slope": "斜率",
    "slope, ranks to 100": "斜率（前 100 名）", "slope, ranks from 100": "斜率（100 名以后）", "tokenizer": "分词器",
    "tokens": "词元数", "tokenizers alone, tokens per second": "单用 tokenizers，词元/秒",
    "text to array, tokens per second": "文本到数组，词元/秒", "share %": "占比（%）",
    "counted to order 5, tokens per second": "数到 5 阶，词元/秒",
    "tokens per second": "词元/秒", "sentences per second": "句/秒", "threads": "线程数", "precision": "精度",
    "batch": "批大小", "processor": "处理器", "beams": "束宽", "device": "设备", "system": "系统", "compiled": "编译",
    "forecast by": "预测方法", "image size": "图片边长", "1 ahead": "向前 1 步", "4 ahead": "向前 4 步",
    "16 ahead": "向前 16 步",
    "64 ahead": "向前 64 步", "last value (naive)": "最后一个值（朴素预测）", "least squares": "最小二乘",
    "labeled sentences": "带标签的句子数", "one-hot %": "独热（%）", "learned %": "学习得到（%）",
    "pre-trained %": "预训练（%）",
    "the machine did other work too": "机器同时还在做别的事",
    "compiled, one CUDA graph": "编译，整步一个 CUDA 图", "one CUDA graph": "整步一个 CUDA 图",
    "seq2see, compiled": "seq2see，编译", "seq2see, torch matmul": "seq2see，用 torch 的矩阵乘法", "memory": "内存",
    "to compiled": "与编译者之比", "to graphed": "与用 CUDA 图者之比", "full sequences": "满长序列",
    "real sentences": "真实句子",
    "task": "任务", "masked first letter": "被遮住的首字母", "continuation": "续写", "transliteration": "转写",
    "workload": "任务内容", "configuration": "配置", "case": "情形", "background load": "后台负载", "size": "规模",
    "lines": "行数", "lines per second": "行/秒", "seconds to first output": "首个输出前的秒数",
    "MB at a tenth": "十分之一处的 MB", "MB at the end": "结束时的 MB",
    "random order": "随机顺序", "similar length": "长度相近",
    "12,000 steps, alone": "12,000 步，单独运行", "9,500 steps, alone": "9,500 步，单独运行",
    "8,000 steps, alone": "8,000 步，单独运行", "48,000 steps": "48,000 步",
    "12,000 steps, concurrently with the ResNet": "12,000 步，与 ResNet 同时运行",
    "16,000 steps, concurrently with two others": "16,000 步，另有两个同时运行",
    "concurrently with the hybrid": "与混合模型同时运行", "concurrently with three others": "另有三个同时运行",
    "32,768 buckets": "32,768 个桶", "65,536 buckets": "65,536 个桶",
    "R-Drop of weight 1, 1,500 steps": "R-Drop 权重为 1，1,500 步",
    "model": "模型", "search": "搜索", "greedy": "贪心", "beam 4": "束宽 4", "bleu": "BLEU",
    "same as float32": "与 float32 相同（%）", "rows": "行数", "same outputs": "输出相同", "target": "目标值",
    "ratio to best": "与最好者之比", "target to best": "与最好者之比的目标",
    "float32, 4 beams": "float32，束宽 4", "training step": "训练一步", "one thread": "一个线程",
    "never spin": "从不自旋", "spin 10,000": "自旋 10,000 次",
    "one sentence, small": "一句话，small", "one sentence, base": "一句话，base",
    "256 lines, small": "256 行，small", "48 lines, base": "48 行，base",
    "torch 1 x 1, never spin": "torch 1 x 1，从不自旋", "torch 1 x 2, never spin": "torch 1 x 2，从不自旋",
    "torch 2 x 1, never spin": "torch 2 x 1，从不自旋", "torch 1 x 2, spin": "torch 1 x 2，自旋",
    "native 1 x 1, never spin": "C++ 1 x 1，从不自旋", "native 1 x 2, never spin": "C++ 1 x 2，从不自旋",
    "native 2 x 1, never spin": "C++ 2 x 1，从不自旋",
    "valid word error rate %": "验证集词错误率（%）", "valid phoneme error rate %": "验证集音素错误率（%）",
    "valid word error rate %, with stress": "验证集词错误率（%，计重音）",
    "valid phoneme error rate %, with stress": "验证集音素错误率（%，计重音）",
    "machine": "机器", "implementation": "实现", "min": "最小", "max": "最大", "forward": "前向",
    "images/s": "图片/秒", "relative to the fastest peer": "与其他实现中最快者之比",
    "training": "训练", "generation": "生成", "plain PyTorch": "普通 PyTorch",
    "the same first 64 tokens in float32": "float32 下前 64 个词元相同",
    "one optimizer step of `train translate`": "`train translate` 的一个优化步",
    "files before": "文件（之前）", "files after": "文件（之后）", "functions before": "函数（之前）",
    "functions after": "函数（之后）", "jumps before": "跳转（之前）", "jumps after": "跳转（之后）",
    "files plain": "文件（纯定义）", "functions plain": "函数（纯定义）", "jumps plain": "跳转（纯定义）",
    "count": "计数", "before": "之前", "after": "之后", "Python files": "Python 文件",
    "questions": "问题数", "recall of facts %": "事实回忆率（%）",
    **{f"distance {distance}": f"距离 {distance}" for distance in range(1, 7)},
    "hits@1 of 20 %": "20 选 1 命中率（%）", "tf-idf %": "tf-idf（%）",
    "distinct-1 (human)": "distinct-1（人类）", "distinct-2 (human)": "distinct-2（人类）",
    "first token, ms": "首个词元，毫秒", "perplexity": "困惑度", "transformers, compiled": "transformers，编译",
    "KL divergence from float32, nats": "与 float32 的 KL 散度（奈特）",
    "same most probable token %": "概率最大的词元相同（%）",
    "inputs and outputs": "输入数与输出数", "weights / 2^18": "权重数 / 2^18", "torch, µs": "torch，微秒",
    "packed float32, µs": "打包 float32，微秒", "packed bf16, µs": "打包 bf16，微秒",
    "packed int8, µs": "打包 int8，微秒", "packed 4 bits, µs": "打包 4 位，微秒",
    "import cycles": "导入环", "import cycles, `TYPE_CHECKING` counted": "导入环（`TYPE_CHECKING` 也算）",
}  # fmt: skip
"""Column titles and short labels: English, Chinese."""

Translate = Callable[[str], str]
"""A function from an English sentence to the language of the page."""


ENGLISH = {"multi30k/lengths": "BLEU by the length of the source"}
"""English replacements for labels of the results files."""


def english(sentence: str) -> str:
    """The English text of a sentence or label."""
    return PHRASES[sentence][0] if sentence in PHRASES else ENGLISH.get(sentence, sentence)


def chinese(sentence: str) -> str:
    """The Chinese text, or the English one without a translation."""
    return PHRASES[sentence][1] if sentence in PHRASES else (WORDS | CHINESE).get(sentence, sentence)
