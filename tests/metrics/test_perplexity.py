"""Perplexity keeps its unit, and only equal units are compared."""

from __future__ import annotations

import math

import pytest

from seq2see.core.errors import UserError
from seq2see.metrics.perplexity import Perplexity


def test_a_uniform_guess_among_seven_has_perplexity_seven():
    assert Perplexity(loss=5 * math.log(7), count=5, unit="token").value == pytest.approx(7)


def test_it_is_the_geometric_mean_of_the_inverse_probabilities():
    # Probabilities 1/2 and 1/8: the geometric mean of 2 and 8 is 4 (the harmonic one would be 3.2).
    assert Perplexity(math.log(2) + math.log(8), 2, "word").value == pytest.approx(4)


def test_bits_per_character_do_not_depend_on_the_tokenization():
    loss = 12 * math.log(2)
    by_token = Perplexity(loss, 3, "token", characters=6)
    by_character = Perplexity(loss, 6, "character")
    assert by_token.bits_per_character == pytest.approx(2)
    assert by_character.bits_per_character == pytest.approx(2)
    assert by_token.value == pytest.approx(16)
    assert by_character.value == pytest.approx(4)


def test_end_tokens_are_predicted_but_are_not_characters():
    assert Perplexity(12 * math.log(2), 7, "character", characters=6).bits_per_character == pytest.approx(2)


def test_different_units_are_not_compared_and_the_hint_names_bits_per_character():
    with pytest.raises(UserError, match="bits per character"):
        assert Perplexity(9.0, 3, "token") < Perplexity(9.0, 6, "character")


def test_tokens_of_two_tokenizers_are_not_compared():
    with pytest.raises(UserError, match="different units"):
        min(
            Perplexity(9.0, 3, "token", tokenizer="bpe 8000"),
            Perplexity(9.0, 4, "token", tokenizer="bpe 500"),
        )


def test_equal_units_are_sorted_best_first():
    good, bad = Perplexity(3.0, 3, "word"), Perplexity(6.0, 3, "word")
    assert sorted([bad, good]) == [good, bad]


def test_the_string_contains_the_unit():
    assert str(Perplexity(4 * math.log(5), 4, "word")) == "5.00 per word"
    text = str(Perplexity(8 * math.log(2), 4, "token", characters=16, tokenizer="bpe 500"))
    assert text == "4.00 per token of bpe 500 (0.500 bits per character)"


def test_missing_counts_are_errors():
    with pytest.raises(UserError, match="not set"):
        _ = Perplexity(1.0, 3, "token").bits_per_character
    with pytest.raises(UserError, match="at least one word"):
        Perplexity(1.0, 0, "word")


def test_a_very_large_perplexity_is_infinite():
    assert Perplexity(1e6, 1, "token").value == math.inf
