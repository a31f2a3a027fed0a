"""Images as numbers: a whole set is one tensor of bytes where the model is, and a batch is picked out of it."""

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

from seq2see.core.batch import Batch, Images
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.core.seeds import permutation
from seq2see.sequences.buckets import IntArray
from seq2see.sequences.labeled import label_ids
from seq2see.sequences.tokenizers import Tokenizer
from seq2see.sources.image_decoding import decode_with_issues
from seq2see.sources.image_examples import ImageExamples


def pixels_on(examples: ImageExamples, device: torch.device) -> UInt8[Tensor, "image *frame channel height width"]:
    """All pixels of a split, where the model is."""
    return torch.from_numpy(examples.pixels).movedim(-1, -3).contiguous().to(device)


class ImageDataset:
    """Images and the numbers of their labels; compare `LabeledTextDataset`, whose rows have lengths."""

    def __init__(self, examples: ImageExamples, labels: Sequence[str], device: torch.device):
        self.examples, self.vocab_size = examples, len(labels)
        self.pixels = pixels_on(examples, device)
        self.labels = torch.from_numpy(label_ids(examples, labels)).to(device)

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def lengths(self) -> IntArray:
        """(image, 1): all are alike."""
        return np.ones((len(self), 1), np.int64)

    @property
    def characters(self) -> int:
        """Images are not written."""
        return 0

    def batch(self, indices: IntArray, epoch: int = 0) -> Batch:
        """These images and their labels, one a row; the same in every epoch."""
        picked = torch.from_numpy(np.array(indices, np.int64))
        there = picked.to(self.pixels.device, non_blocking=True)
        images = Images(self.pixels.index_select(0, there))
        return Batch(images, None, self.labels.index_select(0, there)[:, None], picked)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and of the numbers of the labels."""
        numbers = self.labels.cpu().numpy().astype("<i8").tobytes()
        return hashlib.sha256(self.examples.fingerprint.encode() + numbers).hexdigest()

    def warnings(self) -> list[str]:
        """What is wrong with an image, its reader has told."""
        return []


class ShuffledSampler:
    """The batches of a whole training, by step number: in every epoch each image once, in an order of its own.

    All batches have as many rows, so that a GPU meets one shape: the last of an epoch is filled up with its first
    images.
    """

    def __init__(self, count: int, rows: int, seed: int):
        if not count:
            raise UserError("There are no images to make batches of.")
        self.count, self.seed = count, seed
        self.steps_per_epoch = ceil(count / rows)
        self.rows = ceil(count / self.steps_per_epoch)
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def epoch_of(self, step: int) -> int:
        """Which epoch a step is in; both are counted from 0."""
        return step // self.steps_per_epoch

    def indices_at(self, step: int) -> IntArray:
        """The images of one step, counted from 0 over all epochs."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, permutation(self.count, self.seed, "pictures", epoch)
        return self._order.take(np.arange(place * self.rows, (place + 1) * self.rows), mode="wrap")


class ImageProcessor(Tokenizer):
    """What images have where texts have a tokenizer: how an image becomes numbers.

    A file is decoded, and its middle square brought to side x side pixels of so many channels.
    """

    file = "image_processor.json"

    def __init__(self, image_size: int, channels: int):
        self.kind, self.image_size, self.channels = "pixels", image_size, channels

    def __len__(self) -> int:
        """Values that a channel of a pixel can have."""
        return 256

    def preprocess(self, image: str | Path | NDArray[np.uint8]) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
        """(channel, height, width) of an image file, with remarks, or of pixels (height, width, channel) as given."""
        remarks: tuple[str, ...] = ()
        if isinstance(image, str | Path):
            seen = decode_with_issues(Path(image), side=self.image_size, channels=self.channels)
            image, remarks = seen.pixels, seen.told
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != self.channels or not image.size:
            raise UserError(
                f"These pixels are {image.dtype} of shape {image.shape}.",
                hint=f"Give bytes (uint8) of height x width x {self.channels}, or an image file.",
            )
        return image.transpose(2, 0, 1), remarks

    def resize(self, pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
        """(channel, height, width) in another size."""
        from PIL import Image  # takes a while, and most commands need no images

        planes = [Image.fromarray(plane).resize((width, height), Image.Resampling.BICUBIC) for plane in pixels]
        return np.stack([np.asarray(plane) for plane in planes])

    def with_size(self, image_size: int) -> ImageProcessor:
        """The same eyes for another size."""
        return ImageProcessor(image_size, self.channels)

    @property
    def config(self) -> dict[str, int]:
        """What is written down of it."""
        return {"image_size": self.image_size, "channels": self.channels}

    @property
    def fingerprint(self) -> str:
        """What decides how an image is seen."""
        return hashlib.sha256(json.dumps(list(self.config.values())).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write it down."""
        write_json(path, self.config)

    @staticmethod
    def load(path: Path) -> ImageProcessor:
        """Read what `save` wrote; anything else is refused."""
        try:
            found = json.loads(path.read_bytes())
            if "frames" in found:
                from seq2see.sequences.video_processor import (
                    VideoProcessor,  # only here: it is a kind of `ImageProcessor`
                )

                return VideoProcessor(int(found["image_size"]), int(found["channels"]), int(found["frames"]))
            return ImageProcessor(int(found["image_size"]), int(found["channels"]))
        except (ValueError, KeyError, TypeError):
            what = "This does not say how images are seen."
            raise UserError(what, location=str(path), hint="Restore it from a copy.") from None
