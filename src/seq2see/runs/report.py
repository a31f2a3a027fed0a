"""The report of a run: `curves.png` and `report.html`, from the files that the run folder has so far.

The page loads no other resources: images are data URIs, style and script are inline, and its content security policy
forbids the browser to load or run anything else, whatever the data contain.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from collections.abc import Sequence
from difflib import SequenceMatcher
from html import escape
from pathlib import Path
from typing import Any

from seq2see.core.documents import read_json, read_toml_tables
from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.runs.experts import ADAPTER_FIGURE
from seq2see.runs.run_folder import RunFolder, read_rows, read_scores, read_table
from seq2see.tasks.report_parts import (
    ColoredTokens,
    CopiedLines,
    Difference,
    NamedValues,
    ReportFigure,
    ReportHeading,
    ReportPart,
    ReportSection,
    ReportTable,
    ReportText,
    RunResults,
    Words,
    note,
    section,
    words,
)
from seq2see.tasks.task import Task, task_named
from seq2see.training.loop import read_metrics

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
function setLanguage(language) {
  page.lang = language;
  button.textContent = language === "en" ? "中文" : "English";
}
const preferred = ["#zh", "#en"].includes(location.hash) ? location.hash.slice(1) : navigator.language;
setLanguage(preferred.toLowerCase().startsWith("zh") ? "zh" : "en");
button.addEventListener("click", () => setLanguage(page.lang === "en" ? "zh" : "en"));
"""


def bilingual(text: Words) -> str:
    """A text in both languages, of which the page hides one; a text without a translation as it is."""
    if isinstance(text, str):
        return escape(text)
    texts = zip(("en", "zh"), text, strict=True)
    return "".join(f'<span class="t" lang="{language}">{escape(each)}</span>' for language, each in texts)


def cell(content: str, css_class: str = "") -> str:
    """A table cell; the content is HTML."""
    return f'<td class="{css_class}">{content}</td>' if css_class else f"<td>{content}</td>"


def head(content: str, css_class: str = "") -> str:
    """A header cell; the content is HTML."""
    return f'<th class="{css_class}">{content}</th>' if css_class else f"<th>{content}</th>"


def table(rows: list[list[str]]) -> str:
    """A table of cells, scrollable on narrow screens."""
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f'<div class="scroll"><table>{body}</table></div>'


def image(path: Path, name: Words) -> str:
    """A PNG file as an inline image."""
    content = base64.b64encode(path.read_bytes()).decode("ascii")
    name = escape(name if isinstance(name, str) else " / ".join(name))
    return f'<div class="scroll"><img class="wide" alt="{name}" src="data:image/png;base64,{content}"></div>'


def csp_hash(inline: str) -> str:
    """The content security policy source of an inline script or style: its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode('ascii')}'"


def page(name: str, sections: dict[str, tuple[Words, str]]) -> str:
    """The page: title and content of each section by its name; sections without content are left out."""
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {csp_hash(SCRIPT)}"
    shown = {part: section for part, section in sections.items() if section[1]}
    links = "".join(f'<a href="#{escape(part)}">{bilingual(title)}</a>' for part, (title, _) in shown.items())
    body = "\n".join(
        f'<section id="{escape(part)}"><h2>{bilingual(title)}</h2>\n{content}\n</section>'
        for part, (title, content) in shown.items()
    )
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
<header><h1>{escape(name)}</h1><p>seq2see {bilingual(words("report"))}</p><button type="button">中文</button></header>
<nav>{links}</nav>
{body}
<script>{SCRIPT}</script>
</body>
</html>
"""


SENTENCES = 4
"""The number of sentences in the samples."""
STAGES = 6
"""The number of evaluations shown for each sentence, including the first and the last."""
DARKEST = 8.0
"""The loss in nats at which the color of a token is darkest: a probability of 1/3,000."""

UNITS = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|\s+|.", re.DOTALL)
"""The units of comparison: Chinese characters, and words of other languages."""


def draw_section(folder: Path, parts: Sequence[ReportPart]) -> str:
    """The parts of a section as HTML; figures are files of this folder, or are drawn there."""
    return "".join(_draw(folder, part) for part in parts)


