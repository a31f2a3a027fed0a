"""The highest scores of each row, in an order that never depends on luck."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64


def highest(scores: Float[Tensor, "row choice"], count: int) -> Int[Tensor, "row count"]:
    """Where the `count` highest scores of each row stand, best first; of equals the earlier comes first.

    If there are fewer than `count`, all of them.

    `topk` leaves open which of several equal scores it returns, and a stable sort of whole vocabularies is
    slow. So the choices are cut into blocks, and only the `count` blocks with the highest best score are
    sorted. They hold all that is looked for: a choice in any other block stands behind the best of each.

    >>> highest(torch.tensor([[0.0, 2.0, 1.0, 2.0]]), 2).tolist()
    [[1, 3]]
    """
    rows, choices = scores.shape
    blocks = -(-choices // BLOCK)
    if blocks <= count:
        return _sorted(scores, count)
    fill = blocks * BLOCK - choices
    blocked = torch.nn.functional.pad(scores, (0, fill), value=-torch.inf).view(rows, blocks, BLOCK)
    # In the order in which they stand, so that of equal choices the earlier is met first.
    best = _sorted(blocked.amax(dim=2), count).sort(dim=1).values
    finalists = blocked.gather(1, best[:, :, None].expand(-1, -1, BLOCK))
    places = _sorted(finalists.flatten(1), count)
    return best.gather(1, places // BLOCK) * BLOCK + places % BLOCK


def _sorted(scores: Float[Tensor, "row choice"], count: int) -> Int[Tensor, "row count"]:
    return scores.sort(dim=1, descending=True, stable=True).indices[:, :count]
