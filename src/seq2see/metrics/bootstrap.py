"""Paired bootstrap (Koehn 2004): is system B significantly better than A, or is the difference due to chance?

The test set is one sample of all possible sentences. Many new sets of the same size are drawn from it with replacement;
their scores show the variance. The *same* sentences are drawn for both systems, so that only the difference between the
systems remains.

sacrebleu has such a test, but reads its seed from an environment variable and tests the absolute difference. Here the
seed is an argument, and the test is Koehn's: how often is the better system not better on a resampled set?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU

from seq2see.core.seeds import generator
from seq2see.metrics.bleu import BleuTokenizer
from seq2see.metrics.classification import check_same_length

MAX_NGRAM_ORDER = 4
"""The maximum n-gram order of BLEU."""


@dataclass(frozen=True)
class BootstrapScore:
    """The score of one system on the test set, and its mean and 95 % interval over the resampled sets."""

    score: float
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.score:.2f} ({self.mean:.2f} ± {(self.high - self.low) / 2:.2f})"


@dataclass(frozen=True)
class PairedBootstrap:
    """Two systems compared on the same resampled test sets."""

    first: BootstrapScore
    second: BootstrapScore
    difference: BootstrapScore
    """second - first: its interval shows the size of the gain, the p-value only whether there is one."""
    p_value: float
    """The share of resampled sets on which the better system is not better (one-sided)."""
    signature: str

    def __str__(self) -> str:
        return f"{self.first} and {self.second}: difference {self.difference}, p = {self.p_value:.3f}"


def paired_bootstrap(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    *,
    seed: int,
    samples: int = 1000,
    tokenize: BleuTokenizer = "13a",
) -> PairedBootstrap:
    """Compare the BLEU of two systems' outputs for the same references."""
    return paired_bootstrap_of_runs([first], [second], references, seed=seed, samples=samples, tokenize=tokenize)


def paired_bootstrap_of_runs(
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    seed: int,
    samples: int = 1000,
    tokenize: BleuTokenizer = "13a",
) -> PairedBootstrap:
    """Compare the mean BLEU of two systems that were trained several times, for example with three seeds.

    All runs are evaluated on the same resampled sentences. Concatenating the outputs of several runs instead would
    treat them as independent sentences, and the p-value would be too small.
    """
    for outputs in (*first, *second):
        check_same_length(outputs, references)
    metric = BLEU(tokenize=tokenize)
    counts = _resample_counts(len(references), samples, seed)
    return _compare(
        _mean_scores(metric, first, references, counts),
        _mean_scores(metric, second, references, counts),
        f"{metric.get_signature()}|bs:{samples}|seed:{seed}",
    )


def paired_bootstrap_accuracy(
    first: NDArray[np.int64], second: NDArray[np.int64], *, seed: int, samples: int = 1000
) -> PairedBootstrap:
    """Compare the accuracies of two systems in percent.

    Both inputs are (example, 2): the number of correct predictions and of all predictions of each example. In tagging,
    an example is a sentence: its words are drawn together, because they are not independent.
    """
    counts = _resample_counts(len(first), samples, seed)
    scores = [_accuracies(np.vstack([each.sum(axis=0), counts @ each])) for each in (first, second)]
    return _compare(scores[0], scores[1], f"accuracy|bs:{samples}|seed:{seed}")


def _accuracies(sums: NDArray[np.int64]) -> tuple[float, NDArray[np.float64]]:
    accuracies = 100 * sums[:, 0] / np.maximum(sums[:, 1], 1)
    return float(accuracies[0]), accuracies[1:]


def _resample_counts(examples: int, samples: int, seed: int) -> NDArray[np.int64]:
    """How often each example is drawn in each sample (sample, example); all systems use the same draws."""
    return generator(seed, "bootstrap").multinomial(examples, np.full(examples, 1 / examples), size=samples)


def _compare(
    first: tuple[float, NDArray[np.float64]], second: tuple[float, NDArray[np.float64]], signature: str
) -> PairedBootstrap:
    """Compare two systems by their scores on the test set and on each resampled set."""
    observed, gains = second[0] - first[0], second[1] - first[1]
    not_better = (gains <= 0) if observed >= 0 else (gains >= 0)
    # The test set itself counts as one more sample, so p is never 0.
    p_value = (int(not_better.sum()) + 1) / (len(gains) + 1)
    return PairedBootstrap(_summary(*first), _summary(*second), _summary(observed, gains), p_value, signature)


def _mean_scores(
    metric: BLEU, runs: Sequence[Sequence[str]], references: Sequence[str], counts: NDArray[np.int64]
) -> tuple[float, NDArray[np.float64]]:
    """The mean BLEU of several runs on the test set, and on each resampled set."""
    scores = [_scores(metric, sentence_statistics(metric, outputs, references), counts) for outputs in runs]
    observed, resampled = zip(*scores, strict=True)
    return sum(observed) / len(observed), np.mean(resampled, axis=0)


def sentence_statistics(metric: BLEU, outputs: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    """The statistics of each sentence for BLEU: output length, reference length, matches and totals by order."""
    rows = []
    for output, reference in zip(outputs, references, strict=True):
        score = metric.corpus_score([output], [[reference]])
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    return np.array(rows, dtype=np.int64)


def _scores(
    metric: BLEU, statistics: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[float, NDArray[np.float64]]:
    """BLEU of the test set and of each resampled set, from sums of sentence statistics."""
    sums = np.vstack([statistics.sum(axis=0), counts @ statistics]).tolist()
    scores = [
        BLEU.compute_bleu(
            correct=row[2 : 2 + MAX_NGRAM_ORDER],
            total=row[2 + MAX_NGRAM_ORDER :],
            sys_len=row[0],
            ref_len=row[1],
            smooth_method=metric.smooth_method,
        ).score
        for row in sums
    ]
    return scores[0], np.array(scores[1:])


def _summary(observed: float, resampled: NDArray[np.float64]) -> BootstrapScore:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return BootstrapScore(float(observed), float(resampled.mean()), float(low), float(high))
