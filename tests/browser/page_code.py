"""Taking a view's Python out of the page and running it, as a learner would, where runs are found by their names."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

MAX_LINE_LENGTH = 88
KEPT: list[str] = []
"""Every snippet that was run, for what is asked of all of them."""


def code_of(page: Any, name: str) -> str:
    """The Python that the page shows under a name."""
    return page.locator(f"pre[data-code={json.dumps(name, ensure_ascii=False)}]").text_content()


def run_code(page: Any, name: str) -> dict[str, Any]:
    """What it leaves behind when it is run: its variables, and under `printed` what it said."""
    code, left, said = code_of(page, name), {}, io.StringIO()
    KEPT.append(code)
    with contextlib.redirect_stdout(said):
        exec(compile(code, name, "exec"), left)
    return {**left, "printed": said.getvalue()}


def runs_folder(runs: Any) -> Path:
    """The folder in which `seq2see.load` finds the runs by the names that the page has."""
    return runs.workspace.run("r1").folder.path.parent
