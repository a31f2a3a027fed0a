"""Forward-mode automatic differentiation with dual numbers (Clifford 1873; Wengert 1964).

A dual number a + b ε with ε² = 0 is a value and its derivative in one direction. Every operation computes both, from
left to right through the program; after an operation its inputs may be released. One pass gives the derivative with
respect to one input, so the gradient of n inputs needs n passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from seq2see.foundations.counted_floats import FloatCounter


class Dual:
    """A value and its derivative; both are counted from its creation until no variable refers to it."""

    def __init__(self, value: float, derivative: float, counter: FloatCounter):
        self.value, self.derivative, self.counter = value, derivative, counter
        counter.store(2)

    def __del__(self) -> None:
        self.counter.release(2)

    def __add__(self, other: Dual) -> Dual:
        self.counter.compute(1)
        return Dual(self.value + other.value, self.derivative + other.derivative, self.counter)

    def __mul__(self, other: Dual) -> Dual:
        """The product rule."""
        self.counter.compute(3)
        derivative = self.derivative * other.value + self.value * other.derivative
        return Dual(self.value * other.value, derivative, self.counter)

    def sin(self) -> Dual:
        """(sin x)' = x' cos x."""
        self.counter.compute(1)
        return Dual(math.sin(self.value), self.derivative * math.cos(self.value), self.counter)

    def exp(self) -> Dual:
        """(exp x)' = x' exp x."""
        self.counter.compute(1)
        value = math.exp(self.value)
        return Dual(value, self.derivative * value, self.counter)


def forward_gradient(
    function: Callable[[Sequence[Dual]], Dual], inputs: Sequence[float], counter: FloatCounter
) -> list[float]:
    """The gradient of a function by one pass for each input, whose derivative is 1 in that pass and 0 otherwise."""
    gradient = []
    for direction in range(len(inputs)):
        duals = [Dual(value, float(index == direction), counter) for index, value in enumerate(inputs)]
        gradient.append(function(duals).derivative)
    return gradient
