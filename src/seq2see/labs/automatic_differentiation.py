"""C05: do forward mode and reverse mode both need memory for every node of the graph?

A random program applies n operations one after another to a value, starting from the inputs. Our dual numbers and our
tape count the numbers that are stored at the same time, and the operations on derivatives. The exponent is the slope of
the logarithm of a count over the logarithm of n: about 1 for O(n), about 0 for O(1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seq2see.core.seeds import generator
from seq2see.foundations.counted_floats import FloatCounter
from seq2see.foundations.forward_mode import forward_gradient
from seq2see.foundations.reverse_mode import reverse_gradient
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import Effect, Verdict

INPUTS = (1, 4, 16)


def random_program(seed: int, operations: int) -> Any:
    """A chain of operations, drawn from sin, + x and · x, where x is one of the inputs."""
    rng = generator(seed, "program", operations)
    kinds, numbers = rng.integers(0, 3, operations), rng.integers(0, 10_000, operations)

    def program(inputs: Any) -> Any:
        value = inputs[0]
        for kind, number in zip(kinds, numbers, strict=True):
            other = inputs[number % len(inputs)]
            value = value.sin() if kind == 0 else value + other if kind == 1 else value * other
        return value

    return program


def counts(seed: int, operations: int, inputs: int) -> dict[str, FloatCounter]:
    """The counters of both modes for one program."""
    program = random_program(seed, operations)
    numbers = [0.1 + 0.05 * index for index in range(inputs)]
    counters = {"forward": FloatCounter(), "reverse": FloatCounter()}
    first = forward_gradient(program, numbers, counters["forward"])
    second = reverse_gradient(program, numbers, counters["reverse"])
    assert np.allclose(first, second)
    return counters


def exponent(xs: list[int], ys: list[float]) -> float:
    """The slope on two logarithmic axes."""
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def measure(seed: int, max_operations: int) -> Measurement:
    """Exponents of memory over the number of operations, and of operations over the number of inputs."""
    lengths = [max_operations // 16, max_operations // 4, max_operations]
    by_length = [counts(seed, length, 1) for length in lengths]
    by_inputs = [counts(seed, lengths[-1], inputs) for inputs in INPUTS]
    values, lines = {}, {}
    for mode in ("forward", "reverse"):
        peaks = [float(each[mode].peak) for each in by_length]
        values[f"{mode} memory"] = exponent(lengths, peaks)
        values[f"{mode} work"] = exponent(list(INPUTS), [float(each[mode].operations) for each in by_inputs])
        lines[mode] = (lengths, peaks)
    return Measurement(values, lines)


LABS = {
    "C05": Experiment(
        claim="C05",
        prediction=(
            "The tape stores every node, exponent 1. Dual numbers store the current value only, exponent 0: for "
            "forward "
            "mode the claim about memory is wrong. The claim about work is right.",
            "反向模式的记录带保存每个节点，指数为 1。对偶数只保存当前值，指数为 0：关于正向模式内存的说法是错的，"
            "关于计算量的说法是对的。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect("forward memory", ("forward mode: exponent of memory over n", "正向模式：内存随 n 的指数"), 0.5),
            Effect("reverse memory", ("reverse mode: exponent of memory over n", "反向模式：内存随 n 的指数"), 0.5),
            Effect(
                "forward work", ("forward mode: exponent of work over inputs", "正向模式：计算量随输入个数的指数"), 0.5
            ),
        ),
        additional=(
            Effect(
                "reverse work", ("reverse mode: exponent of work over inputs", "反向模式：计算量随输入个数的指数"), 0.5
            ),
        ),
        measure=measure,
        seeds=10,
        size={"max_operations": 2048},
        tiny={"max_operations": 32},
        would_change=(
            "a graph whose values are all needed later, instead of a chain: then forward mode stores them, too",
            "若图不是链，而是每个值后面都要再用，正向模式也得保存它们",
        ),
        axes=Axes(
            ("operations n", "运算个数 n"), ("largest count of stored numbers", "同时保存的数的最大个数"), True, True
        ),
    )
}
