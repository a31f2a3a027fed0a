"""Going on with a series: each guess is read as if it were the next value.

Compare `engine.py`: there a chooser picks one of many tokens, here the guess is the number itself, so nothing is
chosen. An error in the first guess is part of what the second is made from, and so on.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.cancellation import check_cancelled


@torch.inference_mode()
def forecast(model: Any, observed: Float[Tensor, "row time"], horizon: int) -> Float[Tensor, "row {count}"]:
    """The next `horizon` values of each row, by a model with `start` and `step` whose answers are numbers."""
    state = model.start(None, observed.size(0), observed.size(1) + horizon)
    predictions, new = [], observed
    for _ in range(horizon):
        check_cancelled()
        output, state = model.step(new, state)
        new = output[:, -1]
        predictions.append(new)
    return torch.cat(predictions, dim=1)
