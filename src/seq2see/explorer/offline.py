"""Saved pages: scripts, style and responses in one HTML file, which needs no server and also works in a notebook.

The requests of the page are run in advance, and their responses are stored in the file. The file loads nothing else:
its content security policy allows only its one script and its one style, by their hashes.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from html import escape
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.explorer.bundle import PAGE, bundle_script
from seq2see.explorer.default_inputs import first_example
from seq2see.explorer.describe import list_runs
from seq2see.explorer.saved_responses import MAX_PAGE_BYTES, VIEW_RECORDERS, ResponseRecorder, record_views
from seq2see.explorer.schemas import MAX_CHARACTERS
from seq2see.explorer.workspace import Workspace
from seq2see.runs.report_page import csp_hash


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
