"""`seq2see --help` answers at once, because nothing heavy is imported until a verb runs; nor does a verb import all."""

from __future__ import annotations

import runpy
import subprocess
import sys

import pytest

import seq2see

HEAVY = {"torch", "numpy", "tokenizers", "pydantic", "matplotlib", "safetensors", "sacrebleu", "fastapi"}

SHOW = """
import sys
from seq2see.cli.app import run
code = run({arguments!r})
print(*sorted(name for name in sys.modules if "." not in name), file=sys.stderr)
sys.exit(code)
"""


def imported_by(arguments: list[str], printed: str = "Usage") -> set[str]:
    program = SHOW.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert printed in done.stdout
    return set(done.stderr.split())


def test_help_imports_nothing_heavy():
    imported = imported_by(["--help"])
    assert "typer" in imported
    assert not imported & HEAVY


@pytest.mark.parametrize("verb", ["train", "eval", "predict", "explore", "export", "data", "lab"])
def test_the_help_of_a_verb_imports_nothing_heavy_of_ours(verb):
    assert not imported_by([verb, "--help"]) & (HEAVY - {"pydantic"})  # typer reads a verb's options with it


def test_the_list_of_claims_imports_no_model():
    assert not imported_by(["lab"], "brevity-penalty") & (HEAVY - {"pydantic"})


def test_importing_the_package_imports_nothing_heavy():
    program = "import seq2see, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert not set(done.stdout.split()) & HEAVY


@pytest.mark.parametrize("module", ["seq2see", "seq2see.cli.app"])
def test_the_module_is_the_command(module, monkeypatch, capsys):
    """`python -m` runs a module under the name `__main__`, as here."""
    monkeypatch.setattr(sys, "argv", ["python", "--version"])
    monkeypatch.delitem(sys.modules, module if module != "seq2see" else "seq2see.__main__", raising=False)
    with pytest.raises(SystemExit) as left:
        runpy.run_module(module, run_name="__main__")
    assert (left.value.code, capsys.readouterr().out.strip()) == (0, seq2see.__version__)


TRAIN = """
import sys
from seq2see.cli.app import run
small = {"corpus.size": 60, "training.steps": 2, "encoder.width": 16, "decoder.width": 16, "training.evaluate_every": 1}
more = {"training.optimizer.kind": "muon", "training.average.kind": "ema", "training.precision": "bf16"}
sets = [word for path, value in (small | more).items() for word in ("--set", f"{path}={value}")]
assert run(["train", "pocket-transformer", "--out", sys.argv[1], *sets]) == 0
print("imported by training:", *sys.modules)
assert run(["predict", sys.argv[1], "我有一支笔"]) == 0
print("imported:", *sys.modules)
"""
AFTERWARDS = ("sacrebleu", "rapidfuzz", "seq2see.runs.evaluate", "seq2see.explorer")
"""What scores or shows a run, which who trains it does not wait for."""


def test_training_on_a_cpu_imports_no_compiler_nor_what_comes_afterwards(tmp_path):
    """torch's compiler takes seconds to import, and the classes of `torch.optim` import it when they are made."""
    command = [sys.executable, "-c", TRAIN, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    imported, trained = (done.stdout.rpartition(f"imported{by}:")[2].split() for by in ("", " by training"))
    trained = trained[: trained.index("imported:")]
    assert "torch" in trained
    assert "matplotlib" in trained
    assert not [name for name in imported if name.startswith("torch._dynamo")]
    assert not [name for name in trained if name.startswith(AFTERWARDS)]
