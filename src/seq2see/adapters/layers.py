"""Adapters of a linear layer: W x + b with a frozen matrix W, and a change of W that has few trained weights.

`LowRank` adds a matrix of low rank (LoRA, Hu et al. 2021). `Scaled` multiplies each singular value by a trained number
(SVF, Sun et al. 2025, Transformer²): the singular vectors stay, so the adapter can strengthen or weaken what the matrix
does already, and nothing else. `NormalizedScaled` is SVF as in the authors' program.

`weight` is the changed matrix, so that code that reads the matrix of a linear layer computes the same as `forward`. A
merged layer is a plain linear layer with this matrix; it is as fast as the layer without an adapter.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

Matrix = Float[Tensor, "out into"]
Inputs = Float[Tensor, "*shape into"]
Outputs = Float[Tensor, "*shape out"]


class Adapter(nn.Module):
    """The base class: a frozen linear layer, whose matrix is changed by trained weights."""

    def __init__(self, base: nn.Linear):
        super().__init__()
        self.base = base.requires_grad_(False)

    @property
    def weight(self) -> Matrix:
        """The changed matrix W'."""
        raise NotImplementedError

    @property
    def bias(self) -> Tensor | None:
        """The bias of the frozen layer."""
        return self.base.bias

    def merged(self) -> nn.Linear:
        """A plain linear layer with the changed matrix."""
        return linear_layer(self.weight, self.bias)


class SingularValueAdapter(Adapter):
    """The base class of both forms of SVF: W = U diag(s) Vᵀ, and W' = U diag(s ⊙ `factors(z)`) Vᵀ.

    U (rows, r), s (r) and Vᵀ (r, columns) with r = min(rows, columns) are a function of W. They are no weights, and are
    not stored. The decomposition is computed in float64: singular vectors of close singular values are sensitive to
    rounding errors, and a stored z must mean the same on another machine.
    """

    left: Float[Tensor, "out r"]
    singular_values: Float[Tensor, "r"]
    right: Float[Tensor, "r into"]

    def __init__(self, base: nn.Linear):
        super().__init__(base)
        weight = base.weight.detach()
        parts = torch.linalg.svd(weight.double(), full_matrices=False)
        for name, part in zip(("left", "singular_values", "right"), parts, strict=True):
            self.register_buffer(name, part.to(weight.dtype).contiguous(), persistent=False)

    @property
    def z(self) -> Float[Tensor, "r"]:
        """The number that each singular value is multiplied by, before any normalization."""
        raise NotImplementedError

    def factors(self, z: Float[Tensor, "r"]) -> Float[Tensor, "r"]:
        """The factors of the singular values."""
        return z

    def matrix(self, z: Float[Tensor, "r"]) -> Matrix:
        """W' for any z, such as a mixture of the z of several experts."""
        return self.left * (self.singular_values * self.factors(z)) @ self.right

    @property
    def weight(self) -> Matrix:
        """W' = U diag(s ⊙ factors) Vᵀ."""
        return self.matrix(self.z)

    def forward(self, vectors: Inputs) -> Outputs:
        """U (s ⊙ factors ⊙ (Vᵀ x)) + b: W' itself is not computed."""
        coordinates = functional.linear(vectors, self.right) * (self.singular_values * self.factors(self.z))
        return functional.linear(coordinates, self.left, self.bias)


class Scaled(SingularValueAdapter):
    """Singular value fine-tuning: W' = U diag(s ⊙ z) Vᵀ (Sun et al. 2025, section 3.2).

    z = 1 at the beginning, so W' = W.
    """

    def __init__(self, base: nn.Linear):
        super().__init__(base)
        self.scales = nn.Parameter(torch.ones_like(self.singular_values))

    @property
    def z(self) -> Float[Tensor, "r"]:
        """The trained weights themselves."""
        return self.scales


LOGIT_MEAN, LOGIT_STD = 0.1, 0.01
"""Mean and standard deviation of the initial logits of `NormalizedScaled`."""


