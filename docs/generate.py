"""Generate the pages on recipes and settings, and the blocks of measured results on the other pages.

`python docs/generate.py` writes them; with `--check` it only lists the pages that are out of date. The output does not
depend on the time or the machine, so a second run writes the same bytes. The Chinese translations of docstrings are in
`chinese.toml`; a sentence without a translation stays English.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from languages import Translate, chinese, english
from measured import MARKER, draw_images, escape_cell, fill_markers, pocket_table, stale_images
from pydantic_core import PydanticUndefined

from seq2see.core.settings import Settings, choices, descriptions, walk
from seq2see.recipes.registry import RECIPES
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.task import task_named

DOCS = Path(__file__).parent
ROOT = DOCS.parent
BASE = "pocket-transformer"
LIMITS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def first_sentence(thing: Any) -> str:
    """The first line of a docstring."""
    return (thing.__doc__ or "").strip().split("\n")[0]


# --- recipes ---


def recipes_page(translate: Translate) -> str:
    """All recipes, and the settings in which each differs from the base recipe."""
    lines = [
        *_page_header(translate, "recipes"),
        f"# {translate('Recipes')}",
        "",
        translate("recipes: introduction"),
        "",
    ]
    lines += [f"| {translate('recipe')} | {translate('what it is')} |", "|---|---|"]
    lines += [
        f"| [{name}](#{name}) | {escape_cell(translate(first_sentence(make)))} |" for name, make in RECIPES.items()
    ]
    lines += ["", pocket_table(translate)]
    base = _values(RECIPES[BASE]())
    for name, make in RECIPES.items():
        lines += ["", f"## {name}", "", translate(first_sentence(make))]
        if name == BASE:
            lines += ["", translate("recipes: the base")]
            continue
        lines += ["", f"| {translate('setting')} | {BASE} | {name} |", "|---|---|---|"]
        lines += [f"| `{path}` | {first} | {second} |" for path, first, second in _differences(base, _values(make()))]
    return "\n".join(lines) + "\n"


def _values(recipe: Recipe) -> dict[str, str]:
    return {
        path: format_value(value) for path, value, _ in walk(recipe) if not isinstance(value, type) and path != "name"
    }


def _differences(base: dict[str, str], other: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Settings that differ, in the order of the recipe; a dash marks a setting that one of the two does not have."""
    for path in dict.fromkeys([*other, *base]):
        if base.get(path) != other.get(path):
            yield path, base.get(path, "–"), other.get(path, "–")


def format_value(value: Any) -> str:
    """A value in the format of the pages."""
    if isinstance(value, tuple):
        return ", ".join(format_value(each) for each in value) or "–"
    if isinstance(value, float) and value != int(value):
        return f"`{value:.4g}`"
    return "–" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


# --- settings ---


def settings_page(translate: Translate) -> str:
    """All settings, each with its default and its description."""
    lines = [
        *_page_header(translate, "settings"),
        f"# {translate('Settings')}",
        "",
        translate("settings: introduction"),
        "",
    ]
    for cls, paths in _setting_paths().items():
        kind = cls.model_fields.get("kind") or cls.model_fields.get("task")
        title = ", ".join(f"`{path}`" for path in paths) or translate("The recipe itself")
        lines += [f"## {title}{f': {kind.default}' if kind else ''}", "", translate(first_sentence(cls)), ""]
        rows = list(_rows(cls, translate))
        if rows:
            lines += [
                f"| {translate('setting')} | {translate('values')} | "
                f"{translate('default')} | {translate('what it does')} |"
            ]
            lines += ["|---|---|---|---|", *rows, ""]
    return "\n".join(lines[:-1]) + "\n"


