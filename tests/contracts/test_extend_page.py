"""The page docs/extend.md shows the code of these tests: its blocks are files of the tests, and run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "extend.md"
FILES = ("own_parts.py", "toy_task.py")


def blocks(language: str) -> list[str]:
    """The code blocks of the page in this language."""
    parts = PAGE.read_text(encoding="utf-8").split("```")[1::2]
    return [part.removeprefix(language).strip() for part in parts if part.startswith(f"{language}\n")]


DEFINITIONS = [block for block in blocks("python") if not block.startswith("run = ")]
USES = [block for block in blocks("python") if block.startswith("run = ")]


def code(name: str) -> str:
    """A file of the tests without its docstring, its first import and its headings."""
    lines = (TESTS / name).read_text(encoding="utf-8").splitlines()[4:]
    return "\n".join(line for line in lines if line and not line.startswith("# ---"))


def test_the_blocks_are_the_files_of_the_tests():
    joined = "\n".join("\n".join(line for line in block.splitlines() if line) for block in DEFINITIONS)
    assert joined == "\n".join(map(code, FILES))
    assert len(USES) == 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the page speaks of."""
    folder = tmp_path_factory.mktemp("extend")
    rows = [f"{first} {second}\t{second} {first}\n" for first in "abcdefgh" for second in "klmnopqr"]
    (folder / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    parts = [block for block in DEFINITIONS if block in (TESTS / FILES[0]).read_text(encoding="utf-8")]
    digits = [block for block in DEFINITIONS if block not in parts]
    (folder / "parts.py").write_text("\n\n".join([*parts, USES[0]]), encoding="utf-8")
    (folder / "digits.py").write_text("\n\n".join(digits), encoding="utf-8")
    (folder / "use_digits.py").write_text("\n\n".join(["import seq2see", "import digits", USES[1]]), encoding="utf-8")
    return folder


def program(folder: Path, *arguments: str) -> list[str]:
    """The output lines of a Python program in the folder."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.timeout(240)
def test_the_parts_train_as_the_page_says(folder: Path):
    *_, last = program(folder, "parts.py")
    assert float(last) > 0


@pytest.mark.timeout(240)
def test_the_task_trains_as_the_page_says(folder: Path):
    *_, scores, total = program(folder, "use_digits.py")
    assert "mean_absolute_error" in scores
    assert abs(float(total) - 10) < 2


@pytest.mark.long
@pytest.mark.timeout(240)
def test_the_commands_run_as_the_page_says(folder: Path):
    (commands,) = blocks("sh")
    words = [line.split() for line in commands.splitlines()]
    assert all(each[0] == "python" for each in words)
    train, predict, evaluate, explore = (each[1:] for each in words)
    program(folder, *train, "--out", "runs/gru", "--set", "training.steps=4")
    program(folder, *train[:3], "--out", "runs/digit-sum")
    assert len(program(folder, *predict)) == 2
    assert any("mean_absolute_error" in line for line in program(folder, *evaluate))
    program(folder, *explore, "--save", "page.html")
    assert (folder / "page.html").stat().st_size > 100_000
