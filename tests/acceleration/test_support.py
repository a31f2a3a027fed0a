"""What our own kernels need."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch

from seq2see.acceleration import support


@pytest.mark.parametrize(
    "compilers, environment, expected",
    [
        (("gcc",), {}, True),
        (("clang",), {}, True),
        ((), {}, False),
        (("gcc",), {"CC": "nowhere"}, False),
        (("mine",), {"CC": "mine"}, True),
        (("clang",), {"CC": ""}, True),
    ],
)
def test_kernels_need_triton_and_a_compiler(monkeypatch, compilers, environment, expected):
    monkeypatch.setattr(support, "find_spec", lambda name: name == "triton" or None)
    monkeypatch.setattr(support.shutil, "which", lambda name: name if name in compilers else None)
    assert support.has_triton(environment) == expected
    monkeypatch.setattr(support, "find_spec", lambda name: None)
    assert not support.has_triton(environment)


@pytest.mark.parametrize("fails", [False, True])
def test_no_garbage_is_collected_during_a_capture(monkeypatch, fails):
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, pool: contextlib.nullcontext())
    with contextlib.suppress(KeyError), support.captured_in(None, None):
        assert not gc.isenabled()
        if fails:
            raise KeyError
    assert gc.isenabled()
    gc.disable()
    with support.captured_in(None, None):
        pass
    assert not gc.isenabled()
    gc.enable()
