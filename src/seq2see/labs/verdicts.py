"""From measured values to a verdict: intervals, the smallest effect that matters, and three possible answers.

A claim is about one or more quantities. Each has a threshold that is fixed before the run, the smallest effect that
matters. If the whole interval is on the side that the claim predicts, the claim holds; if it is wholly on the other
side, it does not hold; if the threshold is inside the interval, the verdict is open at this size. So a small
experiment does not refute a claim merely because its interval contains zero.

A claim about exact arithmetic has no interval. It is checked in many cases, and the worst case is compared with a
bound: one counterexample refutes the claim.

If a claim has k quantities, each interval has confidence 1 − 0.05 / k (Bonferroni), so that all intervals together
contain the true values with a probability of at least 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

Text = tuple[str, str]
"""A text in English and in Chinese."""


class Verdict(StrEnum):
    """The three possible answers."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    UNDECIDED = "undecided at this size"


CHINESE_VERDICTS = {
    Verdict.HOLDS: "成立",
    Verdict.DOES_NOT_HOLD: "不成立",
    Verdict.UNDECIDED: "这个规模下无法判断",
}


@dataclass(frozen=True)
class Estimate:
    """An estimate and the interval around it; a worst case has no width."""

    estimate: float
    low: float
    high: float


def mean_interval(values: Sequence[float], confidence: float) -> Estimate:
    """The mean of independent values with Student's interval: mean ± t · s / √n (Student 1908).

    Paired seeds become independent values by taking the difference of each pair first.
    """
    count = len(values)
    if not all(map(math.isfinite, values)):
        return Estimate(math.nan, -math.inf, math.inf)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, -math.inf, math.inf)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    margin = student_quantile((1 + confidence) / 2, count - 1) * math.sqrt(variance / count)
    return Estimate(mean, mean - margin, mean + margin)


def share_interval(successes: float, trials: int, confidence: float) -> Estimate:
    """The share of successes with Wilson's interval, which has a width even if all trials succeed (Wilson 1927)."""
    share, z = successes / trials, normal_quantile((1 + confidence) / 2)
    center = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    margin = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return Estimate(share, max(0.0, center - margin), min(1.0, center + margin))


def student_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t distribution for a probability above one half.

    With t = √degrees · tan θ, its distribution function is an integral of cosᵈ⁻¹ θ, which Simpson's rule computes to
    ten digits; bisection inverts it.

    >>> round(student_quantile(0.975, 9), 4), round(student_quantile(0.975, 1), 3)
    (2.2622, 12.706)
    """
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)

    def above_median(angle: float, parts: int = 200) -> float:
        width = angle / parts
        heights = [math.cos(width * index) ** (degrees - 1) for index in range(parts + 1)]
        odd, even = math.fsum(heights[1:-1:2]), math.fsum(heights[2:-1:2])
        return scale * width / 3 * (heights[0] + 4 * odd + 2 * even + heights[-1])

    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if above_median(middle) < probability - 0.5 else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def normal_quantile(probability: float) -> float:
    """The quantile of the standard normal distribution for a probability above one half, by bisection.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 * (1 + math.erf(middle / math.sqrt(2))) < probability else (low, middle)
    return low


class Quantity(Protocol):
    """What a claim is about: a number for each seed or case, and a threshold that is fixed before the run."""

    @property
    def name(self) -> str:
        """The key of the values in a measurement."""

    @property
    def title(self) -> Text:
        """What is measured, in both languages."""

    @property
    def threshold(self) -> float:
        """The smallest effect that matters, or the bound of an exact claim."""

    @property
    def rule(self) -> Text:
        """What the claim predicts of the quantity, in both languages."""

    def interval(self, values: Sequence[float], confidence: float) -> Estimate:
        """The estimate and its interval."""

    def verdict(self, interval: Estimate) -> Verdict:
        """The verdict on this quantity alone."""


