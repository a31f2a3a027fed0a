"""What the model wrote, as parts of the report: the same sentences over time, and the best and worst."""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from html import escape
from pathlib import Path
from typing import Any

from seq2see.runs.report_page import bilingual, cell, head, table

SENTENCES = 4
"""Sentences whose development is shown."""
STAGES = 6
"""Evaluations shown of each, the first and the last among them."""
PREDICTIONS = 5
"""Predictions shown at each end of the table."""

DARKEST = 8.0
"""The loss, in nats, from which on a token is as dark as can be: it had one chance in 3,000."""

PIECES = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|\s+|.", re.DOTALL)
"""What is compared: Chinese by the character, other words whole."""


def samples(folder: Path) -> str:
    """A few validation sentences, and what the model made of them at some of the evaluations."""
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
    rows = list({row[0]: row for row in rows}.values())  # a sentence that stands there twice is shown once
    # Many short answers are perfect; a long one tells more.
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
    """A row for each label, the commonest first, and the figures of all."""
    names = ("precision", "recall", "f1")
    heads = [
        head(bilingual("label")),
        head(bilingual("cases"), "number"),
        *(head(f"{bilingual(name)} %", "number") for name in names),
    ]
    common = sorted(part["classes"].items(), key=lambda item: -item[1]["support"])
    rows = [
        [cell(escape(label)), cell(f"{each['support']:,}", "number")]
        + [cell(f"{100 * each[name]:.1f}", "number") for name in names]
        for label, each in common
    ]
    figures = bilingual("classes_note", right=f"{part['accuracy']:.1f}", f1=f"{part['macro_f1']:.1f}", split=split)
    return f"<p>{figures}</p>{table([heads, *rows])}"


def mistakes(path: Path) -> str:
    """The wrong answers that the model was surest of."""
    wrong = [row for row in read_table(path, 4) if row[1] != row[2] and _is_number(row[3])]
    if not wrong:
        return ""
    heads = [head(bilingual(name)) for name in ("source", "label", "answered")] + [
        head(bilingual("probability"), "number")
    ]
    surest = sorted(wrong, key=lambda row: -float(row[3]))[: 2 * PREDICTIONS]
    rows = [[*(cell(escape(text)) for text in row[:3]), cell(escape(row[3]), "number")] for row in surest]
    return f'<p class="note">{bilingual("mistakes_note")}</p>{table([heads, *rows])}'


def token_loss_section(path: Path, note: str) -> str:
    """Texts whose every token is colored by how much it surprised the model; `note` tells how it was asked."""
    if not path.exists():
        return ""
    found = json.loads(path.read_text(encoding="utf-8"))
    shown = [f'<p class="strip">{"".join(map(_token, each["tokens"], each["losses"]))}</p>' for each in found]
    return f'<p class="note">{bilingual(note)}</p>{"".join(shown)}'


def _token(piece: str, loss: float) -> str:
    shade = f"background:rgba(213,94,0,{min(loss / DARKEST, 1):.2f})"
    return f'<span style="{shade}" title="{loss:.2f}">{escape(piece)}</span>'


def read_table(path: Path, columns: int) -> list[list[str]]:
    """The rows of a TSV file below its head; rows with more or fewer cells are passed over."""
    if not path.exists():
        return []
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:]]
    return [row for row in rows if len(row) == columns]


def marked(output: str, reference: str) -> str:
    """An output as HTML, with what the reference does not say marked.

    >>> marked("two red pens", "two blue pens")
    'two <mark>red</mark> pens'
    """
    if not output.strip():
        return f"<mark>{bilingual('nothing')}</mark>"
    parts = [(escape(text), new) for text, new in diff_parts(output, reference)]
    return "".join(f"<mark>{text}</mark>" if new else text for text, new in parts)


def diff_parts(output: str, reference: str) -> list[tuple[str, bool]]:
    """An output in parts, each with whether the reference does not say it.

    >>> diff_parts("two red pens", "two blue pens")
    [('two ', False), ('red', True), (' pens', False)]
    """
    pieces, truth = PIECES.findall(output), PIECES.findall(reference)
    changes = SequenceMatcher(None, truth, pieces, autojunk=False).get_opcodes()
    return [("".join(pieces[start:end]), kind != "equal") for kind, _, _, start, end in changes if start < end]


def _progress(source: str, stages: dict[int, dict[str, list[str]]]) -> str:
    rows = [[head(bilingual("step"), "number narrow"), head(bilingual("output"))]]
    for step, table_rows in stages.items():
        if source in table_rows:
            _, reference, output = table_rows[source]
            sign = ' <span class="right">✓</span>' if output == reference else ""
            rows.append([cell(f"{step:,}", "number"), cell(marked(output, reference) + sign)])
    rows.append([head(bilingual("reference"), "number"), cell(escape(reference))])
    return f"<h3>{escape(source)}</h3>{table(rows)}"


def _prediction(row: list[str]) -> list[str]:
    source, reference, output, chrf, score = row
    texts = (escape(source), escape(reference), marked(output, reference))
    return [
        *(cell(text, "text") for text in texts),
        *(cell(escape(figure), "number") for figure in (chrf, score)),
    ]


def _step(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _evenly_spaced(files: list[Path], count: int) -> list[Path]:
    """Some of the files, evenly over all of them, the first and the last included."""
    if len(files) <= count:
        return files
    return [files[round(place * (len(files) - 1) / (count - 1))] for place in range(count)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
