"""Reading a given target: how probable each of its tokens is behind those before it."""

from __future__ import annotations

import math

import torch

from seq2see.workbench.look import Reading
from seq2see.workbench.predict import Choice, Model


@torch.inference_mode()
def forced(model: Model, reading: Reading) -> list[Choice]:
    """Each token of the target of a reading (`model.reading`), and how probable it is; who only reads has none."""
    if "written" not in reading.tokens:
        return []
    labels = reading.batch.labels[0]
    scores = model.module(reading.batch)[0].float().log_softmax(-1).gather(-1, labels[:, None])[:, 0]
    chances = zip(reading.tokens["written"], scores.tolist(), strict=False)  # nothing is known to follow running text
    return [Choice(piece, math.exp(score)) for piece, score in chances]
