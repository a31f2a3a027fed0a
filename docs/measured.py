"""What was measured, as the pages show it: everything here comes from `benchmarks/results/*.json`.

A page asks for a block with two comments, and `generate.py` fills what stands between them:

    <!-- table: decode_cpu -->          a results file that is one table
    <!-- table: multi30k/ladder -->     one of several tables in a file
    <!-- measured: multi30k -->         with which command, on which machine
    <!-- examples: multi30k -->         sentences that changed from one rung to the next
    <!-- signatures: multi30k -->       how its scores were computed
    <!-- image: multi30k/lengths -->  an image of a table, drawn by `seq2see.inspection`
    <!-- figures: pocket -->            the table of the pocket recipes
    <!-- difference: encoder-to-gpt --> where two parts of the source differ (`differences.py`)

each ended by `<!-- end of table -->`, `<!-- end of measured -->` and so on. A table is `rows` (dictionaries) and
`columns` (key, title, digits after the point, whether a sign is shown); without columns every key with plain values
is one. A cell that is a list holds one value for each seed, and is shown as mean ± standard deviation.
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
from languages import Translate

ROOT = Path(__file__).parents[1]
IMAGES = {"multi30k/lengths": "docs/images/multi30k-length.png"}
"""Tables that are drawn, and where."""
MARKER = re.compile(
    r"(<!-- (table|measured|examples|signatures|image|figures|difference): ([\w/-]+) -->\n).*?(<!-- end of \2 -->)",
    re.DOTALL,
)
Tree = dict[str, Any]


def escape_cell(text: str) -> str:
    """Text that neither ends a table's cell nor is taken for a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def fill_markers(text: str, translate: Translate) -> str:
    """A page with what stands between its pairs of comments written anew."""
    return MARKER.sub(lambda found: f"{found[1]}\n{BLOCKS[found[2]](translate, found[3])}\n\n{found[4]}", text)


def results_of(name: str) -> Tree | None:
    """A results file, or one table of it as `file/table`; None if that was not measured yet."""
    file, _, part = name.partition("/")
    path = ROOT / "benchmarks" / "results" / f"{file}.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    if not part:
        return found
    table = found.get("tables", {}).get(part)
    return table if table and table["rows"] else None


# --- tables ---


def table_block(translate: Translate, name: str) -> str:
    """A table; one that is a file of its own also says how it was measured."""
    found = results_of(name)
    if found is None:
        return translate("Not measured yet.")
    lines = table(translate, found["rows"], found.get("columns"))
    return "\n".join(lines if "/" in name else [*lines, "", measured_with(translate, found)])


def table(translate: Translate, rows: Sequence[Tree], columns: Sequence[Tree] | None = None) -> list[str]:
    """The lines of a Markdown table; a column in which no row has anything is left out."""
    plain = dict.fromkeys(key for row in rows for key, value in row.items() if not isinstance(value, list))
    known = columns or [{"key": key} for key in plain]  # lists would be raw measurements
    shown = [each for each in known if any(_has(row.get(each["key"])) for row in rows)]
    right = ["---:" if _is_number(rows, each["key"]) else "---" for each in shown]
    titles = [escape_cell(translate(each.get("title") or each["key"].replace("_", " "))) for each in shown]
    lines = [f"| {' | '.join(titles)} |", f"|{'|'.join(right)}|"]
    return lines + [f"| {' | '.join(_cell(translate, row.get(each['key']), each) for each in shown)} |" for row in rows]


