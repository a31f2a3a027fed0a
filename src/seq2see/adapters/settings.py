"""The settings of adapters: which kind, and which matrices of the model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from seq2see.adapters.layers import Adapter, LowRank, NormalizedScaled, Scaled
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings


class SVF(Settings):
    """Singular value fine-tuning: one trained number for each singular value (Sun et al. 2025)."""

    kind: Literal["svf"] = "svf"
    matrices: tuple[str, ...] = ()
    """The matrices that are adapted: their names, in which * stands for any characters; empty for all of the blocks."""

    def check(self, rows: int, columns: int) -> None:
        """Every matrix has singular values."""

    def wrap(self, base: nn.Linear) -> Adapter:
        """The adapter of a linear layer."""
        return Scaled(base)


class NormalizedSVF(Settings):
    """SVF as in the authors' program: factors between 0 and 1, and a constant sum of the singular values."""

    kind: Literal["svf-normalized"] = "svf-normalized"
    matrices: tuple[str, ...] = ()
    """The matrices that are adapted: their names, in which * stands for any characters; empty for all of the blocks."""

    def check(self, rows: int, columns: int) -> None:
        """Every matrix has singular values."""

    def wrap(self, base: nn.Linear) -> Adapter:
        """The adapter of a linear layer."""
        return NormalizedScaled(base)


class LoRA(Settings):
    """Low-rank adaptation: a trained matrix of low rank is added to each matrix (Hu et al. 2021)."""

    kind: Literal["lora"] = "lora"
    rank: int = Field(8, ge=1)
    """The rank r of the added matrix."""
    alpha: float = Field(8.0, gt=0)
    """α: the added matrix is multiplied by α / r, so that another rank needs no other learning rate."""
    matrices: tuple[str, ...] = ()
    """The matrices that are adapted: their names, in which * stands for any characters; empty for all of the blocks."""

    def check(self, rows: int, columns: int) -> None:
        """Refuse a rank that a matrix of this size cannot have."""
        smaller = min(rows, columns)
        if self.rank > smaller:
            raise UserError(
                f"The rank {self.rank} is above {smaller}, the smaller side of a matrix of {rows} x {columns}.",
                hint="Lower adapter.rank, or choose other matrices with adapter.matrices.",
            )

    def wrap(self, base: nn.Linear) -> Adapter:
        """The adapter of a linear layer."""
        return LowRank(base, self.rank, self.alpha)


AdapterSettings = Annotated[SVF | NormalizedSVF | LoRA, Field(discriminator="kind")]
"""The kinds of adapters."""
