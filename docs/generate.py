"""Write the pages that follow from the source: recipes, settings, and the measured figures in the READMEs.

`python docs/generate.py` writes them; with `--check` it only says which are out of date. Nothing here
depends on the time or the machine, so writing twice gives the same bytes. Chinese sentences for the
docstrings of the source stand in `chinese.toml`; a sentence without one stays English.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from seq2see.core.settings import Settings, choices, walk
from seq2see.recipes.table import RECIPES
from seq2see.workbench.recipe import Recipe

DOCS = Path(__file__).parent
ROOT = DOCS.parent
BASE = "pocket-transformer"
CHINESE: dict[str, str] = tomllib.loads((DOCS / "chinese.toml").read_text(encoding="utf-8"))
LIMITS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}

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
        "`roles` and `length`; alignment error rate of attention (0 is perfect). Measured with",
        "表中为 `test` 上的 BLEU 和整句完全正确的比例（%），`pairs`、`roles`、`length` 上整句完全正确的比例，"
        "以及注意力的对齐错误率（0 为最好）。测量命令：",
    ),
}
"""What the pages say by themselves: English, Chinese."""

WORDS = {
    "eight to ten runs side by side on one GPU: the seconds are an upper bound":
        "一块 GPU 上同时跑八到十个训练，所以秒数只是上限",
    "Not measured yet.": "尚未测量。", "One of the kinds below.": "下列几种之一。", "The recipe itself": "配方本身",
    "Recipes": "配方", "Settings": "设置", "recipe": "配方", "setting": "设置", "what it is": "说明",
    "what it does": "作用", "values": "取值", "default": "默认值", "must be given": "必须给出", "whole number": "整数",
    "number": "数", "true or false": "true 或 false", "text": "文本", "weights": "参数量", "steps": "步数",
    "seconds": "秒", "exact": "完全正确", "alignment error": "对齐错误率",
}  # fmt: skip
"""Titles and short words: English, Chinese."""

Say = Callable[[str], str]
"""A sentence in the language of the page."""


def english(sentence: str) -> str:
    """As it stands in the source."""
    return PHRASES.get(sentence, (sentence, ""))[0]


def chinese(sentence: str) -> str:
    """Its Chinese counterpart, if there is one yet."""
    return PHRASES[sentence][1] if sentence in PHRASES else (WORDS | CHINESE).get(sentence, sentence)


def first_sentence(thing: Any) -> str:
    """The first line of a docstring."""
    return (thing.__doc__ or "").strip().split("\n")[0]


def cell(text: str) -> str:
    """Text that neither ends a table's cell nor is taken for a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;")


# --- recipes ---


def recipes_page(say: Say) -> str:
    """What recipes there are, and in which settings each differs from the one to start with."""
    lines = [*_opening(say, "recipes"), f"# {say('Recipes')}", "", say("recipes: introduction"), ""]
    lines += [f"| {say('recipe')} | {say('what it is')} |", "|---|---|"]
    lines += [f"| [{name}](#{name}) | {cell(say(first_sentence(make)))} |" for name, make in RECIPES.items()]
    lines += ["", figures(say, "pocket")]
    base = _values(RECIPES[BASE]())
    for name, make in RECIPES.items():
        lines += ["", f"## {name}", "", say(first_sentence(make))]
        if name == BASE:
            lines += ["", say("recipes: the base")]
            continue
        lines += ["", f"| {say('setting')} | {BASE} | {name} |", "|---|---|---|"]
        lines += [f"| `{path}` | {one} | {other} |" for path, one, other in _differences(base, _values(make()))]
    return "\n".join(lines) + "\n"


def _values(recipe: Recipe) -> dict[str, str]:
    return {path: shown(value) for path, value, _ in walk(recipe) if not isinstance(value, type) and path != "name"}


