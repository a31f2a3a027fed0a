"""Spans of words, such as named entities, from BIO tags: B-PER I-PER O.

A span is correct only if its start, its end and its type are correct (Tjong Kim Sang & De Meulder 2003, section 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.metrics.classification import PrecisionRecallF1

Span = tuple[int, int, str]
"""(first word, word after the last, type)"""


def are_bio_tags(tags: Sequence[str]) -> bool:
    """Whether all tags are BIO tags: O, or B- and I- followed by a type."""
    return (
        "O" in tags and any(tag.startswith("B-") for tag in tags) and all(tag[:2] in ("O", "B-", "I-") for tag in tags)
    )


def extract_spans(tags: Sequence[str]) -> set[Span]:
    """The spans of a sentence; an I- tag that does not continue a span of its type begins a new one.

    >>> sorted(extract_spans(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"]))
    [(0, 2, 'PER'), (3, 4, 'LOC'), (4, 5, 'LOC')]
    """
    spans, start, kind = set(), 0, ""
    for index, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            spans.add((start, index, kind))
            kind = ""
        if not kind and tag != "O":
            start, kind = index, tag[2:]
    return spans


@dataclass(frozen=True)
class SpanScore:
    """The counts of correct, predicted and actual spans of all sentences."""

    correct: int
    predicted: int
    actual: int

    @staticmethod
    def of(references: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> SpanScore:
        """Compare the predicted tags of sentences with the reference tags."""
        pairs = [
            (extract_spans(reference), extract_spans(prediction))
            for reference, prediction in zip(references, predictions, strict=True)
        ]
        counts = ((len(actual & predicted), len(predicted), len(actual)) for actual, predicted in pairs)
        return SpanScore(*map(sum, zip(*counts, strict=True)))

    @property
    def scores(self) -> PrecisionRecallF1:
        """Precision, recall and F1."""
        precision = self.correct / self.predicted if self.predicted else 0.0
        return PrecisionRecallF1(precision, self.correct / self.actual if self.actual else 0.0, self.actual)
