"""Going on with a series: each guess is read as if it were the next value.

Compare `engine.py`: there a chooser picks one of many tokens, here the guess is the number itself, so nothing is
chosen. An error in the first guess is part of what the second is made from, and so on.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.patience import still_wanted


@torch.inference_mode()
def forecast(model: Any, known: Float[Tensor, "row time"], count: int) -> Float[Tensor, "row {count}"]:
    """The next `count` values of each row, by a model with `start` and `step` whose answers are numbers."""
    state = model.start(None, known.size(0), known.size(1) + count)
    guesses, new = [], known
    for _ in range(count):
        still_wanted()
        said, state = model.step(new, state)
        new = said[:, -1]
        guesses.append(new)
    return torch.cat(guesses, dim=1)
