"""The layout follows the data: a folder imports only from folders above it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

import pytest
from source_tree import PACKAGE, ROOT, Module, modules

sys.path.append(str(ROOT / "benchmarks"))

from import_graph import import_cycles, import_graph

ORDER = (
    "core", "foundations", "data", "layers", "models", "training", "decoding", "metrics", "inspection",
    "interop", "adapters", "tasks", "acceleration", "runs", "recipes", "labs", "explorer", "api", "cli",
    "__main__",
)  # fmt: skip
"""From top to bottom; `api` and `__main__` (the command line, for `python -m`) stand at the root of the package."""
INDEPENDENT = {"training", "decoding", "metrics"}
"""These do not import each other: `runs` combines them."""
ENDS = {"labs": {"cli"}, "cli": {"__main__"}}
"""The places that may import these."""


def imported(module: Module) -> Iterator[tuple[str, int]]:
    """The places of the package that a module imports from, also inside functions, with the line."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively; write the whole name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            # `import seq2see` alone is for its version.
            if first == "seq2see" and rest and rest[0] != "__version__":
                yield rest[0], node.lineno


def test_every_folder_has_its_place_in_the_order():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= set(ORDER), f"give these a place in the order: {sorted(folders - set(ORDER))}"


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_the_readme_lists_every_folder_in_that_order(page):
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [name for name in ORDER if (PACKAGE / name).is_dir()]


def test_a_folder_imports_only_from_folders_above_it():
    wrong = []
    for module in modules():
        for place, line in imported(module):
            if module.place == "seq2see" or place not in ORDER:
                wrong.append(f"{module}:{line} imports {place}")
            elif ORDER.index(place) > ORDER.index(module.place):
                wrong.append(f"{module}:{line} imports {place}, which stands below {module.place}")
    assert not wrong, "\n".join(wrong)


def test_training_decoding_and_metrics_are_independent():
    wrong = [
        f"{module}:{line} imports {place}"
        for module in modules()
        if module.place in INDEPENDENT
        for place, line in imported(module)
        if place in INDEPENDENT - {module.place}
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_command_line_imports_labs_and_nothing_imports_the_command_line():
    wrong = [
        f"{module}:{line} imports {place}"
        for module in modules()
        for place, line in imported(module)
        if place in ENDS and module.place not in (place, *ENDS[place])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("with_annotations", [False, True])
def test_no_modules_import_each_other_in_a_circle(with_annotations):
    cycles = import_cycles(import_graph(PACKAGE, with_annotations))
    wrong = "\n".join(" <-> ".join(each) for each in sorted(cycles))
    assert not wrong, f"also inside a function, an import must not lead back:\n{wrong}"


def test_packages_have_a_docstring_and_export_nothing():
    wrong = []
    for module in modules():
        if module.path.name != "__init__.py" or module.place in ("seq2see", "cli"):
            continue  # the package itself imports lazily; `cli` holds the function that the command runs
        statements = ast.parse(module.text).body
        if len(statements) != 1 or ast.get_docstring(ast.parse(module.text)) is None:
            wrong.append(f"{module} should hold a docstring and nothing else")
    assert not wrong, "\n".join(wrong)
