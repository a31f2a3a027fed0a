"""Nadaraya-Watson kernel regression: attention with a fixed scoring function (Nadaraya 1964; Watson 1964).

f(x) = Σᵢ softmaxᵢ(−((x − xᵢ) w)² / 2) yᵢ (d2l, section 10.2): the prediction for a query is a mean of the values, with
more weight on keys near the query. With w = 0 it is average pooling; w may be fixed or learned.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def kernel_weights(
    queries: Float[Tensor, "query"], keys: Float[Tensor, "key"], width: Float[Tensor, ""] | float
) -> Float[Tensor, "query key"]:
    """The attention weights: the softmax of −((x − xᵢ) w)² / 2."""
    return (-((queries[:, None] - keys[None]) * width).square() / 2).softmax(-1)


def kernel_regression(
    queries: Float[Tensor, "query"],
    keys: Float[Tensor, "key"],
    values: Float[Tensor, "key"],
    width: Float[Tensor, ""] | float,
) -> Float[Tensor, "query"]:
    """The weighted mean of the values for each query."""
    return kernel_weights(queries, keys, width) @ values


def fit_kernel_width(keys: Float[Tensor, "key"], values: Float[Tensor, "key"], steps: int) -> float:
    """Learn w by gradient descent on the error for each key, predicted from the other keys."""
    log_width = torch.zeros((), dtype=keys.dtype, requires_grad=True)
    others = ~torch.eye(len(keys), dtype=torch.bool)
    optimizer = torch.optim.Adam([log_width], lr=0.1)
    for _ in range(steps):
        scores = -((keys[:, None] - keys[None]) * log_width.exp()).square() / 2
        weights = scores.masked_fill(~others, -torch.inf).softmax(-1)
        (gradient,) = torch.autograd.grad((weights @ values - values).square().mean(), log_width)
        log_width.grad = gradient
        optimizer.step()
    return float(log_width.detach().exp())
