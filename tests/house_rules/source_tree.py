"""The project as the house rules see it: its files, its parsed modules, and the names they define."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "seq2see"
FOLDERS = (".ci", "benchmarks", "docs", "src", "tests")
TEXTS = {".py", ".md", ".toml", ".txt", ".js", ".css", ".html", ".json", ".tsv", ".csv", ".jsonl", ".yml", ".yaml", ""}


@dataclass(frozen=True)
class Module:
    """One Python file of the package."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def place(self) -> str:
        """The folder of the package it lives in; `api`, `__main__` or `seq2see` for the modules at its root."""
        parts = self.path.relative_to(PACKAGE).parts
        return parts[0] if len(parts) > 1 else parts[0].removesuffix(".py").replace("__init__", "seq2see")

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text, filename=str(self.path))))


@cache
def modules() -> list[Module]:
    """Every Python file of the package."""
    return [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]


@cache
def project_files() -> list[Path]:
    """Every text file that belongs to the project, built and cached things left out."""
    found = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sorted(path for path in found if path.suffix in TEXTS)


def defined_names(module: Module) -> Iterator[tuple[str, int]]:
    """Names that a module gives to something, with their lines; names that it only uses are others' business."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def tables(page: Path) -> dict[str, list[list[str]]]:
    """The rows of the table under each heading of a Markdown page, without its head."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            found.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return {heading: rows[2:] for heading, rows in found.items()}


def fenced(page: Path, language: str) -> list[str]:
    """The code blocks of a Markdown page that are marked with a language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
