"""Initial weights: how far apart the numbers stand before anything is learned.

The variance of a layer's output is the variance of its input times fan-in times the variance of its
weights. Too small and signals die out over the layers, too large and they explode; each method below
is an answer to what the weights' variance should be. Numbers are drawn from torch's own generator,
which the caller seeds (`core.seeds.seed_torch`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.errors import unknown_name


@torch.no_grad()
def xavier(weight: Float[Tensor, "out into"]) -> None:
    """Variance 2 / (fan-in + fan-out), uniform (Glorot & Bengio 2010, eq. 16): for tanh and linear layers.

    A compromise between keeping the variance on the way forward (1 / fan-in) and backward (1 / fan-out).
    """
    bound = (6 / (weight.size(0) + weight.size(1))) ** 0.5  # a uniform number in ±b has variance b² / 3
    weight.uniform_(-bound, bound)


@torch.no_grad()
def he(weight: Float[Tensor, "out into"]) -> None:
    """Variance 2 / fan-in, normal (He et al. 2015, eq. 10): for ReLU, which cuts half of the signal."""
    weight.normal_(0, (2 / weight.size(1)) ** 0.5)


@torch.no_grad()
def zero(weight: Float[Tensor, "out into"]) -> None:
    """All zero: to see why not. Every unit of a layer computes the same and learns the same."""
    weight.zero_()


INITIALIZERS: dict[str, Callable[[Tensor], None]] = {"xavier": xavier, "he": he, "zero": zero}


@torch.no_grad()
def initialize(module: nn.Module, name: str) -> None:
    """Give every weight matrix in a model its first values by the named method.

    A weight matrix is a 2-D `weight` of a part (a linear layer); its bias becomes 0. Embeddings are
    drawn from N(0, 1 / width) with the padding row 0, and a matrix tied to an embedding counts as one.
    Norms, convolutions and recurrent cells keep what their own constructors gave them.
    """
    if name not in INITIALIZERS:
        raise unknown_name("initializer", name, INITIALIZERS)
    embeddings = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    for embedding in embeddings:
        embedding.weight.normal_(0, embedding.embedding_dim**-0.5)
        if embedding.padding_idx is not None:
            embedding.weight[embedding.padding_idx].zero_()
    tables = {id(embedding.weight) for embedding in embeddings}
    for part in module.modules():
        weight, bias = getattr(part, "weight", None), getattr(part, "bias", None)
        if not isinstance(weight, nn.Parameter) or weight.dim() != 2 or isinstance(part, nn.Embedding):
            continue
        if id(weight) not in tables:
            INITIALIZERS[name](weight)
        if isinstance(bias, nn.Parameter):
            bias.zero_()
