"""The explorer's page: files small enough to read, nothing from elsewhere, and text that never becomes markup."""

from __future__ import annotations

import importlib
import re

import pytest
from source_tree import PACKAGE

PAGE = PACKAGE / "explorer" / "page"
SCRIPTS = sorted(PAGE.rglob("*.js"))
FILES = sorted(path for path in PAGE.rglob("*") if path.is_file())
MAX_LINES = 600

MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc\s*="
    r"|\beval\(|new Function|set(?:Timeout|Interval)\(\s*[\"'`]|\bimport\((?![\"'])|javascript:"
)
"""Ways in which a text would become markup or code."""
ELSEWHERE = re.compile(
    r"(?:https?:)?//(?!www\.w3\.org/)[\w-]+\.[\w.-]+/|WebSocket|EventSource|sendBeacon|XMLHttpRequest"
)
"""Other places, and other ways to reach them than `api.js`."""
IMPORTS = re.compile(r"""^(?:import|export)\b[^;]*?\bfrom\s+"([^"]+)";""", re.MULTILINE | re.DOTALL)

PYTHON_IMPORT = re.compile(r"from (seq2see[\w.]*) import ([\w, ]*)")
"""An import in the Python code that a view shows; a name that a view chooses is a `${...}`, and does not match."""


def test_the_rules_notice():
    assert PYTHON_IMPORT.findall('"from seq2see.a.b import c, d",') == [("seq2see.a.b", "c, d")]
    assert MARKUP.search("place.innerHTML = text")
    assert MARKUP.search('setTimeout("run()", 1)')
    assert not MARKUP.search("setTimeout(run, 1)")
    assert ELSEWHERE.search('import "https://cdn.example.org/d3.js"')
    assert not ELSEWHERE.search('"http://www.w3.org/2000/svg"')


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(PAGE).as_posix())
def test_a_script_is_short_documented_and_safe(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    assert text.startswith("/**"), "a comment on top says what it is about"
    assert not MARKUP.findall(text)
    assert not ELSEWHERE.findall(text)
    assert max(map(len, text.splitlines())) <= 140
    missing = [name for name in IMPORTS.findall(text) if not (path.parent / name).resolve().is_file()]
    assert not missing


def test_python_code_of_the_page_imports_names_that_exist():
    imports = {found for path in SCRIPTS for found in PYTHON_IMPORT.findall(path.read_text(encoding="utf-8"))}
    assert len(imports) > 15
    missing = [
        f"{module}.{name}"
        for module, names in sorted(imports)
        for name in filter(None, names.replace(" ", "").split(","))
        if not hasattr(importlib.import_module(module), name)
    ]
    assert not missing


def test_only_one_file_sends_requests():
    talking = [path.name for path in SCRIPTS if re.search(r"\bfetch\(", path.read_text(encoding="utf-8"))]
    assert talking == ["api.js"]


def test_every_view_stands_in_the_table():
    listed = set(IMPORTS.findall((PAGE / "views.js").read_text(encoding="utf-8")))
    there = {
        f"./views/{path.name}"
        for path in (PAGE / "views").glob("*.js")
        if "export const view" in path.read_text(encoding="utf-8")
    }
    assert listed == there


def test_there_is_nothing_but_text_that_we_wrote():
    assert {path.suffix for path in FILES} == {".js", ".css", ".html"}
    assert not ELSEWHERE.findall((PAGE / "style.css").read_text(encoding="utf-8"))
