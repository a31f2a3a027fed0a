"""Spans: found only whole."""

from __future__ import annotations

import pytest

from seq2see.metrics.spans import SpanScore, are_bio_tags, extract_spans


@pytest.mark.parametrize(
    "tags, spans",
    [
        ("O O", set()),
        ("B-PER I-PER O", {(0, 2, "PER")}),
        ("B-PER B-PER", {(0, 1, "PER"), (1, 2, "PER")}),
        ("I-PER I-LOC O", {(0, 1, "PER"), (1, 2, "LOC")}),
        ("O B-LOC I-LOC I-LOC", {(1, 4, "LOC")}),
    ],
)
def test_spans_begin_and_end(tags, spans):
    assert extract_spans(tags.split()) == spans


def test_a_span_counts_only_if_it_is_whole_and_of_its_kind():
    truth = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"]]
    answer = [["B-PER", "O", "O", "B-LOC"], ["O", "B-LOC"]]
    found = SpanScore.of(truth, answer)
    assert (found.correct, found.predicted, found.actual) == (1, 3, 3)
    assert found.scores.f1 == pytest.approx(1 / 3)
    assert SpanScore.of([["O"]], [["O"]]).scores.f1 == 0


def test_spans_that_were_answered_and_spans_that_are_there_are_told_apart():
    found = SpanScore.of([["B-PER", "O", "O"]], [["B-PER", "B-LOC", "B-LOC"]])
    assert (found.correct, found.predicted, found.actual) == (1, 3, 1)
    assert (found.scores.precision, found.scores.recall, found.scores.count) == (pytest.approx(1 / 3), 1, 1)


def test_parts_of_speech_are_no_spans():
    assert are_bio_tags(["B-PER", "I-PER", "O"])
    assert not are_bio_tags(["NOUN", "O"])
    assert not are_bio_tags(["O"])
    assert not are_bio_tags(["B-PER", "I-PER"])
    assert not are_bio_tags(["O", "I-PER"])
    assert not are_bio_tags(["O", "B-PER", "NOUN"])
