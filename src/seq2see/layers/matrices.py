"""Products with a learned matrix, and whether something is added behind them."""

from __future__ import annotations

from torch import nn


class Product(nn.Linear):
    """x W, and nothing is added; `nn.Linear` is x W + b.

    A bias is a few numbers among thousands. Llama (Touvron et al. 2023) has none, as T5 and PaLM before it: norms and
    what the other layers add do its work.
    """

    def __init__(self, into: int, out: int):
        super().__init__(into, out, bias=False)


MATRICES: dict[str, type[nn.Linear]] = {"biased": nn.Linear, "plain": Product}
