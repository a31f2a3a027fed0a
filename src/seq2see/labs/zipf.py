"""C10: does text follow Zipf's law?

The text is Python's language reference, an English text that is installed with Python. Each case is a random half of
its chapters. On logarithmic axes, frequency over rank is a straight line with a slope of −1 if the law holds. The fit
uses evenly spaced points on the logarithmic axis of ranks.
"""

from __future__ import annotations

import pydoc_data.topics
import re
from collections import Counter
from itertools import pairwise

import numpy as np

from seq2see.core.seeds import generator
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import AtLeast, Equivalence, Verdict
from seq2see.metrics.zipf import zipf_slope

POINTS = 50
SHOWN = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500)


def frequencies(words: list[str]) -> list[int]:
    """The counts of all different words, the most frequent first."""
    return sorted(Counter(words).values(), reverse=True)


def fit_quality(counts: list[int]) -> float:
    """The squared correlation of log frequency and log rank at evenly spaced points."""
    ranks = np.unique(np.geomspace(1, len(counts), POINTS).round().astype(int))
    return float(np.corrcoef(np.log(ranks), np.log(np.array(counts)[ranks - 1]))[0, 1] ** 2)


def measure(seed: int, topics: int) -> Measurement:
    """The slopes of words and of pairs of words."""
    texts = [text for _, text in sorted(pydoc_data.topics.topics.items())][:topics]
    chosen = generator(seed, "topics").permutation(len(texts))[: max(1, len(texts) // 2)]
    words = [word for index in sorted(chosen) for word in re.findall(r"[a-z]+", texts[index].lower())]
    counts = frequencies(words)
    pairs = frequencies([f"{first} {second}" for first, second in pairwise(words)])
    return Measurement(
        {
            "words": zipf_slope(counts, [1] * len(counts)) + 1,
            "fit": fit_quality(counts),
            "pairs": zipf_slope(pairs, [1] * len(pairs)) + 1,
        },
        {"words": (SHOWN, [float(counts[min(rank, len(counts)) - 1]) for rank in SHOWN])},
    )


LABS = {
    "C10": Experiment(
        claim="C10",
        prediction=(
            "Words lie near a straight line with a slope near −1. Pairs of words are flatter.",
            "单词接近一条斜率约为 −1 的直线；二元组更平。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            Equivalence("words", ("words: slope plus 1", "单词：斜率加 1"), 0.25),
            AtLeast("fit", ("words: squared correlation of the line", "单词：直线的相关系数平方"), 0.9),
        ),
        additional=(Equivalence("pairs", ("pairs of words: slope plus 1", "二元组：斜率加 1"), 0.25),),
        measure=measure,
        seeds=20,
        size={"topics": 80},
        tiny={"topics": 6},
        would_change=("characters, or longer n-grams, which are flatter", "换成字符，或更长的 n 元组（更平）"),
        axes=Axes(("rank", "名次"), ("frequency", "出现次数"), log_x=True, log_y=True),
    )
}
