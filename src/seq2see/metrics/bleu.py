"""BLEU and chrF, computed by sacrebleu and reported with their signatures.

BLEU scores cannot be compared without their signatures (case, tokenization, smoothing, version; Post 2018), so a
`Score` always contains one. `d2l_bleu.py` contains the same computation in readable form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from sacrebleu.metrics import BLEU, CHRF

from seq2see.metrics.checks import check_same_length

BleuTokenizer = Literal["13a", "zh", "char", "intl", "none"]
"""The tokenizers of sacrebleu: `13a` for languages with spaces, `zh` for Chinese targets."""


@dataclass(frozen=True)
class Score:
    """The name of a metric, its value between 0 and 100, and its signature, which defines the computation."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def corpus_bleu(
    outputs: Sequence[str],
    references: Sequence[str],
    tokenize: BleuTokenizer = "13a",
    all_references: Sequence[Sequence[str]] = (),
) -> Score:
    """BLEU of a test set (Papineni et al. 2002), cased, with one reference for each output or with `all_references`.

    >>> round(corpus_bleu(["The cat sat on the mat."], ["The cat sat on the mat."]).value, 9)
    100.0
    """
    check_same_length(outputs, references)
    metric = BLEU(tokenize=tokenize)
    if not all_references:
        return _score("BLEU", metric, outputs, references)
    check_same_length(outputs, all_references)
    sets = [list(each) for each in zip_longest(*all_references)]  # sacrebleu ignores missing references
    return Score("BLEU", float(metric.corpus_score(list(outputs), sets).score), str(metric.get_signature()))


def corpus_chrf(outputs: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2 of a test set (Popović 2015): it counts n-grams of characters, so it needs no tokenizer."""
    check_same_length(outputs, references)
    return _score("chrF2", CHRF(), outputs, references)


def sentence_chrf(outputs: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF2 of each output, for sorting a table: BLEU needs 4-grams, which a short output does not contain."""
    check_same_length(outputs, references)
    metric = CHRF()
    pairs = zip(outputs, references, strict=True)
    return [metric.sentence_score(output, [reference]).score for output, reference in pairs]


def _score(name: str, metric: BLEU | CHRF, outputs: Sequence[str], references: Sequence[str]) -> Score:
    # sacrebleu expects a list of reference sets; here each output has exactly one reference.
    value = metric.corpus_score(list(outputs), [list(references)]).score
    return Score(name, float(value), str(metric.get_signature()))
