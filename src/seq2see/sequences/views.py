"""What is shown of a picture in training: other views of it, drawn anew at every step, one row of the batch at a time.

First it is moved and mirrored, then changed strongly, then a piece is hidden, and at last two pictures are mixed. What
is drawn depends on (seed, step, picture) alone, so a resumed run sees what the uninterrupted one would have seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import Batch, Mixed, Pictures
from seq2see.core.settings import Settings
from seq2see.sequences.augment import Cutout, Flip, Shift
from seq2see.sequences.buckets import Numbers
from seq2see.sequences.draws import Draws
from seq2see.sequences.mixing import CutMix, EitherMix, Mixup
from seq2see.sequences.rand_augment import RandAugment


class Views(Settings):
    """How the pictures to learn from are varied, anew at every step."""

    shift: int = Field(0, ge=0)
    """Pixels by which a picture is moved, at most, in both directions; mirrors stand at its edges."""
    flip: bool = False
    """Whether left and right are exchanged in half of the pictures; letters and digits do not bear it."""
    changes: int = Field(0, ge=0)
    """Strong changes that a picture goes through one after another: turned, darker, with fewer tones (RandAugment)."""
    strength: float = Field(0.3, ge=0, le=1)
    """How strong these changes are."""
    cutout: int = Field(0, ge=0)
    """Pixels on each side of a square that is hidden; 0 hides nothing."""
    mixup: float = Field(0.0, ge=0)
    """Two pictures shine through each other, by shares drawn from Beta(α, α) with this α; 0 mixes none."""
    cutmix: float = Field(0.0, ge=0)
    """A piece of one picture is glued into another, of a size drawn likewise; 0 glues none. With mixup: by turns."""
    showings: int = Field(1, ge=1)
    """How many views of each picture a step sees, of as many times fewer pictures (repeated augmentation)."""

    def viewer(self, seed: int) -> Viewer:
        """What makes views of batches."""
        return Viewer(self, seed)


class View(Protocol):
    """Pixels in, as many pixels out."""

    def __call__(self, pixels: Tensor, draws: Draws) -> Tensor:
        """Every picture changed by draws of its own."""


class Viewer:
    """Batches as a step of training sees them."""

    def __init__(self, views: Views, seed: int):
        self.seed, self.showings = seed, views.showings
        chosen: list[tuple[bool, View]] = [
            (views.shift > 0, Shift(views.shift)),
            (views.flip, Flip()),
            (views.changes > 0, RandAugment(views.changes, views.strength)),
            (views.cutout > 0, Cutout(views.cutout)),
        ]
        self.views = [view for wanted, view in chosen if wanted]
        self.mix = _mixture(views)

    def shown(self, indices: Numbers) -> Numbers:
        """Pictures as often as they are shown: all of them, then all again, so that none is mixed with itself."""
        return np.tile(indices, self.showings)

    def __call__(self, batch: Batch, step: int | Tensor) -> Batch:
        """The same batch in other views; nothing waits for a GPU, so that a CUDA graph can record it."""
        assert isinstance(batch.source, Pictures)
        pixels, rows = batch.source.values, torch.arange(len(batch.indices), device=batch.indices.device)
        showing = batch.indices * self.showings + rows * self.showings // len(rows)
        draws = Draws(self.seed, step, showing.to(pixels.device))
        for view in self.views:
            pixels = view(pixels, draws)
        if self.mix is None:
            return replace(batch, source=replace(batch.source, values=pixels))
        pixels, shares = self.mix(pixels, draws)
        others = batch.labels.roll(1, 0)
        return Mixed(Pictures(pixels), None, batch.labels, batch.indices, others, shares)


def _mixture(views: Views) -> Mixup | EitherMix | None:
    if views.mixup and views.cutmix:
        return EitherMix(Mixup(views.mixup), CutMix(views.cutmix))
    if views.cutmix:
        return CutMix(views.cutmix)
    return Mixup(views.mixup) if views.mixup else None
