"""The page's modules as one script, for pages that have no server to load them from.

A browser does not load modules from a file beside a page (`file://`), so they are wrapped: each becomes a function
that is run once and gives what it exports, in an order in which everything is there before it is needed. Of
JavaScript's ways to import and export we use two: names in braces, and `export` before a definition. Anything else is
refused.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from pathlib import Path

PAGE = Path(__file__).parent / "page"
VIEWS_MODULE = "views.js"
"""The module that names all views."""

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|function|class) (\w+))", re.MULTILINE)
OTHER_MODULE_SYNTAX = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundle_script(views: Collection[str] = ()) -> str:
    """One script that does what loading the page's first module does; with some views only, if any are named."""
    wrapped: dict[str, str] = {}
    overrides = {VIEWS_MODULE: views_module(views)} if views else {}
    _add_module("main.js", wrapped, overrides, ())
    modules = "".join(f"modules[{name!r}] = (() => {{\n{text}}})();\n" for name, text in wrapped.items())
    script = f'"use strict";\n(() => {{\nconst modules = {{}};\n{modules}}})();\n'
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("a script inside a page cannot hold the end of a script")
    return script


def views_module(views: Collection[str]) -> str:
    """The module that lists all views, if there were only these."""
    names = {view: view.replace("-", "_") for view in views}
    imports = "".join(f'import {{ view as {name} }} from "./views/{name}.js";\n' for name in names.values())
    return f"{imports}export const VIEWS = [{', '.join(names.values())}];\n"


def _add_module(
    name: str, wrapped: dict[str, str], overrides: Mapping[str, str], import_stack: tuple[str, ...]
) -> None:
    """Wrap a module, behind all that it imports."""
    if name in import_stack:
        raise ValueError(f"modules import each other in a circle: {' → '.join((*import_stack, name))}")
    if name in wrapped:
        return
    text = overrides.get(name) or (PAGE / name).read_text(encoding="utf-8")
    for _, other in IMPORT.findall(text):
        _add_module(_resolve(name, other), wrapped, overrides, (*import_stack, name))
    wrapped[name] = _wrap(name, text)


def _wrap(name: str, text: str) -> str:
    """The text of a module as the body of a function that gives its exports."""
    exported = EXPORT.findall(text)
    text = EXPORT.sub("", text)
    text = IMPORT.sub(
        lambda found: f"const {{{_to_destructuring(found[1])}}} = modules[{_resolve(name, found[2])!r}];\n", text
    )
    left = OTHER_MODULE_SYNTAX.search(text)
    if left:
        raise ValueError(f"{name}: this way to import or export is not known: {left[0]}")
    return f"{text}return {{ {', '.join(exported)} }};\n"


def _to_destructuring(names: str) -> str:
    """`view as runs` is written `view: runs` where an object is taken apart."""
    return re.sub(r"(\w+) as (\w+)", r"\1: \2", names)


def _resolve(name: str, other: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), other))