class NormalizedScaled(SingularValueAdapter):
    """SVF as in the authors' program: W' = U diag(s ⊙ z) Vᵀ · Σs / Σ(s ⊙ z), z = sigmoid(p), p ~ N(0.1, 0.01²).

    The paper has neither the sigmoid nor the sum. The sum of the singular values stays what it was, so only the ratios
    of the numbers z matter: with a constant z, W' = W. At the beginning z is nearly constant.
    """

    def __init__(self, base: nn.Linear):
        super().__init__(base)
        self.logits = nn.Parameter(torch.empty_like(self.singular_values).normal_(LOGIT_MEAN, LOGIT_STD))

    @property
    def z(self) -> Float[Tensor, "r"]:
        """sigmoid(p), between 0 and 1."""
        return self.logits.sigmoid()

    def factors(self, z: Float[Tensor, "r"]) -> Float[Tensor, "r"]:
        """z · Σs / Σ(s ⊙ z)."""
        return z * (self.singular_values.sum() / (self.singular_values * z).sum())


class LowRank(Adapter):
    """Low-rank adaptation: W' = W + α/r · B A with B (rows, r) and A (r, columns) (Hu et al. 2021, eq. 3).

    B = 0 at the beginning, so W' = W. A is drawn from N(0, 1 / columns): A x then has about the size of x.
    """

    def __init__(self, base: nn.Linear, rank: int, alpha: float):
        super().__init__(base)
        rows, columns = base.weight.shape
        self.scale = alpha / rank
        self.a = nn.Parameter(base.weight.new_empty(rank, columns).normal_(0, columns**-0.5))
        self.b = nn.Parameter(base.weight.new_zeros(rows, rank))

    @property
    def weight(self) -> Matrix:
        """W + α/r · B A."""
        return self.base.weight + self.scale * self.b @ self.a

    def forward(self, vectors: Inputs) -> Outputs:
        """W x + b + α/r · B (A x)."""
        return self.base(vectors) + self.scale * functional.linear(functional.linear(vectors, self.a), self.b)


class StackedLinear(nn.Module):
    """A matrix that is several matrices on top of each other, such as those of queries, keys and values.

    The papers adapt each of these matrices for itself; the singular values of the stacked matrix are other numbers than
    theirs. Each part is a plain linear layer or an adapter.
    """

    def __init__(self, parts: Mapping[str, nn.Module]):
        super().__init__()
        self.parts = nn.ModuleDict(dict(parts))

    @property
    def weight(self) -> Matrix:
        """The matrices of all parts, from top to bottom."""
        return torch.cat([part.weight for part in self.parts.values()])  # type: ignore[misc]

    @property
    def bias(self) -> Tensor | None:
        """The biases of all parts; all or none of them have one."""
        biases: list[Tensor] = [part.bias for part in self.parts.values() if part.bias is not None]  # type: ignore[misc]
        return torch.cat(biases) if biases else None

    def merged(self) -> nn.Linear:
        """One plain linear layer."""
        return linear_layer(self.weight, self.bias)

    def forward(self, vectors: Inputs) -> Outputs:
        """The outputs of all parts, one after another."""
        return torch.cat([part(vectors) for part in self.parts.values()], dim=-1)


@torch.no_grad()
def linear_layer(weight: Matrix, bias: Tensor | None) -> nn.Linear:
    """A linear layer with copies of a matrix and a bias."""
    rows, columns = weight.shape
    layer = nn.utils.skip_init(
        nn.Linear, columns, rows, bias=bias is not None, device=weight.device, dtype=weight.dtype
    )
    layer.weight.copy_(weight)
    if bias is not None:
        layer.bias.copy_(bias)
    return layer


def split_rows(base: nn.Linear, sizes: Mapping[str, int]) -> dict[str, nn.Linear]:
    """The parts of a stacked matrix, with their numbers of rows, as linear layers of their own."""
    weights = base.weight.split(list(sizes.values()))
    biases = [None] * len(sizes) if base.bias is None else base.bias.split(list(sizes.values()))
    return {name: linear_layer(weight, bias) for name, weight, bias in zip(sizes, weights, biases, strict=True)}
