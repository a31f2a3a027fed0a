"""Checkable rewards: a program decides whether an answer is right, so no model of preferences is needed.

A reward is a pure function of the question, the answer and the reference. It is 1 for a right answer and -1 for a wrong
one, as in Transformer² (Sun, Cetin & Tang 2025, section 3.2). An answer that was cut before its end is wrong.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings

RIGHT, WRONG = 1.0, -1.0
NUMBER = r"(\d(?:[\d ]*\d)?)"
"""A number; its digits may be separate words."""
EXPRESSIONS = {
    rf"{NUMBER} *(?:\+|plus|and) *{NUMBER}": lambda first, second: first + second,
    rf"{NUMBER} *(?:-|minus) *{NUMBER}": lambda first, second: first - second,
    rf"{NUMBER} *(?:\*|times) *{NUMBER}": lambda first, second: first * second,
    rf"from +{NUMBER} +subtract +{NUMBER}": lambda first, second: first - second,
}
"""Calculations in words or signs, and their values."""


def arithmetic_value(question: str) -> int | None:
    """The value of the calculation in a question; None if it has none.

    >>> arithmetic_value("what is 4 6 plus 41?"), arithmetic_value("from 46 subtract 2 9"), arithmetic_value("hello")
    (87, 17, None)
    """
    for pattern, calculate in EXPRESSIONS.items():
        if found := re.search(pattern, question):
            return calculate(*(int(number.replace(" ", "")) for number in found.groups()))
    return None


class ExactMatch(Settings):
    """Right if the answer is the reference, apart from spaces around words."""

    kind: Literal["exact"] = "exact"

    def __call__(self, question: str, answer: str, reference: str) -> float:
        """The reward of an answer."""
        return RIGHT if answer.split() == reference.split() else WRONG


class Arithmetic(Settings):
    """Right if the last number of the answer is the value of the calculation in the question; needs no reference."""

    kind: Literal["arithmetic"] = "arithmetic"

    def __call__(self, question: str, answer: str, reference: str) -> float:
        """The reward of an answer."""
        value = arithmetic_value(question)
        if value is None:
            raise UserError(
                f"There is no calculation in the question {question[:60]!r}.",
                hint="Write it as 27 + 58, 27 plus 58, 58 - 27 or 3 times 4, or set objective.reward.kind=exact.",
            )
        numbers = [found[0].replace(" ", "") for found in re.finditer(rf"(?:- *)?{NUMBER}", answer)]
        return RIGHT if numbers and int(numbers[-1]) == value else WRONG


class Format(Settings):
    """Right if the whole answer matches a regular expression: a reward for the form, not for the content."""

    kind: Literal["format"] = "format"
    pattern: str = r"\S+( \S+)*"
    """The regular expression, for example `\\d+( \\d+)*` for numbers only."""

    @field_validator("pattern")
    @classmethod
    def _compile(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        return pattern

    def __call__(self, question: str, answer: str, reference: str) -> float:
        """The reward of an answer."""
        return RIGHT if re.fullmatch(self.pattern, answer.strip()) else WRONG


Reward = Annotated[ExactMatch | Arithmetic | Format, Field(discriminator="kind")]
"""All rewards, selected by `kind`."""
