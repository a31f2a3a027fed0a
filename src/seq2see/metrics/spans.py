"""Spans of words, such as names, from tags that say where each begins: B-PER I-PER O.

A span counts as found only if its beginning, its end and its kind are right (Tjong Kim Sang & De Meulder 2003,
section 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.metrics.classification import PrecisionRecallF1

Span = tuple[int, int, str]
"""The first word, the word behind the last, the kind."""


def are_bio_tags(tags: Sequence[str]) -> bool:
    """Whether these are tags of spans: O, and B- and I- with a kind behind them."""
    return (
        "O" in tags and any(tag.startswith("B-") for tag in tags) and all(tag[:2] in ("O", "B-", "I-") for tag in tags)
    )


def extract_spans(tags: Sequence[str]) -> set[Span]:
    """The spans of a sentence; an I- that continues nothing of its kind begins a span.

    >>> sorted(spans_of(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"]))
    [(0, 2, 'PER'), (3, 4, 'LOC'), (4, 5, 'LOC')]
    """
    found, start, kind = set(), 0, ""
    for place, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            found.add((start, place, kind))
            kind = ""
        if not kind and tag != "O":
            start, kind = place, tag[2:]
    return found


@dataclass(frozen=True)
class SpanScore:
    """Spans found in all sentences together."""

    correct: int
    predicted: int
    actual: int

    @staticmethod
    def of(references: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> SpanScore:
        """Compare the tags of sentences with the true ones."""
        pairs = [
            (extract_spans(truth), extract_spans(answer)) for truth, answer in zip(references, answers, strict=True)
        ]
        counts = ((len(one & other), len(other), len(one)) for one, other in pairs)
        return SpanScore(*map(sum, zip(*counts, strict=True)))

    @property
    def scores(self) -> PrecisionRecallF1:
        """Precision, recall and F1."""
        precision = self.correct / self.predicted if self.predicted else 0.0
        return PrecisionRecallF1(precision, self.correct / self.actual if self.actual else 0.0, self.actual)
