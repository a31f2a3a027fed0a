"""The textbook computes by its definitions alone: it asks for no device, precision or mode, and has no faster form."""

from __future__ import annotations

import re

import pytest
from source_tree import Module, modules

TEXTBOOK = ["foundations", "layers", "models", "training", "decoding"]
"""The folders that hold definitions; each of them is run as it is written."""
USERS = {"acceleration", "runs"}
"""The folders that put faster forms on, from outside."""
IMPORT = re.compile(r"^\s*(?:from|import) seq2see\.acceleration\b|^\s*from seq2see import acceleration\b", re.MULTILINE)
ASKS = {
    "the device": re.compile(r"\.is_(?:cuda|cpu|meta|mps)\b|\bdevice\.type\b|\bcuda\.is_available\b"),
    "the precision": re.compile(r"is_autocast|get_autocast|\bbfloat16\b|\bfloat16\b|\.half\(\)"),
    "the gradient mode": re.compile(r"\bis_grad_enabled\b|\bis_inference\b|\bis_inference_mode_enabled\b"),
    "the compiler": re.compile(r"\bis_compiling\b|\bctypes\b|\btriton\b|\bCUDAGraph\b|\bcuda\.graph\b"),
}
"""What only speed depends on, and the lines that ask for it."""


def textbook() -> list[Module]:
    return [module for module in modules() if module.place in TEXTBOOK]


def asked(text: str) -> list[str]:
    """What a text asks for, with the number of the line; docstrings and comments must not name it either."""
    return [
        f"{number} asks for {what}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in ASKS.items()
        if pattern.search(line)
    ]


@pytest.mark.parametrize(
    "line",
    [
        "if scores.is_cuda:", "return tensor.is_cpu", 'if device.type == "cpu":', "torch.is_autocast_enabled()",
        "if torch.is_grad_enabled():", "torch.compiler.is_compiling()", "x.to(torch.bfloat16)", "import triton",
    ],
)  # fmt: skip
def test_the_rule_notices(line):
    assert asked(line)


@pytest.mark.parametrize(
    "line", ["torch.zeros(3, device=scores.device)", "scores.double()", "rows.to(tokens.device)", "logits.float()"]
)
def test_the_rule_lets_pass(line):
    assert not asked(line)


def test_the_textbook_asks_for_no_device_precision_or_mode():
    assert {module.place for module in textbook()} == set(TEXTBOOK)
    wrong = [f"{module}:{each}" for module in textbook() for each in asked(module.text)]
    assert not wrong, "put this on from outside, in acceleration:\n" + "\n".join(wrong)


def test_only_runs_puts_faster_forms_on():
    assert IMPORT.search("x\n    from seq2see.acceleration.swaps import plain_only")
    wrong = [str(module) for module in modules() if module.place not in USERS and IMPORT.search(module.text)]
    assert not wrong, f"these import acceleration: {wrong}"
