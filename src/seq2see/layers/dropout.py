"""Dropout: numbers fall out at random while training, so that nothing relies on one of them alone.

Srivastava et al. 2014. What remains is scaled up by 1 / (1 - p), so that sums stay what they were.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

RANDOM_BITS = 16
"""Random bits that decide about one number: its chance is exact to 1 / 65,536."""


class Dropout(nn.Dropout):
    """torch's dropout, with cheaper coins on a CPU.

    There torch draws a coin for each number, one after another, which takes longer than many a layer. A 64-bit
    draw costs the same and is cut into four coins.
    """

    def forward(self, inputs: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The numbers with a share p of them set to zero, in training."""
        if not self.training or self.p == 0 or inputs.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(inputs)
        return inputs * self._scales(inputs)

    def _scales(self, like: Tensor) -> Tensor:
        """0 for a number that falls out, 1 / (1 - p) for one that stays."""
        draws = torch.empty(-(-like.numel() * RANDOM_BITS // 64), dtype=torch.int64)
        coins = draws.random_(-(2**63), None).view(torch.int16)[: like.numel()].view(like.shape)
        stays = coins >= round(self.p * 2**RANDOM_BITS) - 2 ** (RANDOM_BITS - 1)
        return stays.to(like.dtype).mul_(1 / (1 - self.p))


class VariationalDropout(Dropout):
    """Dropout whose choice holds for all times of a row: y_t = m ⊙ x_t, with one mask m for each row.

    Gal & Ghahramani 2016, section 4.1 ("variational"); Merity et al. 2018, section 4.2 ("locked"). Were it drawn anew
    at every time, a recurrent layer above would see a number flicker, and learn to average over time instead.
    """

    def forward(self, inputs: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
        """The numbers with a share p of each row's columns set to zero, in training."""
        if not self.training or self.p == 0:
            return inputs
        return inputs * super().forward(torch.ones_like(inputs[:, :1]))


class EmbeddingDropout(nn.Module):
    """Whole words fall out: wherever one of them stands in the batch, its vector is zero.

    Gal & Ghahramani 2016, section 4.2; Merity et al. 2018, section 4.3. It is dropout on the rows of the table, drawn
    once a step, so words that stay are scaled by 1 / (1 - p). A head that shares the table is not touched.
    """

    def __init__(self, p: float):
        super().__init__()
        self.dropout = Dropout(p)

    def forward(
        self, vectors: Float[Tensor, "row time width"], tokens: Int[Tensor, "row time"], vocab_size: int
    ) -> Float[Tensor, "row time width"]:
        """The vectors of these tokens, out of so many words, less those of the words that fall out."""
        if not self.training or self.dropout.p == 0:
            return vectors
        return vectors * functional.embedding(tokens, self.dropout(vectors.new_ones(vocab_size, 1)))


class DropPath(Dropout):
    """What a part adds to the stream falls out for whole rows: these go around the part, and the stack is less deep.

    Stochastic depth (Huang et al. 2016, eq. 2). They toss one coin for the batch and scale at the end; here each row
    has its own, and what stays is scaled up at once, as in all dropout. Rows of different length that lie on one line
    (`layers/unpadding.py`) share a coin.
    """

    def forward(self, inputs: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
        """The numbers with a share p of the rows set to zero, in training."""
        if not self.training or self.p == 0:
            return inputs
        return inputs * super().forward(inputs.new_ones(len(inputs), 1, 1))
