"""The CUDA context is created before torch is imported, by the driver alone; without a GPU nothing happens."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from seq2see.core import startup

NO_DEVICE = 100


class Driver:
    """A driver that records its calls, and returns these error codes (0: none)."""

    def __init__(self, **errors: int):
        self.errors, self.calls = errors, list[tuple[str, object]]()

    def cuInit(self, flags):
        self.calls.append(("init", (flags, os.environ["CUDA_MODULE_LOADING"])))
        return self.errors.get("init", 0)

    def cuDeviceGet(self, device, number):
        device._obj.value = 7
        self.calls.append(("device", number))
        return self.errors.get("device", 0)

    def cuDevicePrimaryCtxRetain(self, context, device):
        self.calls.append(("context", device.value))
        return 0


@pytest.fixture
def torch_folder(monkeypatch, tmp_path) -> Path:
    """A folder that contains a CUDA build of torch."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / startup.LIBRARY).touch()
    monkeypatch.setattr(startup, "find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    return tmp_path


@pytest.fixture
def with_driver(monkeypatch, torch_folder):
    monkeypatch.delenv("CUDA_MODULE_LOADING", raising=False)
    return lambda driver: monkeypatch.setattr(ctypes, "CDLL", {startup.DRIVER: driver}.__getitem__)


def test_the_driver_creates_the_context_of_the_first_gpu(with_driver):
    with_driver(driver := Driver())
    startup.create_cuda_context()
    assert driver.calls == [("init", (0, "LAZY")), ("device", 0), ("context", 7)]


def test_an_existing_module_loading_variable_is_kept(with_driver, monkeypatch):
    with_driver(driver := Driver())
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")
    startup.create_cuda_context()
    assert driver.calls[0] == ("init", (0, "EAGER"))


@pytest.mark.parametrize(("failing", "names"), [("init", ["init"]), ("device", ["init", "device"])])
def test_without_a_gpu_no_context_is_created(failing, names, with_driver):
    with_driver(driver := Driver(**{failing: NO_DEVICE}))
    startup.create_cuda_context()
    assert [name for name, _ in driver.calls] == names


def test_with_a_cpu_build_of_torch_no_context_is_created(with_driver, torch_folder, monkeypatch):
    with_driver(driver := Driver())
    (torch_folder / "lib" / startup.LIBRARY).unlink()
    startup.create_cuda_context()
    monkeypatch.setattr(startup, "find_spec", lambda name: None)
    startup.create_cuda_context()
    assert driver.calls == []


def test_without_a_driver_nothing_happens(monkeypatch, torch_folder):
    def fail(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", fail)
    startup.create_cuda_context()


def test_the_warmup_runs_once(monkeypatch):
    runs = []
    monkeypatch.setattr(startup, "warm_up_cuda", lambda: runs.append(1))
    startup.cuda_warmup.cache_clear()
    startup.cuda_warmup().join()
    startup.cuda_warmup().join()
    startup.cuda_warmup.cache_clear()
    assert runs == [1]


IMPORT_ORDER = """
import sys
from seq2see.core import startup

def log(step):
    print(step, *[name for name in ("torch", "seq2see.api") if name in sys.modules])

startup.run_in_background = lambda work: work()
startup.create_cuda_context = lambda: log("context")
startup.warm_up_cuda = lambda: log("warmup")
from seq2see.cli.app import run
print(run(["train", *sys.argv[1:]]))
"""


def test_the_context_is_created_before_torch_is_imported_and_the_warmup_before_the_rest():
    """There is no such recipe, but that error is raised after all imports."""
    command = [sys.executable, "-c", IMPORT_ORDER, "no-such-recipe"]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert process.stdout.splitlines() == ["context", "warmup torch", "2"]


def test_there_is_no_warmup_without_training():
    command = [sys.executable, "-c", IMPORT_ORDER, "no-such-recipe", "--dry-run"]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert process.stdout.splitlines() == ["2"]