def _draw(folder: Path, part: ReportPart) -> str:
    match part:
        case ReportTable():
            return _table(part)
        case NamedValues():
            return table([[head(bilingual(name), "name"), cell(bilingual(value))] for name, value in part.rows])
        case ReportFigure():
            if part.draw is not None:
                part.draw(folder / part.path)
            return image(folder / part.path, part.name)
        case ReportText():
            return f'<p class="note">{bilingual(part.text)}</p>' if part.is_note else f"<p>{bilingual(part.text)}</p>"
        case ReportHeading():
            return f"<h3>{bilingual(part.text)}</h3>"
        case ColoredTokens():
            return "".join(
                f'<p class="strip">{"".join(map(_token, each["tokens"], each["losses"]))}</p>' for each in part.texts
            )
        case CopiedLines():
            lines = "<br>".join(f"<code>{escape(line)}</code>" for line in part.lines)
            return f'<p class="note">{bilingual(part.text)}:<br>{lines}</p>'


def _table(part: ReportTable) -> str:
    count = part.text_columns
    classes = ["" if index < count else "number" for index in range(len(part.header))]
    heads = [head(bilingual(title), each) for title, each in zip(part.header, classes, strict=True)]
    rows = [
        [_cell(value, each, _has_difference(row)) for value, each in zip(row, classes, strict=True)]
        for row in part.rows
    ]
    return table([heads, *rows])


def _has_difference(row: Sequence[Words | Difference]) -> bool:
    """Whether a row shows the differences of an output; its texts then have equal widths."""
    return any(isinstance(value, Difference) for value in row)


def _cell(value: Words | Difference, css_class: str, is_compared: bool) -> str:
    css_class = css_class or ("text" if is_compared else "")
    if isinstance(value, Difference):
        return cell(marked(value.output, value.reference), css_class)
    return cell(bilingual(value), css_class)


def _token(token: str, loss: float) -> str:
    shade = f"background:rgba(213,94,0,{min(loss / DARKEST, 1):.2f})"
    return f'<span style="{shade}" title="{loss:.2f}">{escape(token)}</span>'


def marked(output: str, reference: str) -> str:
    """An output as HTML, with the differences from the reference marked.

    >>> marked("two red pens", "two blue pens")
    'two <mark>red</mark> pens'
    """
    if not output.strip():
        return f"<mark>{bilingual(words('nothing'))}</mark>"
    parts = [(escape(text), new) for text, new in diff_parts(output, reference)]
    return "".join(f"<mark>{text}</mark>" if new else text for text, new in parts)


def diff_parts(output: str, reference: str) -> list[tuple[str, bool]]:
    """An output in parts, each with a flag whether it differs from the reference.

    >>> diff_parts("two red pens", "two blue pens")
    [('two ', False), ('red', True), (' pens', False)]
    """
    units, reference_units = UNITS.findall(output), UNITS.findall(reference)
    changes = SequenceMatcher(None, reference_units, units, autojunk=False).get_opcodes()
    return [("".join(units[start:end]), kind != "equal") for kind, _, _, start, end in changes if start < end]


def samples(folder: Path) -> str:
    """A few validation sentences, with the model outputs at some of the evaluations."""
    files = _evenly_spaced(sorted(folder.glob("step-*.tsv"), key=_step), STAGES)
    stages = {_step(path): {row[0]: row for row in read_table(path, 3)} for path in files}
    if not stages:
        return ""
    latest = list(stages.values())[-1]
    note = f'<p class="note">{bilingual(words("samples_note"))}</p>'
    cards = [f"<div>{_progress(source, stages)}</div>" for source in list(latest)[:SENTENCES]]
    return f'{note}<div class="cards">{"".join(cards)}</div>'


def _progress(source: str, stages: dict[int, dict[str, list[str]]]) -> str:
    rows = [[head(bilingual(words("step")), "number narrow"), head(bilingual(words("output")))]]
    for step, table_rows in stages.items():
        if source in table_rows:
            _, reference, output = table_rows[source]
            mark = ' <span class="right">✓</span>' if output == reference else ""
            rows.append([cell(f"{step:,}", "number"), cell(marked(output, reference) + mark)])
    rows.append([head(bilingual(words("reference")), "number"), cell(escape(reference))])
    return f"<h3>{escape(source)}</h3>{table(rows)}"


