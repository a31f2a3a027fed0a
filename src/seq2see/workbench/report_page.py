"""The frame of a report page: its texts in two languages, its looks, and the switch between the two.

The page loads nothing from anywhere: pictures are data URIs, style and script stand inside it, and its
content policy forbids the browser to fetch or run anything else, whatever the data contain.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from pathlib import Path

TEXTS = {
    "report": ("run report", "训练报告"),
    "this_run": ("This run", "本次训练"),
    "curves": ("Curves", "训练曲线"),
    "scores": ("Scores", "评测结果"),
    "samples": ("The same sentences, again and again", "同样的句子，不同的阶段"),
    "predictions": ("Best and worst predictions", "最好与最差的译文"),
    "confusion": ("Which label is taken for which", "哪个标签被当成哪个"),
    "confusion_note": (
        "Rows: the truth. Columns: the answers. The darker, the larger a share of its row.",
        "行为正确标签，列为模型的回答；颜色越深，在该行所占比例越大。",
    ),
    "mistakes": ("The surest mistakes", "最有把握的错误"),
    "mistakes_note": (
        "Wrong answers on the test texts, those with the highest probability first; all answers are in eval/.",
        "测试文本上的错误回答，概率最高的在前；全部回答见 eval/。",
    ),
    "label": ("label", "标签"),
    "cases": ("cases", "例数"),
    "precision": ("precision", "精确率"),
    "recall": ("recall", "召回率"),
    "f1": ("F1", "F1 值"),
    "test_accuracy": ("right answers % (test)", "回答正确率 %（测试集）"),
    "test_macro_f1": ("macro F1 % (test)", "宏平均 F1 %（测试集）"),
    "classes_note": ("{split}: {right} % right, macro F1 {f1} %", "{split}：正确率 {right} %，宏平均 F1 {f1} %"),
    "answered": ("answer", "回答"),
    "probability": ("probability", "概率"),
    "strips": ("What surprises the model", "模型对什么感到意外"),
    "attention": ("Where the model looks", "模型在看哪里"),
    "zipf": ("How often n-grams occur", "n 元组出现的次数"),
    "recipe": ("The complete recipe", "完整配方"),
    "environment": ("Environment", "运行环境"),
    "data": ("data", "数据"),
    "read": ("pairs read = kept + skipped + rejected", "读入句对 = 保留 + 跳过 + 拒绝"),
    "read_lines": ("lines read = kept + skipped + rejected", "读入行数 = 保留 + 跳过 + 拒绝"),
    "tokens": ("tokens", "词元"),
    "encoder": ("encoder", "编码器"),
    "decoder": ("decoder", "解码器"),
    "weights": ("weights", "参数量"),
    "training": ("training", "训练"),
    "time": ("training time (h:mm:ss)", "训练用时（时:分:秒）"),
    "best_loss": ("best valid loss", "最低验证损失"),
    "accuracy": ("right tokens, valid", "词元正确率（验证集）"),
    "steps": ("steps", "步数"),
    "command": ("started with", "启动命令"),
    "again": ("run it again", "重新训练"),
    "use": ("use the model", "使用模型"),
    "unfinished": (
        "This run is not finished; the same command goes on where it stopped.",
        "本次训练尚未结束；再次运行同一命令即可从中断处继续。",
    ),
    "curves_note": (
        "Faint: every step. Bold: mean over a fiftieth of the run. Orange: validation. "
        "The gradient norm is measured before clipping; the corner shows the last value. "
        "The training loss includes label smoothing and dropout, the validation loss does not.",
        "浅色线为每一步的值，粗线为滑动平均（窗口为全程的五十分之一），橙色为验证集。"
        "梯度范数在裁剪之前测得；右上角为最后的值。"
        "训练损失包含标签平滑和 dropout，验证损失不含。",
    ),
    "counted": ("{orders} orders, counted in one pass", "一遍数完 {orders} 阶"),
    "order": ("order", "阶数"),
    "kinds": ("kinds of n-grams", "n 元组种数"),
    "valid_perplexity": ("valid perplexity", "验证集困惑度"),
    "unseen": ("of the valid text never counted", "验证文本中没数到过的"),
    "once": ("seen once", "只出现一次"),
    "slope": ("slope", "斜率"),
    "orders_note": (
        "A longer context tells more, if it was ever seen: with the order the perplexity falls, and the share of "
        "n-grams that nobody has counted grows. What was not seen is guessed from shorter contexts.",
        "上下文越长，能说明的越多，前提是曾经见过：阶数增大时困惑度下降，而没有数到过的 n 元组越来越多。"
        "没见过的，由更短的上下文来猜。",
    ),
    "zipf_note": (
        "Frequency over rank, both logarithmic. Single words come near a straight line of slope -1 (Zipf); the longer "
        "the n-grams, the flatter the line, and the more of them occur only once.",
        "横轴为名次，纵轴为出现次数，均为对数坐标。单个词接近斜率 -1 的直线（Zipf 定律）；n 元组越长，线越平，"
        "只出现一次的也越多。",
    ),
    "no_scores": (
        "Not evaluated yet. This adds scores and predictions:",
        "尚未评测。运行以下命令可得到评测结果与译文：",
    ),
    "split": ("split", "数据集"),
    "pairs": ("pairs", "句对"),
    "exact": ("exact %", "完全一致 %"),
    "notes_bleu": ("notes' BLEU", "讲义版 BLEU"),
    "bleu_tokenised": ("BLEU, lower-cased and tokenised", "BLEU（小写、已分词）"),
    "word_errors": ("wrong words %", "错误的词 %"),
    "phoneme_errors": ("wrong phonemes %", "音素错误率 %"),
    "word_errors_with_stress": ("wrong words %, stress counted", "错误的词 %（计重音）"),
    "phoneme_errors_with_stress": ("wrong phonemes %, stress counted", "音素错误率 %（计重音）"),
    "perplexity_token": ("perplexity per token ({split}, truth given)", "每词元困惑度（{split}，给定参考文本）"),
    "perplexity_word": ("perplexity per word ({split}, truth given)", "每词困惑度（{split}，给定参考文本）"),
    "perplexity_character": (
        "perplexity per character ({split}, truth given)",
        "每字符困惑度（{split}，给定参考文本）",
    ),
    "bits": ("bits per character", "每字符比特数"),
    "right_tokens": ("right tokens % (truth given)", "词元正确率 %（给定参考译文）"),
    "error_rate": ("alignment error rate of attention", "注意力的对齐错误率"),
    "heads": ("layer {layer}, head {heads}; chosen on valid", "第 {layer} 层，第 {heads} 头；在验证集上选出"),
    "signatures": (
        "sacreBLEU signatures, without which scores cannot be compared",
        "sacreBLEU 签名（比较分数时必须一致）",
    ),
    "samples_note": (
        "Validation sentences, translated at every evaluation while the model learnt. "
        "Marked: what the reference does not say.",
        "训练过程中每次验证时都翻译同样的句子。标记部分与参考译文不同。",
    ),
    "step": ("step", "步"),
    "source": ("source", "原文"),
    "reference": ("reference", "参考译文"),
    "output": ("output", "模型输出"),
    "best": ("Best", "最好"),
    "worst": ("Worst", "最差"),
    "predictions_note": (
        "Test sentences by chrF; of equally good ones the longest. log p is how the model ranks its answer.",
        "测试集句子按 chrF 排序，分数相同时取较长者。log p 为模型给自己输出的得分。",
    ),
    "attention_note": (
        "Each row shows, for one word being written, how its attention is shared among the source words.",
        "每一行对应一个正在生成的词，颜色表示它的注意力在原文各词上的分配。",
    ),
    "hidden_right": ("hidden tokens guessed right % (test)", "被遮住的词元猜对的比例 %（测试集）"),
    "hidden_perplexity": ("perplexity per hidden token (test)", "每个被遮住词元的困惑度（测试集）"),
    "follows_right": ("right about whether a text follows % (test)", "后文是否相接判断正确的比例 %（测试集）"),
    "strips_note": (
        "Test text with each token hidden in turn, and nothing else: the darker, the less the model expected it. "
        "The number, −log p, shows when you point at a token.",
        "测试文本：每次只遮住一个词元；颜色越深，模型越没有料到。鼠标指向词元可看到 −log p。",
    ),
    "recipe_note": ("Everything that decides this run, as TOML", "决定本次训练的一切设置（TOML）"),
    "nothing": ("(nothing)", "（空）"),
}  # fmt: skip
"""Every text of the page: English, Chinese."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fff; --card: #f6f7f9; --ink: #1b1f24; --soft: #59636e; --line: #d5dae0;
  --blue: #0063a0; --mark: #ffe2c7; --good: #00664a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --card: #1e2329; --ink: #e6e9ed; --soft: #a3adb8; --line: #39424c;
    --blue: #6cb8ee; --mark: #6b3d12; --good: #5fd0a8;
  }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #999;
    --blue: #004b7a; --mark: #ffe2c7; --good: #00543c;
  }
  nav, button { display: none !important; }
  img, tr, .tile { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  img.wide { min-width: 0 !important; }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1120px; padding: 1.2rem; background: var(--paper); color: var(--ink);
  font: 1.0625rem/1.55 system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC",
    sans-serif;
}
html[lang=en] .t[lang=zh], html[lang=zh] .t[lang=en] { display: none; }
header {
  display: flex; flex-wrap: wrap; gap: .2rem 1rem; align-items: baseline; padding-bottom: .5rem;
  border-bottom: 3px solid var(--blue);
}
header p { color: var(--soft); margin: 0; flex: 1; }
h1 { font-size: 1.9rem; margin: .2rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1.05rem; margin: 1.2rem 0 .3rem; }
button {
  font: inherit; color: var(--blue); background: none; border: 1px solid var(--line);
  border-radius: 6px; padding: .25rem .9rem; cursor: pointer;
}
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; padding: .6rem 0; }
a { color: var(--blue); }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(12rem, 45%), 1fr));
  gap: .7rem; margin: 1rem 0;
}
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .5rem .8rem; }
.tile b { display: block; font-size: 1.6rem; font-variant-numeric: tabular-nums; line-height: 1.3; }
.tile span, .note { color: var(--soft); font-size: .92rem; }
.scroll { overflow-x: auto; }
.cards {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 0 2.5rem;
}
table { border-collapse: collapse; width: 100%; margin: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); }
td { overflow-wrap: anywhere; }
th.name { width: 14rem; }
td.text { min-width: 9rem; width: 33%; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.narrow { width: 1%; }
mark { background: var(--mark); color: inherit; border-radius: 3px; padding: 0 .1em; }
.right { color: var(--good); font-weight: 600; }
img {
  display: block; max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 8px;
}
img.wide { min-width: 44rem; }
code, pre { font-family: ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace; font-size: .9em; }
code { background: var(--card); border-radius: 4px; padding: .1em .35em; overflow-wrap: anywhere; }
pre {
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .8rem;
  overflow-x: auto;
}
.strip { line-height: 1.9; overflow-wrap: anywhere; }
.strip span { border-radius: 3px; padding: .1em .05em; }
summary { cursor: pointer; color: var(--blue); }
@media (max-width: 40rem) {
  body { padding: .8rem; }
  th, td { padding: .3rem .4rem; }
  th.name { width: 7rem; }
}
"""

SCRIPT = """
const page = document.documentElement, button = document.querySelector("button");
function speak(language) {
  page.lang = language;
  button.textContent = language === "en" ? "中文" : "English";
}
const asked = ["#zh", "#en"].includes(location.hash) ? location.hash.slice(1) : navigator.language;
speak(asked.toLowerCase().startsWith("zh") ? "zh" : "en");
button.addEventListener("click", () => speak(page.lang === "en" ? "zh" : "en"));
"""


def say(name: str, **values: str) -> str:
    """A text of the table in both languages, one of which the page hides."""
    spoken = zip(("en", "zh"), TEXTS[name], strict=True)
    return "".join(
        f'<span class="t" lang="{language}">{escape(text.format(**values))}</span>' for language, text in spoken
    )


def section(name: str, content: str) -> str:
    """A part of the page under its heading; nothing if it has no content."""
    return f'<section id="{name}"><h2>{say(name)}</h2>\n{content}\n</section>' if content else ""


def cell(content: str, looks: str = "") -> str:
    """A cell of a table; its content is HTML already."""
    return f'<td class="{looks}">{content}</td>' if looks else f"<td>{content}</td>"


def head(content: str, looks: str = "") -> str:
    """A cell that names its row or column."""
    return f'<th class="{looks}">{content}</th>' if looks else f"<th>{content}</th>"


def table(rows: list[list[str]]) -> str:
    """A table of cells; a narrow screen scrolls it."""
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f'<div class="scroll"><table>{body}</table></div>'


def picture(path: Path, names: tuple[str, str]) -> str:
    """A PNG file inside the page."""
    content = base64.b64encode(path.read_bytes()).decode("ascii")
    name = escape(" / ".join(names))
    return f'<div class="scroll"><img class="wide" alt="{name}" src="data:image/png;base64,{content}"></div>'


def page(name: str, sections: dict[str, str]) -> str:
    """The whole page from the content of its sections; empty ones are left out."""
    allowed = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    there = [part for part, content in sections.items() if content]
    links = "".join(f'<a href="#{part}">{say(part)}</a>' for part in there)
    body = "\n".join(section(part, sections[part]) for part in there)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(name)} – seq2see</title>
<style>{STYLE}</style>
</head>
<body>
<header><h1>{escape(name)}</h1><p>seq2see {say("report")}</p><button type="button">中文</button></header>
<nav>{links}</nav>
{body}
<script>{SCRIPT}</script>
</body>
</html>
"""
