"""Autoregressive forecasts of a series: each prediction is the next input of the model.

Compare `engine.py`: there a sampler selects one of many tokens; here the prediction is the next value itself, so
there is no selection. The error of one prediction is part of the input of the following ones.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.decoding.engine import check_cancelled


@torch.inference_mode()
def forecast(model: Any, observed: Float[Tensor, "row time"], horizon: int) -> Float[Tensor, "row {horizon}"]:
    """Predict the next `horizon` values of each row with a model whose `step` returns values instead of logits."""
    state = model.start(None, observed.size(0), observed.size(1) + horizon)
    predictions, inputs = [], observed
    for _ in range(horizon):
        check_cancelled()
        output, state = model.step(inputs, state)
        inputs = output[:, -1]
        predictions.append(inputs)
    return torch.cat(predictions, dim=1)
