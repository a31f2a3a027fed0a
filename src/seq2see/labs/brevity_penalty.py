"""C34: are the two forms of the brevity penalty equal?

The notes write it as exp(min(0, 1 − r / c)) and, further down, by cases: 1 if c > r, else exp(1 − r / c). The length of
the reference is r and that of the prediction is c. Each case is a random reference length against 400 predictions.
"""

from __future__ import annotations

import math

from seq2see.core.seeds import generator
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import AtMost, Verdict
from seq2see.metrics.bleu import brevity_penalty


def penalty_by_cases(reference: int, prediction: int) -> float:
    """The piecewise form of the notes."""
    return 1.0 if prediction > reference else math.exp(1 - reference / prediction)


def measure(seed: int, max_length: int) -> Measurement:
    """The largest difference of both forms for one reference length."""
    reference = int(generator(seed, "brevity").integers(1, max_length + 1))
    predictions = range(1, max_length + 1)
    pairs = [(brevity_penalty(reference, each), penalty_by_cases(reference, each)) for each in predictions]
    difference = max(abs(first - second) for first, second in pairs)
    return Measurement({"difference": difference}, {"min": (predictions, [first for first, _ in pairs])})


LABS = {
    "C34": Experiment(
        claim="C34",
        prediction=(
            "Both are equal: min(0, 1 − r / c) is 0 exactly if c ≥ r, and at c = r both forms are 1.",
            "两式相等：当且仅当 c ≥ r 时 min(0, 1 − r / c) 为 0，而在 c = r 处两式都是 1。",
        ),
        expected=Verdict.HOLDS,
        decisive=(AtMost("difference", ("largest difference of the two forms", "两式的最大差"), 1e-12),),
        measure=measure,
        seeds=200,
        size={"max_length": 400},
        tiny={"max_length": 9},
        would_change=("a pair of lengths for which the forms differ", "找到一对长度，使两式的值不同"),
        axes=Axes(("length of the prediction", "译文长度"), ("brevity penalty", "简短惩罚")),
    )
}
