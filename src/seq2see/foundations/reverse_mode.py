"""Reverse-mode automatic differentiation with a tape (Linnainmaa 1970), which is backpropagation.

The forward pass records every operation: its inputs and the derivative with respect to each. The backward pass reads
the tape from its end and adds up the derivative of the output with respect to every node. One backward pass gives the
gradient of all inputs; the price is that the tape holds the numbers of all operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from seq2see.foundations.counted_floats import FloatCounter


@dataclass
class Tape:
    """The operations of a forward pass: for each node, the nodes it was computed from and its local derivatives."""

    counter: FloatCounter
    nodes: list[tuple[tuple[int, float], ...]] = field(default_factory=list)

    def variable(self, value: float, *sources: tuple[int, float]) -> Variable:
        """Record a new node; its value and its local derivatives are stored until the end of the backward pass."""
        self.nodes.append(sources)
        self.counter.store(1 + len(sources))
        return Variable(value, len(self.nodes) - 1, self)

    def backward(self, output: Variable) -> list[float]:
        """The derivative of the output with respect to every node, from the last one to the first one."""
        gradients = [0.0] * len(self.nodes)
        self.counter.store(len(gradients))
        gradients[output.index] = 1.0
        for index in range(output.index, -1, -1):
            for source, derivative in self.nodes[index]:
                gradients[source] += gradients[index] * derivative
                self.counter.compute(1)
        return gradients


@dataclass(frozen=True)
class Variable:
    """A value and its node on the tape."""

    value: float
    index: int
    tape: Tape

    def __add__(self, other: Variable) -> Variable:
        return self.tape.variable(self.value + other.value, (self.index, 1.0), (other.index, 1.0))

    def __mul__(self, other: Variable) -> Variable:
        sources = (self.index, other.value), (other.index, self.value)
        return self.tape.variable(self.value * other.value, *sources)

    def sin(self) -> Variable:
        """d sin x / dx = cos x."""
        return self.tape.variable(math.sin(self.value), (self.index, math.cos(self.value)))

    def exp(self) -> Variable:
        """d exp x / dx = exp x."""
        value = math.exp(self.value)
        return self.tape.variable(value, (self.index, value))


def reverse_gradient(
    function: Callable[[Sequence[Variable]], Variable], inputs: Sequence[float], counter: FloatCounter
) -> list[float]:
    """The gradient of a function by one forward pass and one backward pass."""
    tape = Tape(counter)
    variables = [tape.variable(value) for value in inputs]
    return tape.backward(function(variables))[: len(inputs)]
