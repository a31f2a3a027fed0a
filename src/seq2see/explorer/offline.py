"""A page that needs no server: modules, style and answers in one file, which opens from a disk or inside a notebook.

What the page would ask is asked here beforehand, and the answers are stored in it. It loads nothing from anywhere: its
content policy names the one script and the one style that it has by their hashes, and allows nothing else.
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
from seq2see.runs.report_page import allowed


def write_page(workspace: Workspace, path: Path, text: str) -> None:
    """Write a page about the runs on the bench and one text, and say where it is."""
    if path.is_dir():
        raise UserError("This is a folder.", location=str(path), hint="Name a file, such as look.html.")
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
    """One page about all runs on the bench and one text; without one, about an example of the first run's own."""
    runs = list_runs(workspace)["runs"]
    if text is None:
        found = (first_example(each) for each in workspace.runs.values())
        text = next((each["text"] for each in found if each and each["text"]), "")
    _check(text)
    stored: dict[str, dict[str, Any]] = {}
    for run in runs:
        answers = ResponseRecorder(workspace, run, text, target, max_bytes)
        stored |= record_views(answers, views)
        max_bytes = answers.bytes_left
    looks = any("attention" in run["capabilities"] for run in runs)
    link = {"view": "attention" if looks else "", "text": text, "target": target or ""}
    script = bundle_script(views if set(views) < set(VIEW_RECORDERS) else ())
    return _page(script, {"runs": runs, "views": list(views), "link": link, "responses": stored})


def _check(text: str) -> None:
    """What the server would not take from a page, a page cannot be about."""
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"The text has more than {MAX_CHARACTERS:,} characters.", hint="Save a shorter one.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError("The text is no Unicode: it has half of a character.", hint="Save it as UTF-8.") from None


def _page(script: str, stored: dict[str, Any]) -> str:
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; img-src data: blob:; style-src {allowed(style)}; script-src {allowed(script)}"
    # "<" could end the element that holds the answers, so it is written in JSON's own other way.
    answers = json.dumps(stored, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
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
<script type="application/json" id="responses">{answers}</script>
<script>{script}</script>
</body>
</html>
"""


def to_iframe(page: str, height: int = 700) -> str:
    """A page inside another, as a notebook shows it: it may run its own script, and reach nothing else."""
    looks = f"width:100%;height:{height}px;border:1px solid #8888;border-radius:6px"
    return f'<iframe sandbox="allow-scripts allow-downloads" style="{looks}" srcdoc="{escape(page)}"></iframe>'
