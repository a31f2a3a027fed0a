"""The same tokens in another order: what becomes of their vectors, layer by layer.

A vector of the reordered text is compared with that of the same token in the text as it was: permuted back, so that
only what the order has changed is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.inspection.trace import trace


@torch.inference_mode()
def residual_streams(model: nn.Module, ids: Sequence[int]) -> dict[str, Tensor]:
    """(token, width) of one row of tokens: as they enter, and after each block of what reads them."""
    module: Any = model
    device = next(module.parameters()).device
    tokens = Sequences.of([list(ids)]).to(device)
    with trace(module, ("embedding", "stream")) as seen:
        if hasattr(module, "encode"):
            module.encode(tokens)
        else:
            module.hidden(Batch(None, tokens, torch.zeros_like(tokens.values), torch.zeros(1, dtype=torch.long)))
    found = [each for kind in ("embedding", "stream") for each in seen.of(kind)]
    return {each.name: each.values[0].float().cpu() for each in found}


def stream_distances(
    model: nn.Module, ids: Sequence[int], order: Sequence[int]
) -> tuple[list[str], NDArray[np.float32]]:
    """Names of the stations, and (station, token): how far each token's vector moves if `order[i]` stands at place i.

    Far means: the distance of both vectors as a share of their mean length, so 0 is unmoved.
    """
    before, after = residual_streams(model, ids), residual_streams(model, [ids[place] for place in order])
    back = torch.tensor(order).argsort()
    return list(before), np.stack([_relative_distance(before[name], after[name][back]) for name in before])


def _relative_distance(one: Tensor, other: Tensor) -> NDArray[np.float32]:
    lengths = (one.norm(dim=-1) + other.norm(dim=-1)) / 2
    return ((one - other).norm(dim=-1) / lengths.clamp(min=torch.finfo(lengths.dtype).tiny)).numpy()
