"""Reordered tokens: how far the vector of each token changes, layer by layer, if the tokens are permuted.

The vectors of the reordered text are permuted back, and compared with the vectors of the same tokens in the original
text.
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
    """The vectors (token, width) of one sequence of tokens: the embeddings, and the output of each block."""
    module: Any = model
    device = next(module.parameters()).device
    tokens = Sequences.of([list(ids)]).to(device)
    with trace(module, ("embedding", "stream")) as activations:
        if hasattr(module, "encode"):
            module.encode(tokens)
        else:
            module.hidden(Batch(None, tokens, torch.zeros_like(tokens.values), torch.zeros(1, dtype=torch.long)))
    signals = [each for kind in ("embedding", "stream") for each in activations.of(kind)]
    return {each.name: each.values[0].float().cpu() for each in signals}


def stream_distances(
    model: nn.Module, ids: Sequence[int], order: Sequence[int]
) -> tuple[list[str], NDArray[np.float32]]:
    """Layer names, and (layer, token): how far each token's vector changes if token `order[i]` is at position i.

    The distance is relative: the norm of the difference divided by the mean norm of both vectors; 0 is no change.
    """
    before, after = residual_streams(model, ids), residual_streams(model, [ids[index] for index in order])
    inverse = torch.tensor(order).argsort()
    return list(before), np.stack([_relative_distance(before[name], after[name][inverse]) for name in before])


def _relative_distance(first: Tensor, second: Tensor) -> NDArray[np.float32]:
    norms = (first.norm(dim=-1) + second.norm(dim=-1)) / 2
    return ((first - second).norm(dim=-1) / norms.clamp(min=torch.finfo(norms.dtype).tiny)).numpy()
