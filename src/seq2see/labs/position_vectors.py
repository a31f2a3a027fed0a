"""C54: is the sinusoidal encoding of each position different from all others?

The distance of two encodings depends on the distance k of their positions alone: ‖P(t + k) − P(t)‖² = Σ 2 (1 − cos ωᵢ
k) over all frequencies. So the distances to position 0 contain every distance there is. They are computed from the
table of this package, for the widths of the case.
"""

from __future__ import annotations

import torch

from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.verdicts import AtLeast, Verdict
from seq2see.layers.positions import SinusoidalPositions


@torch.no_grad()
def measure(seed: int, positions: int) -> Measurement:
    """The smallest distance between two of the first positions; the case number is the exponent of the width."""
    width = 2 ** (seed + 3)
    vectors = SinusoidalPositions(width)(torch.arange(positions)[None])[0]
    distances = (vectors[1:] - vectors[0]).norm(dim=1)
    two = SinusoidalPositions(2)(torch.arange(positions)[None])[0]
    return Measurement({"distance": distances.min().item(), "width 2": (two[1:] - two[0]).norm(dim=1).min().item()})


LABS = {
    "C54": Experiment(
        claim="C54",
        prediction=(
            "From width 16 on, the slow frequencies do not repeat within 100,000 positions. With width 2 there is one "
            "frequency, and position 710 is almost that of 0: 710 is nearly 113 · 2π.",
            "宽度从 16 起，低频分量在十万个位置之内不会重复。宽度为 2 时只有一个频率，位置 710 几乎与 0 相同：710 "
            "约等于 113 · 2π。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            AtLeast(
                "distance",
                ("smallest distance of two encodings, widths 16 to 1,024", "两个编码的最小距离，宽度 16 到 1024"),
                0.01,
            ),
        ),
        additional=(AtLeast("width 2", ("the same for width 2", "宽度为 2 时的最小距离"), 0.01),),
        measure=measure,
        seeds=7,
        size={"positions": 100_000},
        tiny={"positions": 50},
        would_change=("a width of 2, or far more positions", "宽度为 2，或者位置多得多"),
    )
}