def _setting_paths() -> dict[type[Settings], list[str]]:
    """Every settings class with the paths at which it can occur: the recipe of each task, then what is inside."""
    paths_of: dict[type[Settings], list[str]] = {}

    def visit(current: type[Settings], path: str) -> None:
        paths = paths_of.setdefault(current, [])
        if path and path not in paths:
            paths.append(path)
        for name, field in current.model_fields.items():
            for option in choices(field):
                visit(option, f"{path}.{name}" if path else name)

    recipes = [task_named(name).recipe for name in dict.fromkeys(make().task for make in RECIPES.values())]
    for cls in recipes:
        paths_of[cls] = []
    for cls in recipes:
        visit(cls, "")
    return paths_of


def _rows(cls: type[Settings], translate: Translate) -> Iterator[str]:
    for name, field in cls.model_fields.items():
        if name in ("kind", "task"):
            continue
        options = choices(field)
        values = [f"`{option.model_fields['kind'].default}`" for option in options if "kind" in option.model_fields]
        allowed = ", ".join(values) if options else _allowed(field, translate)
        fallback = first_sentence(options[0]) if len(options) == 1 else "One of the kinds below."
        description = descriptions(cls).get(name) or fallback
        yield f"| `{name}` | {allowed} | {_default(field, translate)} | {escape_cell(translate(description))} |"


def _allowed(field: Any, translate: Translate) -> str:
    """The allowed values of a setting, in a few words."""
    kinds, limits = [], []
    for part in _parts(field.annotation):
        if typing.get_origin(part) is typing.Literal:
            kinds += [f"`{word}`" for word in typing.get_args(part)]
        elif part is not type(None):
            kinds.append(translate(TYPES.get(part, "text")))
    for note in field.metadata:
        limits += [f"{sign} {getattr(note, key):,}" for key, sign in LIMITS.items() if hasattr(note, key)]
    return " ".join([", ".join(dict.fromkeys(kinds)), *limits])


TYPES = {int: "whole number", float: "number", bool: "true or false", str: "text"}


def _parts(annotation: Any) -> list[Any]:
    """The types inside an annotation with Annotated, |, or tuple."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _parts(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType, tuple):
        return [inner for part in typing.get_args(annotation) if part is not ... for inner in _parts(part)]
    return [annotation]


def _default(field: Any, translate: Translate) -> str:
    if field.default is PydanticUndefined:
        return translate("must be given")
    if isinstance(field.default, Settings):
        return f"`{field.default.kind}`" if "kind" in type(field.default).model_fields else ""
    return format_value(field.default)


def _page_header(translate: Translate, page: str) -> list[str]:
    """The link to the page in the other language, and a comment that the page is generated."""
    other = f"[中文]({page}.zh.md)" if translate is english else f"[English]({page}.md)"
    return [other, "", "<!-- Written by docs/generate.py. -->", ""]


# --- all of it ---


def pages() -> dict[Path, str]:
    """The content of every page that is generated in whole or in part."""
    content = {}
    for translate, suffix in ((english, ".md"), (chinese, ".zh.md")):
        content[DOCS / f"recipes{suffix}"] = recipes_page(translate)
        content[DOCS / f"settings{suffix}"] = settings_page(translate)
    for path in sorted([*DOCS.glob("*.md"), *ROOT.glob("README*.md")]):
        text = content.get(path) or path.read_text(encoding="utf-8")
        if MARKER.search(text):
            content[path] = fill_markers(text, chinese if path.name.endswith(".zh.md") else english)
    return content


def sentences() -> list[str]:
    """All sentences of the source that occur on the pages."""
    shown = [first_sentence(make) for make in RECIPES.values()]
    for cls in _setting_paths():
        shown.append(first_sentence(cls))
        shown += [text for name in cls.model_fields if (text := descriptions(cls).get(name))]
    return list(dict.fromkeys(shown))


def main(check: bool) -> int:
    """Write the pages that are out of date, or only list them."""
    expected = pages()
    stale = [path for path, text in expected.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    images = stale_images()
    for path in [*stale, *images]:
        message = f"{path.relative_to(ROOT)} is out of date; run `make docs`"
        print(message if check else f"writing {path.name}")
    if not check:
        draw_images(images)
        for path in stale:
            path.write_text(expected[path], encoding="utf-8")
    return 1 if check and [*stale, *images] else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