def _differences(base: dict[str, str], other: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Settings that differ, in the order of the recipe; a setting that only one of the two has stands with a dash."""
    for path in dict.fromkeys([*other, *base]):
        if base.get(path) != other.get(path):
            yield path, base.get(path, "–"), other.get(path, "–")


def shown(value: Any) -> str:
    """A value as a page shows it."""
    if isinstance(value, tuple):
        return ", ".join(shown(each) for each in value) or "–"
    if isinstance(value, float) and value != int(value):
        return f"`{value:.4g}`"
    return "–" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


# --- settings ---


def settings_page(say: Say) -> str:
    """Every setting there is, with its default and what it does."""
    lines = [*_opening(say, "settings"), f"# {say('Settings')}", "", say("settings: introduction"), ""]
    for cls, paths in _places(Recipe).items():
        kind = cls.model_fields.get("kind")
        title = ", ".join(f"`{path}`" for path in paths) or say("The recipe itself")
        lines += [f"## {title}{f': {kind.default}' if kind else ''}", "", say(first_sentence(cls)), ""]
        rows = list(_rows(cls, say))
        if rows:
            lines += [f"| {say('setting')} | {say('values')} | {say('default')} | {say('what it does')} |"]
            lines += ["|---|---|---|---|", *rows, ""]
    return "\n".join(lines[:-1]) + "\n"


def _places(cls: type[Settings]) -> dict[type[Settings], list[str]]:
    """Every settings class with the paths where it can stand, in reading order."""
    found: dict[type[Settings], list[str]] = {}

    def visit(current: type[Settings], path: str) -> None:
        paths = found.setdefault(current, [])
        if path and path not in paths:
            paths.append(path)
        for name, field in current.model_fields.items():
            for option in choices(field.annotation):
                visit(option, f"{path}.{name}" if path else name)

    visit(cls, "")
    return found


def _rows(cls: type[Settings], say: Say) -> Iterator[str]:
    for name, field in cls.model_fields.items():
        if name == "kind":
            continue
        options = choices(field.annotation)
        values = [f"`{option.model_fields['kind'].default}`" for option in options if "kind" in option.model_fields]
        allowed = ", ".join(values) if options else _allowed(field, say)
        inside = first_sentence(options[0]) if len(options) == 1 else "One of the kinds below."
        meaning = field.description or inside
        yield f"| `{name}` | {allowed} | {_default(field, say)} | {cell(say(meaning))} |"


def _allowed(field: Any, say: Say) -> str:
    """The values a setting takes, in a few words."""
    kinds, limits = [], []
    for part in _parts(field.annotation):
        if typing.get_origin(part) is typing.Literal:
            kinds += [f"`{word}`" for word in typing.get_args(part)]
        elif part is not type(None):
            kinds.append(say(TYPES.get(part, "text")))
    for note in field.metadata:
        limits += [f"{sign} {getattr(note, key):,}" for key, sign in LIMITS.items() if hasattr(note, key)]
    return " ".join([", ".join(dict.fromkeys(kinds)), *limits])


TYPES = {int: "whole number", float: "number", bool: "true or false", str: "text"}


def _parts(annotation: Any) -> list[Any]:
    """An annotation taken apart: what stands in it under Annotated, |, and tuple."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _parts(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType, tuple):
        return [piece for part in typing.get_args(annotation) if part is not ... for piece in _parts(part)]
    return [annotation]


def _default(field: Any, say: Say) -> str:
    if field.default is PydanticUndefined:
        return say("must be given")
    if isinstance(field.default, Settings):
        return f"`{field.default.kind}`" if "kind" in type(field.default).model_fields else ""
    return shown(field.default)


def _opening(say: Say, page: str) -> list[str]:
    """The switch between the languages, and a warning to those who would edit the page."""
    other = f"[中文]({page}.zh.md)" if say is english else f"[English]({page}.md)"
    return [other, "", "<!-- Written by docs/generate.py. -->", ""]


# --- figures ---


def figures(say: Say, name: str, only: str = "") -> str:
    """A table of what was measured, from `benchmarks/results/<name>.json`; `only` is how the recipes' names begin."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    if not path.exists():
        return say("Not measured yet.")
    results = json.loads(path.read_text(encoding="utf-8"))
    titles = ("recipe", "weights", "steps", "seconds", "BLEU", "exact", "pairs", "roles", "length", "alignment error")
    lines = [f"| {' | '.join(map(say, titles))} |", f"|---|{'---:|' * (len(titles) - 1)}"]
    lines += [f"| {' | '.join(_figure_cells(row))} |" for row in results["rows"] if row["recipe"].startswith(only)]
    machine = [f"{key} {value}" for key, value in results["environment"].items() if key != "note"]
    machine += [say(results["environment"]["note"])] if "note" in results["environment"] else []
    return "\n".join([*lines, "", say("figures: note"), f"`{results['command']}` ({', '.join(machine)})."])


def _figure_cells(row: dict[str, Any]) -> list[str]:
    splits = row["splits"]
    exact = [splits.get(name, {}).get("exact") for name in ("test", "pairs", "roles", "length")]
    scores = [splits["test"].get("bleu"), *exact]
    return [
        row["recipe"],
        f"{row['weights']:,}",
        f"{row['steps']:,}",
        f"{row['seconds']:.0f}",
        *("–" if score is None else f"{score:.1f}" for score in scores),
        "–" if row.get("alignment_error") is None else f"{row['alignment_error']:.3f}",
    ]


def with_figures(text: str, say: Say) -> str:
    """A page with its figure blocks filled: from `<!-- figures: name -->` to `<!-- end of figures -->`."""
    block = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
    return block.sub(lambda found: f"{found[1]}\n{figures(say, found[2], only=found[2])}\n\n{found[3]}", text)


# --- all of it ---


def pages() -> dict[Path, str]:
    """Every page that is generated in whole or in part, with the content it should have."""
    found = {}
    for say, ending in ((english, ".md"), (chinese, ".zh.md")):
        found[DOCS / f"recipes{ending}"] = recipes_page(say)
        found[DOCS / f"settings{ending}"] = settings_page(say)
        readme = ROOT / f"README{ending}"
        found[readme] = with_figures(readme.read_text(encoding="utf-8"), say)
    return found


def sentences() -> list[str]:
    """Every sentence of the source that the pages show."""
    found = [first_sentence(make) for make in RECIPES.values()]
    for cls in _places(Recipe):
        found.append(first_sentence(cls))
        found += [field.description for field in cls.model_fields.values() if field.description]
    return list(dict.fromkeys(found))


def main(check: bool) -> int:
    """Write what is out of date, or only name it."""
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(
            f"{path.relative_to(ROOT)} is out of date; `make docs` writes it anew" if check else f"writing {path.name}"
        )
        if not check:
            path.write_text(pages()[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
