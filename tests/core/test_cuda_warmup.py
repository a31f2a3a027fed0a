"""A GPU is roused before torch is imported, by the driver alone; where there is no GPU, nothing happens."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from seq2see.core import cuda_warmup

NO_DEVICE = 100


class Driver:
    """A driver that notes what it is asked, and answers with these errors (0: none)."""

    def __init__(self, **answers: int):
        self.answers, self.label_mask = answers, list[tuple[str, object]]()

    def cuInit(self, flags):
        self.label_mask.append(("init", (flags, os.environ["CUDA_MODULE_LOADING"])))
        return self.answers.get("init", 0)

    def cuDeviceGet(self, device, number):
        device._obj.value = 7
        self.label_mask.append(("device", number))
        return self.answers.get("device", 0)

    def cuDevicePrimaryCtxRetain(self, context, device):
        self.label_mask.append(("context", device.value))
        return 0


@pytest.fixture
def torch_folder(monkeypatch, tmp_path) -> Path:
    """A place where torch is found, built for a GPU."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / cuda_warmup.LIBRARY).touch()
    monkeypatch.setattr(cuda_warmup, "find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    return tmp_path


@pytest.fixture
def with_driver(monkeypatch, torch_folder):
    monkeypatch.delenv("CUDA_MODULE_LOADING", raising=False)
    return lambda driver: monkeypatch.setattr(ctypes, "CDLL", {cuda_warmup.DRIVER: driver}.__getitem__)


def test_the_driver_makes_the_context_of_the_first_gpu(with_driver):
    with_driver(driver := Driver())
    cuda_warmup.create_cuda_context()
    assert driver.label_mask == [("init", (0, "LAZY")), ("device", 0), ("context", 7)]


def test_who_loads_kernels_in_another_way_is_heeded(with_driver, monkeypatch):
    with_driver(driver := Driver())
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")
    cuda_warmup.create_cuda_context()
    assert driver.label_mask[0] == ("init", (0, "EAGER"))


@pytest.mark.parametrize(("fails", "asked"), [("init", ["init"]), ("device", ["init", "device"])])
def test_without_a_gpu_no_context_is_made(fails, asked, with_driver):
    with_driver(driver := Driver(**{fails: NO_DEVICE}))
    cuda_warmup.create_cuda_context()
    assert [name for name, _ in driver.label_mask] == asked


def test_where_torch_uses_no_gpu_no_context_is_made(with_driver, torch_folder, monkeypatch):
    with_driver(driver := Driver())
    (torch_folder / "lib" / cuda_warmup.LIBRARY).unlink()
    cuda_warmup.create_cuda_context()
    monkeypatch.setattr(cuda_warmup, "find_spec", lambda name: None)
    cuda_warmup.create_cuda_context()
    assert driver.label_mask == []


def test_without_a_driver_nothing_happens(monkeypatch, torch_folder):
    def none(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", none)
    cuda_warmup.create_cuda_context()


def test_a_gpu_wakes_up_once(monkeypatch):
    woken = []
    monkeypatch.setattr(cuda_warmup, "wake", lambda: woken.append(1))
    cuda_warmup.cuda_warmup.cache_clear()
    cuda_warmup.cuda_warmup().join()
    cuda_warmup.cuda_warmup().join()
    cuda_warmup.cuda_warmup.cache_clear()
    assert woken == [1]


ORDER = """
import sys
from seq2see.core import cuda_warmup
cuda_warmup.meanwhile = lambda work: work()
cuda_warmup.rouse = lambda: print("roused", *[name for name in ("torch", "seq2see.api") if name in sys.modules])
cuda_warmup.wake = lambda: print("woken", *[name for name in ("torch", "seq2see.api") if name in sys.modules])
from seq2see.cli.app import run
print(run(["train", *sys.argv[1:]]))
"""


def test_a_gpu_is_roused_before_torch_is_imported_and_wakes_before_the_rest_is():
    """Nobody knows such a recipe, but that is found out when everything is imported."""
    command = [sys.executable, "-c", ORDER, "no-such-recipe"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["roused", "woken torch", "2"]


def test_nothing_wakes_up_where_nothing_is_trained():
    command = [sys.executable, "-c", ORDER, "no-such-recipe", "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["2"]
