"""The pages: every one in two languages, with the same skeleton, and in step with the source."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from source_tree import ROOT, project_files, tables

from seq2see.data.catalogue.entries import CATALOGUE
from seq2see.data.readers.data_report import ISSUE_KINDS
from seq2see.recipes.registry import RECIPES

ENGLISH = [path for path in sorted((ROOT / "docs").glob("*.md")) if not path.name.endswith(".zh.md")]
PAIRS = [(path, path.with_suffix(".zh.md")) for path in [*ENGLISH, ROOT / "README.md"]]
SEVERITIES = {"error": "错误", "repair": "修复", "warning": "警告"}


def headings(page: Path) -> list[int]:
    """The depth of each heading, in order; what stands in code blocks is no heading."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]


def blocks(page: Path) -> list[tuple[str, str]]:
    """The code blocks as (language, code); a block of plain text counts by its language alone."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [(language, "" if language == "text" else code) for language, code in found]


def table_shapes(page: Path) -> list[tuple[int, int]]:
    return [(len(rows), len(rows[0])) for rows in tables(page).values() if rows]


def links(page: Path) -> list[str]:
    found = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return [link for link in found if not link.startswith("http")]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].stem)
class TestPair:
    def test_a_page_exists_in_both_languages_and_each_leads_to_the_other(self, pair):
        for page, other in (pair, pair[::-1]):
            assert f"]({other.name})" in page.read_text(encoding="utf-8").split("\n")[0]

    def test_both_have_the_same_headings(self, pair):
        assert headings(pair[0]) == headings(pair[1])

    def test_both_have_the_same_code(self, pair):
        assert blocks(pair[0]) == blocks(pair[1])

    def test_both_have_the_same_tables(self, pair):
        assert table_shapes(pair[0]) == table_shapes(pair[1])

    def test_links_lead_somewhere(self, pair):
        broken = [f"{page.name}: {link}" for page in pair for link in links(page) if not (page.parent / link).exists()]
        assert not broken

    def test_chinese_pages_lead_to_chinese_pages(self, pair):
        own = {path.name for path in ENGLISH}
        astray = [link for link in links(pair[1]) if Path(link).name in own and Path(link).name != pair[0].name]
        assert not astray


def test_no_chinese_page_stands_alone():
    alone = [page.name for page in (ROOT / "docs").glob("*.zh.md") if not Path(str(page)[:-6] + ".md").exists()]
    assert not alone


def test_the_index_leads_to_every_page():
    for index, ending in (("index.md", ".md"), ("index.zh.md", ".zh.md")):
        found = set(links(ROOT / "docs" / index))
        assert {f"{page.stem}{ending}" for page in ENGLISH if page.stem != "index"} <= found


def test_the_page_about_data_explains_every_finding_with_its_severity():
    for page, words in (("data.md", {each: each for each in SEVERITIES}), ("data.zh.md", SEVERITIES)):
        rows = next(rows for rows in tables(ROOT / "docs" / page).values() if len(rows) > 20)
        explained = {row[0]: row[1] for row in rows}
        assert explained.keys() == ISSUE_KINDS.keys()
        wrong = {
            kind: explained[kind]
            for kind, details in ISSUE_KINDS.items()
            if not explained[kind].startswith(words[details.severity])
            or (len(explained[kind]) > len(words[details.severity])) != details.invalidates_file
        }
        assert not wrong


def test_the_page_about_data_lists_the_catalogue():
    for page in ("data.md", "data.zh.md"):
        listed = {
            row[0]: re.findall(r"\w+", row[2])
            for rows in tables(ROOT / "docs" / page).values()
            for row in rows
            if len(row) == 3
        }
        assert {name: list(entry.columns) for name, entry in CATALOGUE.items()}.items() <= listed.items()


def test_recipes_named_on_a_page_exist():
    wrong = [
        f"{page.name}: {name}"
        for pair in PAIRS
        for page in pair
        for name in re.findall(r"\b((?:pocket|puzzle)-[a-z][a-z-]*[a-z])\b", page.read_text(encoding="utf-8"))
        if name not in RECIPES
    ]
    assert not wrong


def test_files_named_on_a_page_exist():
    """A file is named by the end of its path."""
    paths, new_files = [path.as_posix() for path in project_files()], ("lexicon_xx.py", "digits.py")  # readers' own
    wrong = [
        f"{page.name}: {name}"
        for pair in PAIRS
        for page in pair
        for name in re.findall(r"`(\w[\w/]*\.py)`", page.read_text(encoding="utf-8"))
        if name not in new_files and not any(path.endswith(f"/{name}") for path in paths)
    ]
    assert not wrong


def generator():
    sys.path.append(str(ROOT / "docs"))  # where its own parts lie
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestGenerated:
    def test_generated_pages_are_what_the_source_says(self):
        pages = generator().pages()
        stale = [path.name for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
        assert not stale, "`make docs` writes these anew"

    def test_generated_images_match_the_stored_results(self):
        generator()
        from measured import stale_images

        assert not stale_images(), "`make docs` draws these anew"

    def test_every_sentence_has_its_chinese_and_no_other_has(self):
        generate = generator()
        from languages import CHINESE

        sentences = set(generate.sentences())
        assert sorted(sentences - CHINESE.keys()) == [], "translate these in docs/chinese.toml"
        assert sorted(CHINESE.keys() - sentences) == [], "docs/chinese.toml has these, the source has not"
