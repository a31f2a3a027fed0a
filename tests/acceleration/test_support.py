"""What our own kernels need."""

from __future__ import annotations

import pytest

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