def _has(value: Any) -> bool:
    """Whether a cell can show this; lists are values of several seeds, and never of words."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, int | float) for each in value)
    return value is not None and value != "" and not isinstance(value, dict)


def _is_number(rows: Sequence[Tree], key: str) -> bool:
    return not any(isinstance(row.get(key), str) for row in rows)


def _cell(translate: Translate, value: Any, column: Tree) -> str:
    if not _has(value):
        return "–"
    if isinstance(value, str):
        return escape_cell(translate(value))
    if isinstance(value, bool):
        return translate("yes" if value else "no")
    if not isinstance(value, list):
        return _number(value, column.get("digits"), column.get("sign", False))
    mean = _number(statistics.fmean(value), column.get("digits"), column.get("sign", False))
    spread = f" ± {_number(statistics.stdev(value), column.get('digits'), False)}" if len(set(value)) > 1 else ""
    return mean + spread


def _number(value: float, digits: int | None, sign: bool) -> str:
    """A number with so many digits after the point; left to itself, a fraction with three that matter."""
    if digits is None:
        whole = isinstance(value, int) or value == 0 or not math.isfinite(value)
        digits = 0 if whole else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:{'+' if sign else ''},.{digits}f}"


def measured_with(translate: Translate, results: Tree) -> str:
    """The command and the machine, in one sentence."""
    return translate("measured with").format(
        command=results["command"], machine=machine(translate, results["environment"])
    )


def measured_block(translate: Translate, name: str) -> str:
    """How the tables of a file were measured."""
    found = results_of(name)
    return translate("Not measured yet.") if found is None else measured_with(translate, found)


def machine(translate: Translate, environment: Tree) -> str:
    """What the figures depend on besides the code."""
    known = [f"{key} {value}" for key, value in environment.items() if key not in ("note", "platform")]
    return translate(", ").join([*known, *([translate(environment["note"])] if "note" in environment else [])])


def pocket_table(translate: Translate, only: str = "") -> str:
    """The pocket recipes; `only` is how their names begin."""
    found = results_of("pocket")
    if found is None:
        return translate("Not measured yet.")
    keys = ("recipe", "weights", "steps", "seconds", "BLEU", "exact", "pairs", "roles", "length", "alignment error")
    digits = dict.fromkeys(keys, 1) | {"weights": 0, "steps": 0, "seconds": 0, "alignment error": 3}
    rows = [_pocket_row(row) for row in found["rows"] if row["recipe"].startswith(only)]
    lines = table(translate, rows, [{"key": key, "digits": digits[key]} for key in keys])
    return "\n".join([*lines, "", translate("figures: note"), measured_with(translate, found)])


def _pocket_row(row: Tree) -> Tree:
    splits = row["splits"]
    exact = {name: splits.get(name, {}).get("exact_match") for name in ("pairs", "roles", "length")}
    told = {"BLEU": splits["test"].get("bleu"), "exact": splits["test"].get("exact_match"), **exact}
    figures = {key: row[key] for key in ("recipe", "weights", "steps", "seconds")}
    return {**figures, **told, "alignment error": row.get("alignment_error")}


# --- sentences, signatures, images ---


def examples_block(translate: Translate, name: str) -> str:
    """Sentences that changed, each as a small table of what every rung made of it."""
    found = results_of(name)
    if found is None or not found.get("examples"):
        return translate("Not measured yet.")
    parts = []
    for each in found["examples"]:
        rows = {translate("source"): each["source"], translate("reference"): each["reference"], **each["outputs"]}
        lines = [f"| | {escape_cell(each['change'])} |", "|---|---|"]
        parts.append("\n".join(lines + [f"| {title} | {escape_cell(text)} |" for title, text in rows.items()]))
    return "\n\n".join(parts)


def signatures_block(translate: Translate, name: str) -> str:
    """How each score was computed, in sacreBLEU's own shorthand."""
    found = results_of(name)
    if found is None or not found.get("signatures"):
        return translate("Not measured yet.")
    return "\n".join(f"- {key}: `{signature}`" for key, signature in sorted(found["signatures"].items()))


def image_block(translate: Translate, name: str) -> str:
    """A link to the image of a table."""
    if results_of(name) is None:
        return translate("Not measured yet.")
    return f"![{translate(name)}]({IMAGES[name].removeprefix('docs/')})"


def stale_images() -> list[Path]:
    """Images that are missing, or were drawn from other figures than are stored now."""
    found = []
    for name, place in IMAGES.items():
        table, path = results_of(name), ROOT / place
        if table is not None and (not path.exists() or _drawn_from(path) != fingerprint(table)):
            found.append(path)
    return found


def draw_images(paths: Sequence[Path]) -> None:
    """Draw these anew. The bytes depend on fonts and versions, so each image carries what it was drawn from."""
    from seq2see.inspection.length_plot import draw_lengths

    for name, place in IMAGES.items():
        table = results_of(name)
        if ROOT / place in paths and table is not None:
            draw_lengths(table["rows"], ROOT / place, fingerprint(table))


def fingerprint(table: Tree) -> str:
    """The SHA-256 of a table's figures."""
    return hashlib.sha256(json.dumps(table["rows"], sort_keys=True).encode()).hexdigest()


def _drawn_from(path: Path) -> str | None:
    from PIL import Image

    with Image.open(path) as image:
        return image.info.get("Description")


BLOCKS: dict[str, Callable[[Translate, str], str]] = {
    "table": table_block,
    "measured": measured_block,
    "examples": examples_block,
    "signatures": signatures_block,
    "image": image_block,
    "figures": pocket_table,
    "difference": difference_block,
}
