"""Measured results in the form of Markdown: tables and other blocks from `benchmarks/results/*.json`.

A page marks a block with two comments, and `generate.py` writes the text between them:

    <!-- table: decode_cpu -->          a results file that is one table
    <!-- table: multi30k/ladder -->     one of several tables in a file
    <!-- measured: multi30k -->         with which command, on which machine
    <!-- examples: multi30k -->         sentences that changed from one rung to the next
    <!-- signatures: multi30k -->       how its scores were computed
    <!-- image: multi30k/lengths -->    a plot of a table, drawn by `seq2see.inspection`
    <!-- results: pocket -->            the table of the pocket recipes
    <!-- difference: encoder-to-gpt --> the difference of two parts of the source (`differences.py`)
    <!-- lab: verdicts -->             the verdicts on the claims of the course notes (`experiments.py`)

each ended by `<!-- end of table -->`, `<!-- end of measured -->` and so on. A table has `rows` (dictionaries) and
`columns` (key, title, digits after the point, whether a sign is shown); without columns, every key with plain values
is a column. A cell that is a list has one value for each seed, and is shown as mean ± standard deviation.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from differences import difference_block
from experiments import BLOCKS_OF_CLAIMS
from languages import Translate

ROOT = Path(__file__).parents[1]
IMAGES = {
    "multi30k/lengths": "docs/images/multi30k-length.png",
    "transformer2/mixtures": "docs/images/transformer2-mixtures.png",
}
"""The image file of each table that is plotted."""
MARKER = re.compile(
    r"(<!-- (table|measured|examples|signatures|image|results|difference|lab): ([\w/-]+) -->\n).*?(<!-- end of \2 -->)",
    re.DOTALL,
)
Tree = dict[str, Any]


def escape_cell(text: str) -> str:
    """Text in which `|` and `<` are escaped, so that it stays inside a table cell."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def fill_markers(text: str, translate: Translate) -> str:
    """A page in which the text between each pair of comments is replaced."""
    return MARKER.sub(lambda match: f"{match[1]}\n{BLOCKS[match[2]](translate, match[3])}\n\n{match[4]}", text)


def results_of(name: str) -> Tree | None:
    """A results file, or one table of it as `file/table`; None without measurements."""
    file, _, part = name.partition("/")
    path = ROOT / "benchmarks" / "results" / f"{file}.json"
    if not path.exists():
        return None
    results = json.loads(path.read_text(encoding="utf-8"))
    if not part:
        return results
    table = results.get("tables", {}).get(part)
    return table if table and table["rows"] else None


# --- tables ---


def table_block(translate: Translate, name: str) -> str:
    """A table; a results file with a single table also shows command and machine."""
    results = results_of(name)
    if results is None:
        return translate("Not measured yet.")
    lines = table(translate, results["rows"], results.get("columns"))
    return "\n".join(lines if "/" in name else [*lines, "", measured_with(translate, results)])


def table(translate: Translate, rows: Sequence[Tree], columns: Sequence[Tree] | None = None) -> list[str]:
    """The lines of a Markdown table; a column without any value is left out."""
    plain = dict.fromkeys(key for row in rows for key, value in row.items() if not isinstance(value, list))
    all_columns = columns or [{"key": key} for key in plain]  # lists would be raw measurements
    visible = [each for each in all_columns if any(_is_displayable(row.get(each["key"])) for row in rows)]
    alignments = ["---:" if _is_number(rows, each["key"]) else "---" for each in visible]
    titles = [escape_cell(translate(each.get("title") or each["key"].replace("_", " "))) for each in visible]
    lines = [f"| {' | '.join(titles)} |", f"|{'|'.join(alignments)}|"]
    cells = ([_cell(translate, row.get(each["key"]), each) for each in visible] for row in rows)
    return lines + [f"| {' | '.join(row)} |" for row in cells]


