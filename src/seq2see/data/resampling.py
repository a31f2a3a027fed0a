"""Resampling: a recording at another sampling rate.

A signal sampled at a rate f is determined by its samples if it has no frequency above f / 2: it is the sum of one
sinc for each sample (Shannon 1949). The new samples are values of this sum. If the new rate is lower, the sinc is
wider, so that frequencies above half of the new rate are removed; otherwise they would return as lower ones
(aliasing). The sinc, which never ends, is cut off smoothly after `ZEROS` zeros by a Hann window.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

ZEROS = 16
"""The number of zeros of the sinc on each side."""
ROLLOFF = 0.945
"""The cutoff frequency as a share of half the lower rate: the rest is for the transition band of the window."""
MAX_DENOMINATOR = 1000
"""The largest denominator of the ratio of two rates; other ratios are approximated, with an error below 0.1 %."""


def resample(samples: NDArray[np.float32], ratio: Fraction) -> NDArray[np.float32]:
    """The recording with `ratio` times as many samples: sample n of the result has the time n / ratio."""
    ratio = ratio.limit_denominator(MAX_DENOMINATOR)
    if ratio == 1:
        return samples
    new, old = ratio.numerator, ratio.denominator
    kernels, reach = sinc_kernels(new, old)
    count = ceil(len(samples) * new / old)
    blocks = ceil(count / new)
    padded = functional.pad(torch.from_numpy(samples), (reach, blocks * old + reach - len(samples)))
    # `old` samples become `new` samples, in every block by the same weights: a convolution with stride `old`.
    resampled = functional.conv1d(padded[None, None], kernels, stride=old)
    return resampled[0].T.reshape(-1)[:count].numpy()


@lru_cache(maxsize=64)
def sinc_kernels(new: int, old: int) -> tuple[torch.Tensor, int]:
    """The weights [new, 1, old + 2 reach] of the samples around a block, for each new sample in it; and the reach."""
    cutoff = ROLLOFF * min(1.0, new / old)
    reach = ceil(ZEROS / cutoff)
    distances = np.arange(-reach, old + reach)[None] - np.arange(new)[:, None] * (old / new)
    window = np.where(np.abs(distances) <= reach, np.cos(np.pi / 2 * distances / reach) ** 2, 0)
    kernels = cutoff * np.sinc(cutoff * distances) * window
    return torch.from_numpy(kernels).float()[:, None], reach
