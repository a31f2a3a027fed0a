"""Rewards: pure functions of question, answer and reference."""

from __future__ import annotations

import pytest

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.training.rewards import RIGHT, WRONG, Arithmetic, ExactMatch, Format, arithmetic_value


@pytest.mark.parametrize(
    ("answer", "reward"), [("d e b", RIGHT), (" d  e b ", RIGHT), ("d e", WRONG), ("d e b b", WRONG), ("", WRONG)]
)
def test_exact_match_compares_words(answer, reward):
    assert ExactMatch()("reverse b e d", answer, "d e b") == reward


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("add 2 7 and 5 8", 85),
        ("2 7 + 5 8", 85),
        ("What is 27 plus 58?", 85),
        ("what is 5 8 minus 2 7?", 31),
        ("from 58 subtract 2 7", 31),
        ("3 times 4", 12),
        ("sort 2 7", None),
    ],
)
def test_a_calculation_is_read_from_the_question(question, value):
    assert arithmetic_value(question) == value


@pytest.mark.parametrize(
    ("answer", "reward"),
    [("8 5", RIGHT), ("85", RIGHT), ("27 + 58 is 85.", RIGHT), ("85 or 86", WRONG), ("- 8 5", WRONG), ("", WRONG)],
)
def test_the_last_number_of_an_answer_is_checked(answer, reward):
    assert Arithmetic()("add 2 7 and 5 8", answer, "") == reward


def test_a_negative_result_is_right_too():
    assert Arithmetic()("what is 3 minus 5?", "-2", "") == RIGHT
    assert Arithmetic()("what is 3 minus 5?", "2", "") == WRONG


def test_a_question_without_a_calculation_is_an_error():
    with pytest.raises(UserError, match="no calculation in the question 'hello'") as error:
        Arithmetic()("hello", "85", "85")
    assert "objective.reward.kind=exact" in str(error.value.hint)


def test_a_format_covers_the_whole_answer():
    numbers = Format(pattern=r"\d+( \d+)*")
    assert numbers("", "8 5", "") == RIGHT
    assert numbers("", "8 5 x", "") == WRONG


def test_a_pattern_that_is_no_regular_expression_is_an_error():
    with pytest.raises(UserError, match="is not a regular expression"):
        read_tree(Format, {"pattern": "("})
