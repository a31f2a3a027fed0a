"""Weight initialization: the distribution of the weights before training.

The variance of a layer's output is the variance of its input times fan-in times the variance of its weights. If the
variance of the weights is too small, signals vanish over the layers; if it is too large, they explode. The methods
below differ in that variance. Random numbers come from torch's global generator, which the caller seeds
(`core.seeds.seed_torch`).
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

    A compromise between a constant variance in the forward pass (1 / fan-in) and in the backward pass (1 / fan-out).
    """
    bound = (6 / (weight.size(0) + weight.size(1))) ** 0.5  # a uniform distribution in ±b has variance b² / 3
    weight.uniform_(-bound, bound)


@torch.no_grad()
def he(weight: Float[Tensor, "out into"]) -> None:
    """Variance 2 / fan-in, normal (He et al. 2015, eq. 10): for ReLU, which zeroes half of the signal."""
    weight.normal_(0, (2 / weight.size(1)) ** 0.5)


@torch.no_grad()
def zero(weight: Float[Tensor, "out into"]) -> None:
    """All zeros, as a negative example: every unit of a layer computes the same, and has the same gradient."""
    weight.zero_()


INITIALIZERS: dict[str, Callable[[Tensor], None]] = {"xavier": xavier, "he": he, "zero": zero}


@torch.no_grad()
def initialize(module: nn.Module, name: str) -> None:
    """Initialize every weight matrix of a model by the named method.

    A weight matrix is the 2-D `weight` of a linear layer; its bias is set to 0. Embeddings are drawn from
    N(0, 1 / width), their padding row is 0, and a weight that is tied to an embedding is initialized as an embedding.
    Norms, convolutions and recurrent cells keep the values from their constructors.
    """
    if name not in INITIALIZERS:
        raise unknown_name("initializer", name, INITIALIZERS)
    embeddings = [layer for layer in module.modules() if isinstance(layer, nn.Embedding)]
    for embedding in embeddings:
        embedding.weight.normal_(0, embedding.embedding_dim**-0.5)
        if embedding.padding_idx is not None:
            embedding.weight[embedding.padding_idx].zero_()
    embedding_weights = {id(embedding.weight) for embedding in embeddings}
    for layer in module.modules():
        weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
        if not isinstance(weight, nn.Parameter) or weight.dim() != 2 or isinstance(layer, nn.Embedding):
            continue
        if id(weight) not in embedding_weights:
            INITIALIZERS[name](weight)
        if isinstance(bias, nn.Parameter):
            bias.zero_()
