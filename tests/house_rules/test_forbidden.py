"""What the source must never do, and what no file of the project may tell."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from source_tree import ROOT, modules, project_files

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}
"""Reading what these write can run code that came with it."""
CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "torch.save", "numpy.load", "np.load", "os.system"}
METHODS = {"extractall", "import_module"}
KEYWORDS = {"shell": True, "allow_pickle": True, "trust_remote_code": True, "weights_only": False}
HOSTS = re.compile(
    r"https?://[\w.-]*(pypi\.org|pythonhosted\.org|npmjs\.|jsdelivr\.net|unpkg\.com|cdnjs\.|googleapis\.com"
    r"|anaconda\.org|mirrors?\.|pypi\.tuna|huggingface\.co|hf-mirror\.com)"
)
"""Packages are the installer's business; a page loads nothing from elsewhere."""
ALLOWED = {
    "src/seq2see/__init__.py import_module": "imports lazily, from a literal table of our own modules",
    "src/seq2see/labs/registry.py import_module": "imports lazily, from a literal table of our own modules",
    "src/seq2see/tasks/task.py import_module": "imports lazily, from a literal table of our own modules",
}

MACHINE = re.compile(r"(?<![\w.~])/(?:root|work|home|Users|mnt)/\w")
"""A folder of the machine that something was written on."""
PROCESS_WORDS = re.compile(
    r"\b(?:sessions?|sub-?agents?|work items?|issue #\d+|helper \d+|TODO|FIXME)\b", re.IGNORECASE
)
"""Talk about how the work was done, which readers of the project have no use for."""


def dotted(node: ast.AST) -> str:
    """A name or a chain of attributes, as written."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def offences(node: ast.AST) -> list[str]:
    """What one node of the source does that it must not."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
    if isinstance(node, ast.ImportFrom):
        return [str(node.module)] if str(node.module).split(".")[0] in MODULES else []
    if not isinstance(node, ast.Call):
        return []
    name = dotted(node.func)
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    found = [name] if name in CALLS else [method] if method in METHODS else []
    for keyword in node.keywords:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if keyword.arg in KEYWORDS and value is KEYWORDS[keyword.arg]:
            found.append(f"{keyword.arg}={value}")
    return found


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from yaml import load", "eval('1')", "torch.load(path)", "run(x, shell=True)",
        "np.load(path)", "archive.extractall()", "read(path, allow_pickle=True)", "read(x, trust_remote_code=True)",
    ],
)  # fmt: skip
def test_the_rule_notices(line):
    assert any(offences(node) for node in ast.walk(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["model.eval()", "safetensors.torch.load(content)", "json.load(file)", "re.compile('a')"]
)
def test_the_rule_lets_pass(line):
    assert not any(offences(node) for node in ast.walk(ast.parse(line)))


def test_the_source_runs_nothing_that_it_reads():
    wrong = [
        f"{module}:{node.lineno} {offence}"  # type: ignore[attr-defined]
        for module in modules()
        for node in module.nodes
        for offence in offences(node)
        if f"{module} {offence}" not in ALLOWED
    ]
    assert not wrong, "\n".join(wrong)


def test_the_source_names_no_package_registry():
    found = [(str(module), match.group()) for module in modules() for match in HOSTS.finditer(module.text)]
    assert not found


def test_no_file_names_a_local_folder():
    assert MACHINE.search("see /home/ann/data")
    assert not MACHINE.search("seq2see/home/x")
    assert not lines_with(MACHINE)


def test_files_do_not_mention_the_work_process():
    assert not lines_with(PROCESS_WORDS)


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:80]}"
        for path in project_files()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
