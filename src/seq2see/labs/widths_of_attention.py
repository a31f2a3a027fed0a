"""C40: which attention can process queries and keys of different widths?

Each case draws two different widths. A scoring function works if it computes a score for every pair of query and key,
and does not if it refuses the widths. Bilinear attention is a dot product with a matrix in between.
"""

from __future__ import annotations

import torch

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.core.seeds import generator
from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.verdicts import AtLeast, AtMost, Verdict
from seq2see.layers.recurrent_attention import AdditiveAttention, BilinearAttention, DotAttention, MemoryAttention


@torch.no_grad()
def works(attention: type[MemoryAttention], query_width: int, key_width: int) -> float:
    """1 if the attention computes a finite score for each of 3 queries and 5 keys, else 0."""
    memory = Sequences(torch.randn(2, 5, key_width), torch.tensor([5, 5]))
    try:
        layer = attention(query_width, key_width)
    except UserError:
        return 0.0
    scores = layer.score(torch.randn(2, 3, query_width), layer.project_keys(memory))
    return float(scores.shape == (2, 3, 5) and bool(scores.isfinite().all()))


def measure(seed: int, max_width: int) -> Measurement:
    """Which scoring functions work for two different widths."""
    query_width, key_width = generator(seed, "widths").choice(max_width, 2, replace=False) + 1
    kinds = {"additive": AdditiveAttention, "dot": DotAttention, "bilinear": BilinearAttention}
    return Measurement({name: works(kind, int(query_width), int(key_width)) for name, kind in kinds.items()})


LABS = {
    "C40": Experiment(
        claim="C40",
        prediction=(
            "Additive attention projects both to one width. A dot product of different widths is not defined; with a "
            "matrix in between, it is.",
            "加性注意力先把两者投影到同一宽度。宽度不同的点积没有定义；中间加一个矩阵就有了。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            AtLeast("additive", ("additive: share of cases that work", "加性：可行的比例"), 1.0),
            AtMost("dot", ("dot product: share of cases that work", "点积：可行的比例"), 0.0),
        ),
        additional=(AtLeast("bilinear", ("bilinear: share of cases that work", "双线性：可行的比例"), 1.0),),
        measure=measure,
        seeds=50,
        size={"max_width": 40},
        tiny={"max_width": 3},
        would_change=(
            "a projection before the dot product, which every Transformer has",
            "在点积之前加投影；每个 Transformer 都有",
        ),
    )
}
