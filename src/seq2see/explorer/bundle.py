"""Bundling the page's JavaScript modules into one script, for saved pages without a server.

A browser does not load modules over `file://`, so the bundle wraps them: each module becomes a function that is called
once and returns its exports, in an order in which each module follows those that it imports. The bundler supports two
forms of JavaScript's syntax: imports of names in braces, and `export` before a definition. Other forms are errors.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from pathlib import Path

PAGE = Path(__file__).parent / "page"
VIEWS_MODULE = "views.js"
"""The module that lists all views."""

IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|function|class) (\w+))", re.MULTILINE)
OTHER_MODULE_SYNTAX = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundle_script(views: Collection[str] = ()) -> str:
    """One script that is equivalent to the page's main module; with these views only, if any are named."""
    wrapped: dict[str, str] = {}
    overrides = {VIEWS_MODULE: views_module(views)} if views else {}
    _add_module("main.js", wrapped, overrides, ())
    modules = "".join(f"modules[{name!r}] = (() => {{\n{text}}})();\n" for name, text in wrapped.items())
    script = f'"use strict";\n(() => {{\nconst modules = {{}};\n{modules}}})();\n'
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("a script inside a page cannot contain the end tag of a script")
    return script


def views_module(views: Collection[str]) -> str:
    """A module `views.js` that lists only these views."""
    names = {view: view.replace("-", "_") for view in views}
    imports = "".join(f'import {{ view as {name} }} from "./views/{name}.js";\n' for name in names.values())
    return f"{imports}export const VIEWS = [{', '.join(names.values())}];\n"


def _add_module(
    name: str, wrapped: dict[str, str], overrides: Mapping[str, str], import_stack: tuple[str, ...]
) -> None:
    """Wrap a module, after all modules that it imports."""
    if name in import_stack:
        raise ValueError(f"circular import of modules: {' → '.join((*import_stack, name))}")
    if name in wrapped:
        return
    text = overrides.get(name) or (PAGE / name).read_text(encoding="utf-8")
    for _, imported in IMPORT.findall(text):
        _add_module(_resolve(name, imported), wrapped, overrides, (*import_stack, name))
    wrapped[name] = _wrap(name, text)


def _wrap(name: str, text: str) -> str:
    """The text of a module as the body of a function that returns its exports."""
    exported = EXPORT.findall(text)
    text = EXPORT.sub("", text)
    text = IMPORT.sub(
        lambda match: f"const {{{_to_destructuring(match[1])}}} = modules[{_resolve(name, match[2])!r}];\n", text
    )
    unsupported = OTHER_MODULE_SYNTAX.search(text)
    if unsupported:
        raise ValueError(f"{name}: this form of import or export is not supported: {unsupported[0]}")
    return f"{text}return {{ {', '.join(exported)} }};\n"


def _to_destructuring(names: str) -> str:
    """`view as runs` of an import becomes `view: runs` of a destructuring assignment."""
    return re.sub(r"(\w+) as (\w+)", r"\1: \2", names)


def _resolve(name: str, imported: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))
