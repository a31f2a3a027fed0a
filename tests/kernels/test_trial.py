"""Whether kernels run is found out by trying: where they do not, decoding goes on without them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from seq2see.core.devices import TRITON
from seq2see.kernels import trial

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def ask_anew():
    trial.kernels_run.cache_clear()
    yield
    trial.kernels_run.cache_clear()


@pytest.mark.skipif(not TRITON, reason="needs triton, which `make test-all` installs")
def test_kernels_run_where_a_gpu_or_an_interpreter_runs_them():
    assert trial.kernels_run(DEVICE)


@pytest.mark.skipif(not TRITON, reason="needs triton, which `make test-all` installs")
def test_they_do_not_where_triton_finds_no_compiler(monkeypatch):
    from seq2see.kernels import few_rows

    def fail(*_):
        raise RuntimeError("Failed to find C compiler.")

    monkeypatch.setattr(few_rows, "product", fail)
    assert not trial.kernels_run(DEVICE)


def test_they_do_not_on_a_cpu_that_nobody_interprets_them_for():
    asks = "import torch; from seq2see.kernels.trial import kernels_run; print(kernels_run(torch.device('cpu')))"
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    found = subprocess.run([sys.executable, "-c", asks], env=plain, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_they_do_not_without_triton(monkeypatch):
    monkeypatch.setattr(trial, "TRITON", False)
    assert not trial.kernels_run(DEVICE)
