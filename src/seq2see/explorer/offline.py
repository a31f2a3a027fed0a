"""Bundling the page's JavaScript modules into one script, for saved pages without a server.

A browser does not load modules over `file://`, so the bundle wraps them: each module becomes a function that is called
once and returns its exports, in an order in which each module follows those that it imports. The bundler supports two
forms of JavaScript's syntax: imports of names in braces, and `export` before a definition. Other forms are errors.

Saved pages: scripts, style and responses in one HTML file, which needs no server and also works in a notebook.

The requests of the page are run in advance, and their responses are stored in the file. The file loads nothing else:
its content security policy allows only its one script and its one style, by their hashes.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Mapping
from html import escape
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.explorer.describe import list_runs
from seq2see.explorer.inputs import first_example
from seq2see.explorer.saved_views import MAX_PAGE_BYTES, VIEW_RECORDERS, ResponseRecorder, record_views
from seq2see.explorer.schemas import MAX_CHARACTERS
from seq2see.explorer.workspace import Workspace
from seq2see.runs.report_page import csp_hash

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


def write_page(workspace: Workspace, path: Path, text: str) -> None:
    """Write a page about the opened runs and one text, and print its path."""
    if path.is_dir():
        raise UserError("This is a folder.", location=str(path), hint="Give a file name, such as attention.html.")
    page = saved_page(workspace, text or None)
    write_text(path, page)
    print(f"{path} ({len(page.encode()) / 1e6:,.1f} MB) opens in any browser; it needs no server.")


def saved_page(
    workspace: Workspace,
    text: str | None = None,
    target: str | None = None,
    views: Collection[str] = tuple(VIEW_RECORDERS),
    max_bytes: int = MAX_PAGE_BYTES,
) -> str:
    """One page about all opened runs and one text; the default text is the example of the first run that has one."""
    runs = list_runs(workspace)["runs"]
    if text is None:
        examples = (first_example(each) for each in workspace.runs.values())
        text = next((each["text"] for each in examples if each and each["text"]), "")
    _check(text)
    responses: dict[str, dict[str, Any]] = {}
    for run in runs:
        recorder = ResponseRecorder(workspace, run, text, target, max_bytes)
        responses |= record_views(recorder, views)
        max_bytes = recorder.bytes_left
    has_attention = any("attention" in run["capabilities"] for run in runs)
    link = {"view": "attention" if has_attention else "", "text": text, "target": target or ""}
    script = bundle_script(views if set(views) < set(VIEW_RECORDERS) else ())
    return _page(script, {"runs": runs, "views": list(views), "link": link, "responses": responses})


def _check(text: str) -> None:
    """Reject texts that the server would reject."""
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"The text has more than {MAX_CHARACTERS:,} characters.", hint="Save a shorter one.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError("The text is not valid Unicode: it has a lone surrogate.", hint="Save it as UTF-8.") from None


def _page(script: str, content: dict[str, Any]) -> str:
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; img-src data: blob:; style-src {csp_hash(style)}; script-src {csp_hash(script)}"
    # "<" could end the element that contains the JSON, so it is escaped.
    stored = json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>seq2see</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<script type="application/json" id="responses">{stored}</script>
<script>{script}</script>
</body>
</html>
"""


def to_iframe(page: str, height: int = 700) -> str:
    """An iframe with the page, for notebooks: a sandbox that runs the page's own script only."""
    style = f"width:100%;height:{height}px;border:1px solid #8888;border-radius:6px"
    return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{escape(page)}"></iframe>'
