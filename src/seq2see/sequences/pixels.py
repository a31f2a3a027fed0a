"""Pictures as numbers: a whole set is one tensor of bytes where the model is, and a batch is picked out of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from math import ceil
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from seq2see.core.batch import Batch, Pictures
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.core.seeds import permutation
from seq2see.sequences.buckets import Numbers
from seq2see.sequences.labelled import label_numbers
from seq2see.sequences.tokenisers import Tokeniser
from seq2see.sources.picture_examples import PictureExamples
from seq2see.sources.pictures import see_picture


def pixels_on(examples: PictureExamples, device: torch.device) -> UInt8[Tensor, "picture *frame channel height width"]:
    """All pixels of a split, where the model is."""
    return torch.from_numpy(examples.pixels).movedim(-1, -3).contiguous().to(device)


class PictureSet:
    """Pictures and the numbers of their labels; compare `LabelledTexts`, whose rows have lengths."""

    def __init__(self, examples: PictureExamples, labels: Sequence[str], device: torch.device):
        self.examples, self.vocabulary = examples, len(labels)
        self.pixels = pixels_on(examples, device)
        self.labels = torch.from_numpy(label_numbers(examples, labels)).to(device)

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def lengths(self) -> Numbers:
        """(picture, 1): all are alike."""
        return np.ones((len(self), 1), np.int64)

    @property
    def characters(self) -> int:
        """Pictures are not written."""
        return 0

    def batch(self, indices: Numbers, epoch: int = 0) -> Batch:
        """These pictures and their labels, one a row; the same in every epoch."""
        picked = torch.from_numpy(np.array(indices, np.int64))
        there = picked.to(self.pixels.device, non_blocking=True)
        pictures = Pictures(self.pixels.index_select(0, there))
        return Batch(pictures, None, self.labels.index_select(0, there)[:, None], picked)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and of the numbers of the labels."""
        numbers = self.labels.cpu().numpy().astype("<i8").tobytes()
        return hashlib.sha256(self.examples.fingerprint.encode() + numbers).hexdigest()

    def warnings(self) -> list[str]:
        """What is wrong with a picture, its reader has told."""
        return []


class Rounds:
    """The batches of a whole training, by step number: in every epoch each picture once, in an order of its own.

    All batches have as many rows, so that a GPU meets one shape: the last of an epoch is filled up with its first
    pictures.
    """

    def __init__(self, count: int, rows: int, seed: int):
        if not count:
            raise UserError("There are no pictures to make batches of.")
        self.count, self.seed = count, seed
        self.per_epoch = ceil(count / rows)
        self.rows = ceil(count / self.per_epoch)
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def epoch_of(self, step: int) -> int:
        """Which epoch a step is in; both are counted from 0."""
        return step // self.per_epoch

    def indices_at(self, step: int) -> Numbers:
        """The pictures of one step, counted from 0 over all epochs."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, permutation(self.count, self.seed, "pictures", epoch)
        return self._order.take(np.arange(place * self.rows, (place + 1) * self.rows), mode="wrap")


class Pixels(Tokeniser):
    """What pictures have where texts have a tokeniser: how a picture becomes numbers.

    A file is decoded, and its middle square brought to side x side pixels of so many channels.
    """

    file = "pixels.json"

    def __init__(self, side: int, channels: int):
        self.kind, self.side, self.channels = "pixels", side, channels

    def __len__(self) -> int:
        """Values that a channel of a pixel can have."""
        return 256

    def look(self, picture: str | Path | NDArray[np.uint8]) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
        """(channel, height, width) of a picture file, with remarks, or of pixels (height, width, channel) as given."""
        remarks: tuple[str, ...] = ()
        if isinstance(picture, str | Path):
            seen = see_picture(Path(picture), side=self.side, channels=self.channels)
            picture, remarks = seen.pixels, seen.told
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != self.channels or not picture.size:
            raise UserError(
                f"These pixels are {picture.dtype} of shape {picture.shape}.",
                remedy=f"Give bytes (uint8) of height x width x {self.channels}, or a picture file.",
            )
        return picture.transpose(2, 0, 1), remarks

    def fit(self, pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
        """(channel, height, width) in another size."""
        from PIL import Image  # takes a while, and most commands need no pictures

        planes = [Image.fromarray(plane).resize((width, height), Image.Resampling.BICUBIC) for plane in pixels]
        return np.stack([np.asarray(plane) for plane in planes])

    def in_size(self, side: int) -> Pixels:
        """The same eyes for another size."""
        return Pixels(side, self.channels)

    @property
    def told(self) -> dict[str, int]:
        """What is written down of it."""
        return {"side": self.side, "channels": self.channels}

    @property
    def fingerprint(self) -> str:
        """What decides how a picture is seen."""
        return hashlib.sha256(json.dumps(list(self.told.values())).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write it down."""
        write_json(path, self.told)

    @staticmethod
    def load(path: Path) -> Pixels:
        """Read what `save` wrote; anything else is refused."""
        try:
            found = json.loads(path.read_bytes())
            if "frames" in found:
                from seq2see.sequences.films import FilmPixels  # only here: it is a kind of `Pixels`

                return FilmPixels(int(found["side"]), int(found["channels"]), int(found["frames"]))
            return Pixels(int(found["side"]), int(found["channels"]))
        except (ValueError, KeyError, TypeError):
            what = "This does not say how pictures are seen."
            raise UserError(what, where=str(path), remedy="Restore it from a copy.") from None