def _compare(low: float, high: float, threshold: float) -> Verdict:
    """A claim that predicts a value above the threshold."""
    if low > threshold:
        return Verdict.HOLDS
    return Verdict.DOES_NOT_HOLD if high < threshold else Verdict.UNDECIDED


@dataclass(frozen=True)
class Effect:
    """A mean over seeds that the claim predicts to be above the smallest effect that matters."""

    name: str
    title: Text
    threshold: float

    @property
    def rule(self) -> Text:
        """The mean is above the threshold."""
        return f"> {self.threshold:g}", f"> {self.threshold:g}"

    def interval(self, values: Sequence[float], confidence: float) -> Estimate:
        """The mean with Student's interval."""
        return mean_interval(values, confidence)

    def verdict(self, interval: Estimate) -> Verdict:
        """Compare the whole interval with the threshold."""
        return _compare(interval.low, interval.high, self.threshold)


@dataclass(frozen=True)
class Equivalence(Effect):
    """A mean over seeds that the claim predicts to be nearly zero: between −threshold and +threshold."""

    @property
    def rule(self) -> Text:
        """The absolute mean is below the threshold."""
        return f"within ± {self.threshold:g}", f"在 ± {self.threshold:g} 以内"

    def verdict(self, interval: Estimate) -> Verdict:
        """The interval is inside the range, outside of it, or across its border."""
        if -self.threshold < interval.low and interval.high < self.threshold:
            return Verdict.HOLDS
        outside = interval.low > self.threshold or interval.high < -self.threshold
        return Verdict.DOES_NOT_HOLD if outside else Verdict.UNDECIDED


@dataclass(frozen=True)
class Share(Effect):
    """The share of seeds with an event (values 0 and 1) that the claim predicts to be above the threshold."""

    def interval(self, values: Sequence[float], confidence: float) -> Estimate:
        """The share with Wilson's interval."""
        return share_interval(sum(values), len(values), confidence)


@dataclass(frozen=True)
class AtMost:
    """An exact claim: in every case, the value is at most the bound."""

    name: str
    title: Text
    threshold: float

    @property
    def rule(self) -> Text:
        """The largest value is at most the bound."""
        return f"always ≤ {self.threshold:g}", f"总是 ≤ {self.threshold:g}"

    def interval(self, values: Sequence[float], confidence: float) -> Estimate:
        """The largest value of all cases."""
        worst = max(values, key=lambda value: math.inf if math.isnan(value) else value)
        return Estimate(worst, worst, worst)

    def verdict(self, interval: Estimate) -> Verdict:
        """One larger value, or one that is not a number, refutes the claim."""
        return Verdict.HOLDS if interval.estimate <= self.threshold else Verdict.DOES_NOT_HOLD


@dataclass(frozen=True)
class AtLeast(AtMost):
    """An exact claim: in every case, the value is at least the bound."""

    @property
    def rule(self) -> Text:
        """The smallest value is at least the bound."""
        return f"always ≥ {self.threshold:g}", f"总是 ≥ {self.threshold:g}"

    def interval(self, values: Sequence[float], confidence: float) -> Estimate:
        """The smallest value of all cases."""
        worst = min(values, key=lambda value: -math.inf if math.isnan(value) else value)
        return Estimate(worst, worst, worst)

    def verdict(self, interval: Estimate) -> Verdict:
        """One smaller value refutes the claim."""
        return Verdict.HOLDS if interval.estimate >= self.threshold else Verdict.DOES_NOT_HOLD


def confidence_for(quantities: int) -> float:
    """The confidence of each of several intervals that together have a confidence of 95 %."""
    return 1 - 0.05 / max(1, quantities)


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a claim with several quantities: all must be as it predicts, and one that is not refutes it."""
    if Verdict.DOES_NOT_HOLD in verdicts:
        return Verdict.DOES_NOT_HOLD
    return Verdict.UNDECIDED if Verdict.UNDECIDED in verdicts else Verdict.HOLDS
