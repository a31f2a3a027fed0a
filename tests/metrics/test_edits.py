"""Edit errors by hand: the nearest reference is used, and stress counts only in the scores with stress."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.errors import UserError
from seq2see.metrics.speech_errors import EditErrorCounts, count_edit_errors, pronunciation_errors, without_stress

SYMBOLS = st.lists(st.sampled_from(["AA1", "B", "CH"]), max_size=7)


@pytest.mark.parametrize(
    "output, reference, edits",
    [
        ("K AE T", "K AE T", 0),
        ("K AE", "K AE T", 1),  # deletion
        ("K AE T S", "K AE T", 1),  # insertion
        ("K AH T", "K AE T", 1),  # substitution
        ("AE K T", "K AE T", 2),  # a transposition is two edits, not one
        ("", "K AE T", 3),
        ("HH AH", "H HH AH", 1),  # whole symbols, not letters
    ],
)
def test_edits_are_counted_in_whole_symbols(output, reference, edits):
    counted = count_edit_errors([output.split()], [[reference.split()]])
    assert counted == EditErrorCounts(
        wrong_sequences=int(edits > 0), rows=1, edits=edits, symbols=len(reference.split())
    )


def test_the_nearest_reference_counts_with_its_length():
    references = [["T", "AH", "M", "EY", "T", "OW"], ["T", "M", "AA"]]
    assert count_edit_errors([["T", "M", "EY"]], [references]) == EditErrorCounts(
        wrong_sequences=1, rows=1, edits=1, symbols=3
    )
    assert count_edit_errors([references[1]], [references]) == EditErrorCounts(
        wrong_sequences=0, rows=1, edits=0, symbols=3
    )


def test_among_equally_near_references_the_first_counts():
    assert count_edit_errors([["A", "B"]], [[["A"], ["A", "B", "C"]]]).symbols == 1
    assert count_edit_errors([["A", "B"]], [[["A", "B", "C"], ["A"]]]).symbols == 3


def test_rates_are_sums_over_sums_and_not_means_of_rates():
    # One edit in 2 symbols and none in 8: 1 of 10, not the mean of 50 % and 0 %.
    errors = count_edit_errors([["X", "B"], list("abcdefgh")], [[["A", "B"]], [list("abcdefgh")]])
    assert (errors.sequence_error_rate, errors.symbol_error_rate) == (50.0, 10.0)
    assert errors + EditErrorCounts(2, 2, 9, 10) == EditErrorCounts(3, 4, 10, 20)
    assert str(errors) == "50.0 % of 2 wrong, 10.0 % of their 10 symbols"


def test_a_rate_may_exceed_one_hundred_percent():
    assert count_edit_errors([list("abc")], [[["x"]]]).symbol_error_rate == 300.0


@given(SYMBOLS, st.lists(SYMBOLS, min_size=1, max_size=4))
def test_an_output_is_wrong_exactly_if_it_is_none_of_the_references(output, all_references):
    errors = count_edit_errors([output], [all_references])
    assert errors.wrong_sequences == (output not in all_references)
    max_length = max(len(output), *map(len, all_references))
    assert errors.wrong_sequences <= errors.edits <= max_length


def test_without_stress_removes_only_digits_at_the_end():
    assert without_stress(["AH0", "EY1", "OW2", "NG", "<unk>", "3"]) == ["AH", "EY", "OW", "NG", "<unk>", "3"]


def test_a_word_with_the_wrong_stress_is_right_without_stress_only():
    outputs = ["P EH0 R M IH1 T", "K AE1 T", "D AO1"]
    all_references = [["P ER0 M IH1 T", "P EH1 R M IH2 T"], ["K AE1 T"], ["D AO1 G"]]
    # Without stress: 5 + 3 + 3 phonemes in the nearest references (6, 3, 3 with the second reference of "permit").
    assert pronunciation_errors(outputs, all_references) == {
        "word_error_rate": pytest.approx(100 / 3),
        "phoneme_error_rate": pytest.approx(100 * 1 / 12),  # nearest to P EH R M IH T: 0 edits; D AO lacks a G
        "word_error_rate_with_stress": pytest.approx(200 / 3),
        "phoneme_error_rate_with_stress": pytest.approx(100 * 3 / 11),  # both are 2 edits away: the first, 5 long
    }


def test_the_nearest_references_with_and_without_stress_may_differ():
    scores = pronunciation_errors(["A1 B C"], [["X1 B C", "A0 B0 C0 D"]])
    # With stress: X1 is 1 edit away. Without: X is 1 edit away of 3, and so is A B C D: the first counts.
    assert scores["phoneme_error_rate_with_stress"] == scores["phoneme_error_rate"] == pytest.approx(100 / 3)


def test_invalid_inputs_are_errors():
    with pytest.raises(UserError, match="2 outputs but 1"):
        count_edit_errors([["a"], ["b"]], [[["a"]]])
    with pytest.raises(UserError, match="no outputs"):
        count_edit_errors([], [])
    with pytest.raises(UserError, match="no reference"):
        count_edit_errors([["a"]], [[]])
    with pytest.raises(UserError, match="at least one symbol"):
        _ = count_edit_errors([["a"]], [[[]]]).symbol_error_rate
