"""Run the Python code of a view, as a user does, in the folder where runs are found by their names."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

MAX_LINE_LENGTH = 88
SNIPPETS: list[str] = []
"""All snippets that were run, for checks of all of them."""


def code_of(page: Any, name: str) -> str:
    """The Python code that the page shows under a name."""
    return page.locator(f"pre[data-code={json.dumps(name, ensure_ascii=False)}]").text_content()


def run_code(page: Any, name: str) -> dict[str, Any]:
    """Run a snippet, and return its variables, and its output as `printed`."""
    code, variables, output = code_of(page, name), {}, io.StringIO()
    SNIPPETS.append(code)
    with contextlib.redirect_stdout(output):
        exec(compile(code, name, "exec"), variables)
    return {**variables, "printed": output.getvalue()}


def runs_folder(runs: Any) -> Path:
    """The folder in which `seq2see.load` finds the runs by their names."""
    return runs.workspace.run("r1").folder.path.parent
