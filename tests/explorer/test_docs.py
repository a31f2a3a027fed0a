"""The documentation of the explorer lists every view by its title on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "seq2see" / "explorer" / "page"


def titles(language: str) -> set[str]:
    """The titles of the views; each module has one in English and then one in Chinese."""
    found = set()
    for path in PAGE.glob("views/*.js"):
        titles = re.findall(r'^    title: "(.+)",$', path.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(titles) in (0, 2), path.name
        found |= {titles[language == "zh"]} if titles else set()
    return found


@pytest.mark.parametrize(("name", "language"), [("explorer.md", "en"), ("explorer.zh.md", "zh")])
def test_every_view_has_its_row(name, language):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \|.*\|.*\|$", text.split("|---|---|---|")[1].split("\n\n")[0], re.MULTILINE)
    count = len(re.findall(r"import ", (PAGE / "views.js").read_text(encoding="utf-8")))
    assert set(rows) == titles(language)
    assert len(rows) == count