def _is_displayable(value: Any) -> bool:
    """Whether a cell can show this value; a list must have numbers, one for each seed."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, int | float) for each in value)
    return value is not None and value != "" and not isinstance(value, dict)


def _is_number(rows: Sequence[Tree], key: str) -> bool:
    return not any(isinstance(row.get(key), str) for row in rows)


def _cell(translate: Translate, value: Any, column: Tree) -> str:
    if not _is_displayable(value):
        return "–"
    if isinstance(value, str):
        return escape_cell(translate(value))
    if isinstance(value, bool):
        return translate("yes" if value else "no")
    if not isinstance(value, list):
        return _number(value, column.get("digits"), column.get("sign", False))
    mean = _number(statistics.fmean(value), column.get("digits"), column.get("sign", False))
    deviation = f" ± {_number(statistics.stdev(value), column.get('digits'), False)}" if len(set(value)) > 1 else ""
    return mean + deviation


def _number(value: float, digits: int | None, sign: bool) -> str:
    """A number with `digits` digits after the point; by default, a fraction has three significant digits."""
    if digits is None:
        is_integer = isinstance(value, int) or value == 0 or not math.isfinite(value)
        digits = 0 if is_integer else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:{'+' if sign else ''},.{digits}f}"


def measured_with(translate: Translate, results: Tree) -> str:
    """The command and the machine, in one sentence."""
    return translate("measured with").format(
        command=results["command"], machine=machine(translate, results["environment"])
    )


def measured_block(translate: Translate, name: str) -> str:
    """The command and the machine of a results file."""
    results = results_of(name)
    return translate("Not measured yet.") if results is None else measured_with(translate, results)


def machine(translate: Translate, environment: Tree) -> str:
    """The versions, the hardware and the note of a measurement."""
    items = [f"{key} {value}" for key, value in environment.items() if key not in ("note", "platform")]
    return translate(", ").join([*items, *([translate(environment["note"])] if "note" in environment else [])])


def pocket_table(translate: Translate, prefix: str = "") -> str:
    """The results of the pocket recipes whose names begin with `prefix`."""
    results = results_of("pocket")
    if results is None:
        return translate("Not measured yet.")
    keys = ("recipe", "weights", "steps", "seconds", "BLEU", "exact", "pairs", "roles", "length", "alignment error")
    digits = dict.fromkeys(keys, 1) | {"weights": 0, "steps": 0, "seconds": 0, "alignment error": 3}
    rows = [_pocket_row(row) for row in results["rows"] if row["recipe"].startswith(prefix)]
    lines = table(translate, rows, [{"key": key, "digits": digits[key]} for key in keys])
    return "\n".join([*lines, "", translate("results: note"), measured_with(translate, results)])


def _pocket_row(row: Tree) -> Tree:
    splits = row["splits"]
    exact = {name: splits.get(name, {}).get("exact_match") for name in ("pairs", "roles", "length")}
    scores = {"BLEU": splits["test"].get("bleu"), "exact": splits["test"].get("exact_match"), **exact}
    run = {key: row[key] for key in ("recipe", "weights", "steps", "seconds")}
    return {**run, **scores, "alignment error": row.get("alignment_error")}


# --- sentences, signatures, images ---


def examples_block(translate: Translate, name: str) -> str:
    """Sentences whose translation changed, each as a small table with the output of every system."""
    results = results_of(name)
    if results is None or not results.get("examples"):
        return translate("Not measured yet.")
    parts = []
    for each in results["examples"]:
        rows = {translate("source"): each["source"], translate("reference"): each["reference"], **each["outputs"]}
        lines = [f"| | {escape_cell(each['change'])} |", "|---|---|"]
        parts.append("\n".join(lines + [f"| {title} | {escape_cell(text)} |" for title, text in rows.items()]))
    return "\n\n".join(parts)


def signatures_block(translate: Translate, name: str) -> str:
    """The sacreBLEU signature of each score."""
    results = results_of(name)
    if results is None or not results.get("signatures"):
        return translate("Not measured yet.")
    return "\n".join(f"- {key}: `{signature}`" for key, signature in sorted(results["signatures"].items()))


def image_block(translate: Translate, name: str) -> str:
    """A link to the image of a table."""
    if results_of(name) is None:
        return translate("Not measured yet.")
    return f"![{translate(name)}]({IMAGES[name].removeprefix('docs/')})"


def stale_images() -> list[Path]:
    """Images that are missing, or were drawn from other results than the stored ones."""
    stale = []
    for name, file in IMAGES.items():
        table, path = results_of(name), ROOT / file
        if table is not None and (not path.exists() or _stored_fingerprint(path) != fingerprint(table)):
            stale.append(path)
    return stale


def draw_images(paths: Sequence[Path]) -> None:
    """Draw these images again. The bytes depend on fonts and versions, so an image stores a fingerprint of its data."""
    from seq2see.inspection.plotting import draw_lengths, draw_mixtures

    draw = {"multi30k/lengths": draw_lengths, "transformer2/mixtures": draw_mixtures}
    for name, file in IMAGES.items():
        table = results_of(name)
        if ROOT / file in paths and table is not None:
            draw[name](table["rows"], ROOT / file, fingerprint(table))


def fingerprint(table: Tree) -> str:
    """The SHA-256 of a table's rows."""
    return hashlib.sha256(json.dumps(table["rows"], sort_keys=True).encode()).hexdigest()


def lab_block(translate: Translate, name: str) -> str:
    """A block on the claims of the course notes."""
    results = ROOT / "benchmarks" / "results" / "labs"
    return BLOCKS_OF_CLAIMS[name](translate, results) if results.is_dir() else translate("Not measured yet.")


def _stored_fingerprint(path: Path) -> str | None:
    from PIL import Image

    with Image.open(path) as image:
        return image.info.get("Description")


BLOCKS: dict[str, Callable[[Translate, str], str]] = {
    "table": table_block,
    "measured": measured_block,
    "examples": examples_block,
    "signatures": signatures_block,
    "image": image_block,
    "results": pocket_table,
    "difference": difference_block,
    "lab": lab_block,
}
