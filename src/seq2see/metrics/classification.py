"""Classification metrics: the confusion matrix, exact matches, and precision, recall and F1 of each label or of spans.

Precision is the share of the predictions of a label that are correct, recall is the share of its examples that are
found, and F1 is their harmonic mean (van Rijsbergen 1979, chapter 7). Accuracy does not show that a rare label is never
found; macro F1, the unweighted mean over the labels, does. `check_same_length` serves all metrics that compare outputs
with references.

Spans of words, such as named entities, are marked by BIO tags (B-PER I-PER O). A span is correct only if its start, its
end and its type are correct (Tjong Kim Sang & De Meulder 2003, section 2.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.core.errors import UserError
from seq2see.metrics.perplexity import Accuracy


def check_same_length(outputs: Sequence[object], references: Sequence[object]) -> None:
    """Raise an error if there are no outputs, or if the numbers of outputs and references differ."""
    if len(outputs) != len(references):
        raise UserError(
            f"There are {len(outputs)} outputs but {len(references)} references.",
            hint="Each output needs one reference, in the same order.",
        )
    if not outputs:
        raise UserError("There are no outputs to score.")


def sentence_accuracy(outputs: Sequence[object], references: Sequence[object]) -> Accuracy:
    """The share of outputs that equal their reference exactly; both are strings or lists of tokens."""
    check_same_length(outputs, references)
    is_equal = [output == reference for output, reference in zip(outputs, references, strict=True)]
    return Accuracy(sum(is_equal), len(is_equal))


@dataclass(frozen=True)
class PrecisionRecallF1:
    """The metrics of one label."""

    precision: float
    """0 if the label is never predicted."""
    recall: float
    """0 if there is no example of the label."""
    support: int
    """The number of examples of the label."""

    @property
    def f1(self) -> float:
        """2 · precision · recall / (precision + recall); 0 if both are."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often each label (row) is predicted as each label (column).

    >>> ConfusionMatrix.of(["a", "b"], references=["a", "a", "b"], predictions=["a", "b", "b"]).counts
    ((1, 1), (0, 1))
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(labels: Sequence[str], references: Sequence[str], predictions: Sequence[str]) -> ConfusionMatrix:
        """Count the pairs of reference and prediction."""
        check_same_length(predictions, references)
        pairs = Counter(zip(references, predictions, strict=True))
        if unknown := {label for pair in pairs for label in pair} - set(labels):
            raise UserError(f"{min(unknown)!r} is not one of the labels.")
        return ConfusionMatrix(tuple(labels), tuple(tuple(pairs[row, column] for column in labels) for row in labels))

    @property
    def total(self) -> int:
        """The number of examples."""
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float:
        """The share of correct predictions."""
        return sum(row[index] for index, row in enumerate(self.counts)) / self.total

    @property
    def scores(self) -> dict[str, PrecisionRecallF1]:
        """The metrics of each label."""
        predicted = [sum(column) for column in zip(*self.counts, strict=True)]
        scores = {}
        for index, (label, row) in enumerate(zip(self.labels, self.counts, strict=True)):
            correct, support = row[index], sum(row)
            precision = correct / predicted[index] if predicted[index] else 0.0
            scores[label] = PrecisionRecallF1(precision, correct / support if support else 0.0, support)
        return scores

    @property
    def macro_f1(self) -> float:
        """The mean F1 of all labels that occur in the references or in the predictions."""
        scores = [each for each, support, predicted in self._with_counts() if support or predicted]
        return sum(each.f1 for each in scores) / len(scores)

    def _with_counts(self) -> list[tuple[PrecisionRecallF1, int, int]]:
        rows, columns = map(sum, self.counts), map(sum, zip(*self.counts, strict=True))
        return list(zip(self.scores.values(), rows, columns, strict=True))


# --- spans ---


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
