"""Draws the content of a report as HTML: the parts of its sections, which are plain data, and the samples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from html import escape
from pathlib import Path

from seq2see.runs.report_page import bilingual, cell, head, image, table
from seq2see.runs.run_folder import read_table
from seq2see.tasks.report_parts import (
    ColoredTokens,
    CopiedLines,
    Difference,
    NamedValues,
    ReportFigure,
    ReportHeading,
    ReportPart,
    ReportTable,
    ReportText,
    Words,
    words,
)

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