def _step(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _evenly_spaced(files: list[Path], count: int) -> list[Path]:
    """`count` evenly spaced files, including the first and the last."""
    if len(files) <= count:
        return files
    return [files[round(index * (len(files) - 1) / (count - 1))] for index in range(count)]


Tree = dict[str, Any]

NOT_DOCUMENTS = ("env", "splits", "data_report", "scores")
"""The JSON files of a run that are no documents of its task."""


def write_report(run: RunFolder) -> Path:
    """Draw the training curves and write the page; scores are included after `eval`."""
    run.refuse_links()
    recipe, toml = read_toml_tables(run.recipe_file), run.recipe_file.read_text(encoding="utf-8")
    results, task = results_of(run, recipe), task_named(str(recipe.get("task")), str(run.recipe_file))
    environment = _read_json(run.path / "env.json")
    about = _headline(task, results) + _describe(run, recipe, results.metrics, environment)
    settings = f"<details><summary>{bilingual(words('recipe_note'))}</summary><pre>{escape(toml)}</pre></details>"
    machine = _pairs([(escape(key), escape(_plain(value))) for key, value in environment.items() if key != "command"])
    sections = task.sections(results)
    first = [each.name for each in sections].index("scores") + 1
    contents = {
        "this_run": (words("this_run"), about),
        "curves": (words("curves"), draw_section(run.path, task.curves(results))),
        **{each.name: (each.title, draw_section(run.path, each.parts)) for each in sections[:first]},
        "adapter": (words("adapter"), draw_section(run.path, _adapter(results).parts)),
        "batch": (words("batch"), draw_section(run.path, _batch(results).parts)),
        "samples": (words("samples"), samples(run.samples)),
        **{each.name: (each.title, draw_section(run.path, each.parts)) for each in sections[first:]},
        "recipe": (words("recipe"), settings),
        "environment": (words("environment"), machine),
    }
    if not results.scores:
        contents["scores"] = (words("scores"), _advice(run))
    path = run.path / "report.html"
    write_text(path, page(recipe["name"], contents))
    return path


def results_of(run: RunFolder, recipe: Tree) -> RunResults:
    """What a run has so far."""
    documents = [path for folder in (run.path, run.evaluation) for path in sorted(folder.glob("*.json"))]
    return RunResults(
        recipe,
        read_metrics(run.metrics),
        read_metrics(run.path / "timing.jsonl"),
        read_scores(run),
        {path.stem: read_rows(path) for path in sorted(run.evaluation.glob("*.tsv"))},
        {path.stem: read_json(path) for path in documents if path.stem not in NOT_DOCUMENTS},
        {path.relative_to(run.path).as_posix() for path in sorted(run.path.glob("*/*.png"))},
    )


def _batch(results: RunResults) -> ReportSection:
    """The images of the first step."""
    if "samples/batch.png" not in results.figures:
        return section("batch")
    return section("batch", ReportFigure("samples/batch.png", words("batch")), note("batch_note"))


def _adapter(results: RunResults) -> ReportSection:
    """What an adapter does to the matrices."""
    if ADAPTER_FIGURE not in results.figures:
        return section("adapter")
    return section("adapter", ReportFigure(ADAPTER_FIGURE, words("adapter")), note("adapter_note"))


def _headline(task: Task, results: RunResults) -> str:
    """The most important scores."""
    metrics, timing, tiles = results.metrics, results.timing, task.tiles(results.scores)
    losses = [row["valid_loss"] for row in metrics if "valid_loss" in row]
    accuracies = [row["valid_accuracy"] for row in metrics if "valid_accuracy" in row]
    if losses:
        tiles.append((words("best_loss"), f"{min(losses):.4f}"))
    if accuracies:
        tiles.append((words("accuracy"), f"{accuracies[-1]:.1%}"))
    tiles.append((words("steps"), f"{_last_step(metrics):,}"))
    if timing:
        tiles.append((words("time"), _clock(sum(row["seconds"] for row in timing))))
    boxes = "".join(f'<div class="tile"><b>{value}</b><span>{bilingual(name)}</span></div>' for name, value in tiles)
    return f'<div class="tiles">{boxes}</div>'


def _describe(run: RunFolder, recipe: Tree, metrics: list[Tree], environment: Tree) -> str:
    """Data, model and training settings, and the commands to train again and to predict."""
    training, folder = recipe.get("training", {}), shlex.quote(str(run.path))
    if not training:  # a model that is counted
        description = bilingual(words("counted", orders=str(_last_step(metrics))))
    else:
        steps = f"{_last_step(metrics):,} / {training['steps']:,}"
        description = f"{bilingual(words('steps'))} {steps}; {escape(_words(training, without=('steps',)))}"
    tokenizers = [recipe[side]["tokenizer"] for side in ("source", "target") if "tokenizer" in recipe.get(side, {})]
    kind = recipe["corpus"]["kind"]
    read_key = "read_lines" if "texts" in kind else "read_images" if "images" in kind else "read"
    rows = [
        ("data", escape(_words(recipe["corpus"]))),
        (read_key, escape(_data_totals(run))),
        ("tokens", escape(" → ".join(map(_words, tokenizers)))),
        *((part, escape(_words(recipe[part])) if part in recipe else "") for part in ("encoder", "decoder")),
        ("weights", _weights(run.model)),
        ("training", description),
        ("command", _code(_command(environment.get("command", [])))),
        ("again", _code(f"seq2see train {shlex.quote(str(run.recipe_file))}")),
        ("use", _code(f"seq2see predict {folder}") if run.finished else ""),
    ]  # fmt: skip
    warning = "" if run.finished else f"<p><mark>{bilingual(words('unfinished'))}</mark></p>"
    return warning + _pairs([(bilingual(words(name)), text) for name, text in rows if text])


def _advice(run: RunFolder) -> str:
    return f"<p>{bilingual(words('no_scores'))} {_code(f'seq2see eval {shlex.quote(str(run.path))}')}</p>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>" if text else ""


def _pairs(rows: list[tuple[str, str]]) -> str:
    """A table of names and values, both already HTML."""
    return table([[head(name, "name"), cell(text)] for name, text in rows]) if rows else ""


def _words(tree: Tree, without: tuple[str, ...] = ()) -> str:
    """A subtree of the recipe on one line: its kind, then its settings.

    >>> _words({"kind": "transformer", "width": 128, "test": [], "optimizer": {"kind": "adamw", "weight_decay": 0.01}})
    'transformer, width 128, optimizer adamw (weight_decay 0.01)'
    """
    parts = [str(tree["kind"])] if "kind" in tree else []
    for name, value in tree.items():
        if name == "kind" or name in without or value == []:
            continue
        if isinstance(value, dict):
            inner = _words(value)
            head, _, rest = inner.partition(", ")
            parts.append(f"{name} {head} ({rest})" if rest else f"{name} {head}")
        else:
            parts.append(f"{name} {_plain(value)}")
    return ", ".join(parts)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def _command(words: list[str]) -> str:
    """The command line, with the program by its name instead of its path."""
    return shlex.join([Path(words[0]).name, *words[1:]]) if words else ""


def _data_totals(run: RunFolder) -> str:
    """The totals of the data reports of user files."""
    reports = _read_json(run.path / "data_report.json").get("reports", [])
    template = "{read:,} = {kept:,} + {skipped:,} + {rejected:,}"
    return "; ".join(template.format(**report["totals"]) for report in reports)


def _weights(folder: Path) -> str:
    """The number of weights of the stored model, from the headers of its files, without reading tensors."""
    sizes = []
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            entries = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        sizes += [math.prod(entry["shape"]) for name, entry in entries.items() if name != "__metadata__"]
    return f"{sum(sizes):,}" if sizes else ""


def _last_step(metrics: list[Tree]) -> int:
    return max((int(row["step"]) for row in metrics), default=0)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def _read_json(path: Path) -> Tree:
    tree = read_json(path) if path.exists() else {}
    if not isinstance(tree, dict):
        raise UserError("This is not a JSON object.", location=str(path), hint="Restore the file.")
    return tree
