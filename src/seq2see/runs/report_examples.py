"""Examples in the report: outputs during training, best and worst predictions, and token losses."""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from html import escape
from pathlib import Path
from typing import Any

from seq2see.runs.report_page import bilingual, cell, head, table

SENTENCES = 4
"""The number of sentences in the samples."""
STAGES = 6
"""The number of evaluations shown for each sentence, including the first and the last."""
PREDICTIONS = 5
"""The number of best and of worst predictions."""

DARKEST = 8.0
"""The loss in nats at which the color of a token is darkest: a probability of 1/3,000."""

UNITS = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|\s+|.", re.DOTALL)
"""The units of comparison: Chinese characters, and words of other languages."""


def samples(folder: Path) -> str:
    """A few validation sentences, with the model outputs at some of the evaluations."""
    files = _evenly_spaced(sorted(folder.glob("step-*.tsv"), key=_step), STAGES)
    stages = {_step(path): {row[0]: row for row in read_table(path, 3)} for path in files}
    if not stages:
        return ""
    latest = list(stages.values())[-1]
    note = f'<p class="note">{bilingual("samples_note")}</p>'
    cards = [f"<div>{_progress(source, stages)}</div>" for source in list(latest)[:SENTENCES]]
    return f'{note}<div class="cards">{"".join(cards)}</div>'


def predictions(path: Path) -> str:
    """The best and the worst test sentences, by chrF."""
    rows = [row for row in read_table(path, 5) if _is_number(row[3])]
    if not rows:
        return ""
    rows = list({row[0]: row for row in rows}.values())  # duplicates are shown once
    # Many short outputs are perfect; long ones are more informative.
    best = sorted(rows, key=lambda row: (-float(row[3]), -len(row[0])))[:PREDICTIONS]
    worst = sorted(rows, key=lambda row: (float(row[3]), -len(row[0])))[:PREDICTIONS]
    heads = [head(bilingual(name)) for name in ("source", "reference", "output")]
    heads += [head(name, "number") for name in ("chrF2", "log p")]
    note = f'<p class="note">{bilingual("predictions_note")}</p>'
    tables = [
        f"<h3>{bilingual(name)}</h3>{table([heads, *map(_prediction, rows)])}"
        for name, rows in (("best", best), ("worst", worst))
    ]
    return note + "".join(tables)


def classes(split: str, part: dict[str, Any]) -> str:
    """A row for each label, the most frequent first, and the scores over all labels."""
    names = ("precision", "recall", "f1")
    heads = [
        head(bilingual("label")),
        head(bilingual("support"), "number"),
        *(head(f"{bilingual(name)} %", "number") for name in names),
    ]
    common = sorted(part["classes"].items(), key=lambda item: -item[1]["support"])
    rows = [
        [cell(escape(label)), cell(f"{each['support']:,}", "number")]
        + [cell(f"{100 * each[name]:.1f}", "number") for name in names]
        for label, each in common
    ]
    summary = bilingual("classes_note", accuracy=f"{part['accuracy']:.1f}", f1=f"{part['macro_f1']:.1f}", split=split)
    return f"<p>{summary}</p>{table([heads, *rows])}"


def mistakes(path: Path) -> str:
    """The wrong predictions with the highest probabilities."""
    wrong = [row for row in read_table(path, 4) if row[1] != row[2] and _is_number(row[3])]
    if not wrong:
        return ""
    heads = [head(bilingual(name)) for name in ("source", "label", "prediction")] + [
        head(bilingual("probability"), "number")
    ]
    most_confident = sorted(wrong, key=lambda row: -float(row[3]))[: 2 * PREDICTIONS]
    rows = [[*(cell(escape(text)) for text in row[:3]), cell(escape(row[3]), "number")] for row in most_confident]
    return f'<p class="note">{bilingual("mistakes_note")}</p>{table([heads, *rows])}'


def token_loss_section(path: Path, note: str) -> str:
    """Texts with each token colored by its loss; `note` is the key of the explanation."""
    if not path.exists():
        return ""
    windows = json.loads(path.read_text(encoding="utf-8"))
    paragraphs = [f'<p class="strip">{"".join(map(_token, each["tokens"], each["losses"]))}</p>' for each in windows]
    return f'<p class="note">{bilingual(note)}</p>{"".join(paragraphs)}'


def _token(token: str, loss: float) -> str:
    shade = f"background:rgba(213,94,0,{min(loss / DARKEST, 1):.2f})"
    return f'<span style="{shade}" title="{loss:.2f}">{escape(token)}</span>'


def read_table(path: Path, columns: int) -> list[list[str]]:
    """The rows of a TSV file after its header; rows with another number of cells are skipped."""
    if not path.exists():
        return []
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:]]
    return [row for row in rows if len(row) == columns]


def marked(output: str, reference: str) -> str:
    """An output as HTML, with the differences from the reference marked.

    >>> marked("two red pens", "two blue pens")
    'two <mark>red</mark> pens'
    """
    if not output.strip():
        return f"<mark>{bilingual('nothing')}</mark>"
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


def _progress(source: str, stages: dict[int, dict[str, list[str]]]) -> str:
    rows = [[head(bilingual("step"), "number narrow"), head(bilingual("output"))]]
    for step, table_rows in stages.items():
        if source in table_rows:
            _, reference, output = table_rows[source]
            mark = ' <span class="right">✓</span>' if output == reference else ""
            rows.append([cell(f"{step:,}", "number"), cell(marked(output, reference) + mark)])
    rows.append([head(bilingual("reference"), "number"), cell(escape(reference))])
    return f"<h3>{escape(source)}</h3>{table(rows)}"


def _prediction(row: list[str]) -> list[str]:
    source, reference, output, chrf, score = row
    texts = (escape(source), escape(reference), marked(output, reference))
    return [
        *(cell(text, "text") for text in texts),
        *(cell(escape(value), "number") for value in (chrf, score)),
    ]


def _step(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _evenly_spaced(files: list[Path], count: int) -> list[Path]:
    """`count` evenly spaced files, including the first and the last."""
    if len(files) <= count:
        return files
    return [files[round(index * (len(files) - 1) / (count - 1))] for index in range(count)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
