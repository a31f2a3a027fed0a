"""`seq2see --help` answers at once, because nothing heavy is imported until a verb runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "numpy", "tokenizers", "pydantic", "matplotlib", "safetensors", "sacrebleu", "fastapi"}

SHOW = """
import sys
from seq2see.cli.app import run
code = run({arguments!r})
print(*sorted(name for name in sys.modules if "." not in name), file=sys.stderr)
sys.exit(code)
"""


def imported_by(arguments: list[str]) -> set[str]:
    program = SHOW.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "Usage" in done.stdout
    return set(done.stderr.split())


def test_help_imports_nothing_heavy():
    imported = imported_by(["--help"])
    assert "typer" in imported
    assert not imported & HEAVY


@pytest.mark.parametrize("verb", ["train", "eval", "predict", "export", "data"])
def test_the_help_of_a_verb_imports_nothing_heavy_of_ours(verb):
    assert not imported_by([verb, "--help"]) & (HEAVY - {"pydantic"})  # typer reads a verb's options with it


def test_importing_the_package_imports_nothing_heavy():
    program = "import seq2see, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert not set(done.stdout.split()) & HEAVY
