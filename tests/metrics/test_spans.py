"""Spans of BIO tags and their scores."""

from __future__ import annotations

import pytest

from seq2see.metrics.classification import SpanScore, are_bio_tags, extract_spans


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


def test_a_span_is_correct_only_with_its_boundaries_and_type():
    references = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"]]
    predictions = [["B-PER", "O", "O", "B-LOC"], ["O", "B-LOC"]]
    score = SpanScore.of(references, predictions)
    assert (score.correct, score.predicted, score.actual) == (1, 3, 3)
    assert score.scores.f1 == pytest.approx(1 / 3)
    assert SpanScore.of([["O"]], [["O"]]).scores.f1 == 0


def test_predicted_and_actual_spans_are_counted_separately():
    score = SpanScore.of([["B-PER", "O", "O"]], [["B-PER", "B-LOC", "B-LOC"]])
    assert (score.correct, score.predicted, score.actual) == (1, 3, 1)
    assert (score.scores.precision, score.scores.recall, score.scores.support) == (pytest.approx(1 / 3), 1, 1)


def test_part_of_speech_tags_are_not_bio_tags():
    assert are_bio_tags(["B-PER", "I-PER", "O"])
    assert not are_bio_tags(["NOUN", "O"])
    assert not are_bio_tags(["O"])
    assert not are_bio_tags(["B-PER", "I-PER"])
    assert not are_bio_tags(["O", "I-PER"])
    assert not are_bio_tags(["O", "B-PER", "NOUN"])
