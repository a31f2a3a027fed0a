"""Images and videos as tensors: a whole dataset is one tensor of bytes on the model's device.

Batches are selected from it. A video is a sequence of images. Captions are token ids; compare `pair_dataset.py`, where
the source is a text, too.
"""

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
from PIL import Image
from torch import Tensor
from torch.nn import functional

from seq2see.core.batch import IGNORE_INDEX, Batch, Images, Sequences
from seq2see.core.documents import load_json
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.core.seeds import permutation
from seq2see.data.examples import ImageExamples
from seq2see.data.labeled_dataset import label_ids
from seq2see.data.pair_dataset import EncodedTexts, IntArray, decoder_inputs_and_labels, padded_width
from seq2see.data.readers.image_files import decode_with_issues
from seq2see.data.readers.video_decoding import frame_indices, load_video
from seq2see.data.tokenizers.tokenizer import PAD, Tokenizer


def pixels_on(examples: ImageExamples, device: torch.device) -> UInt8[Tensor, "image *frame channel height width"]:
    """All pixels of a split, on the model's device."""
    return torch.from_numpy(examples.pixels).movedim(-1, -3).contiguous().to(device)


class ImageDataset:
    """Images and their label ids; compare `LabeledTextDataset`, whose rows have lengths."""

    def __init__(self, examples: ImageExamples, labels: Sequence[str], device: torch.device):
        self.examples, self.vocab_size = examples, len(labels)
        self.pixels = pixels_on(examples, device)
        self.labels = torch.from_numpy(label_ids(examples, labels)).to(device)

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def lengths(self) -> IntArray:
        """(image, 1): always 1."""
        return np.ones((len(self), 1), np.int64)

    @property
    def characters(self) -> int:
        """Images have no characters: 0."""
        return 0

    def batch(self, indices: IntArray, epoch: int = 0) -> Batch:
        """These images and their labels, one per row; equal in every epoch."""
        cpu_indices = torch.from_numpy(np.array(indices, np.int64))
        device_indices = cpu_indices.to(self.pixels.device, non_blocking=True)
        images = Images(self.pixels.index_select(0, device_indices))
        return Batch(images, None, self.labels.index_select(0, device_indices)[:, None], cpu_indices)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and of the label ids."""
        labels = self.labels.cpu().numpy().astype("<i8").tobytes()
        return hashlib.sha256(self.examples.fingerprint.encode() + labels).hexdigest()

    def warnings(self) -> list[str]:
        """None here: the reader of the images has reported their warnings."""
        return []


class ShuffledSampler:
    """The batches of a training run, by step number: each epoch has every image once, in a new random order.

    All batches have the same number of rows, so that a GPU has a single shape: the last batch of an epoch is filled up
    with the first images of the epoch.
    """

    def __init__(self, count: int, rows: int, seed: int):
        if not count:
            raise UserError("There are no images to make batches of.")
        self.count, self.seed = count, seed
        self.steps_per_epoch = ceil(count / rows)
        self.rows = ceil(count / self.steps_per_epoch)
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def epoch_of(self, step: int) -> int:
        """The epoch of a step; both are counted from 0."""
        return step // self.steps_per_epoch

    def indices_at(self, step: int) -> IntArray:
        """The indices of the images of one step, counted from 0 over all epochs."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, permutation(self.count, self.seed, "pictures", epoch)
        return self._order.take(np.arange(position * self.rows, (position + 1) * self.rows), mode="wrap")


class ImageProcessor(Tokenizer):
    """The counterpart of a tokenizer for images: from a file to a tensor.

    A file is decoded, and its central square is resized to image_size x image_size pixels with `channels` channels.
    """

    file = "image_processor.json"
    is_text = False

    def __init__(self, image_size: int, channels: int):
        self.kind, self.image_size, self.channels = "pixels", image_size, channels

    def __len__(self) -> int:
        """The number of values of a pixel's channel."""
        return 256

    def preprocess(self, image: str | Path | NDArray[np.uint8]) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
        """(channel, height, width) from an image file, with warnings, or from pixels (height, width, channel)."""
        warnings: tuple[str, ...] = ()
        if isinstance(image, str | Path):
            decoded = decode_with_issues(Path(image), image_size=self.image_size, channels=self.channels)
            image, warnings = decoded.pixels, decoded.messages
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != self.channels or not image.size:
            raise UserError(
                f"These pixels are {image.dtype} of shape {image.shape}.",
                hint=f"Give bytes (uint8) of height x width x {self.channels}, or an image file.",
            )
        return image.transpose(2, 0, 1), warnings

    def resize(self, pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
        """(channel, height, width) in another size."""
        planes = [Image.fromarray(plane).resize((width, height), Image.Resampling.BICUBIC) for plane in pixels]
        return np.stack([np.asarray(plane) for plane in planes])

    def with_size(self, image_size: int) -> ImageProcessor:
        """A processor with another image size."""
        return ImageProcessor(image_size, self.channels)

    @property
    def config(self) -> dict[str, int]:
        """The stored settings."""
        return {"image_size": self.image_size, "channels": self.channels}

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the settings that determine the pixels."""
        return hashlib.sha256(json.dumps(list(self.config.values())).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the settings to a JSON file."""
        write_json(path, self.config)

    @staticmethod
    def load(path: Path) -> ImageProcessor:
        """Read a file that `save` wrote; any other file is an error."""
        try:
            config = load_json(path)
            if "frames" in config:
                return VideoProcessor(int(config["image_size"]), int(config["channels"]), int(config["frames"]))
            return ImageProcessor(int(config["image_size"]), int(config["channels"]))
        except (ValueError, KeyError, TypeError):
            message = "This file has no settings of an image processor."
            raise UserError(message, location=str(path), hint="Restore it from a copy.") from None


class VideoProcessor(ImageProcessor):
    """The processor of videos: `frames` frames at equal intervals, each processed as an image."""

    def __init__(self, image_size: int, channels: int, frames: int):
        super().__init__(image_size, channels)
        self.frames = frames

    def preprocess(self, image: str | Path | NDArray[np.uint8]) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
        """(frame, channel, height, width) of a file or folder, with warnings, or of (frame, height, width, channel)."""
        warnings: tuple[str, ...] = ()
        if isinstance(image, str | Path):
            image, warnings = load_video(Path(image), self.image_size, self.channels, self.frames)
        if image.dtype != np.uint8 or image.ndim != 4 or image.shape[3] != self.channels or not image.size:
            raise UserError(
                f"These pixels are {image.dtype} of shape {image.shape}.",
                hint=f"Give bytes (uint8) of frame x height x width x {self.channels}, an animated GIF, or a folder.",
            )
        return image[frame_indices(len(image), self.frames)].transpose(0, 3, 1, 2), warnings

    def resize(self, pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
        """(frame, channel, height, width) in another size."""
        return np.stack([super(VideoProcessor, self).resize(frame, height, width) for frame in pixels])

    def with_size(self, image_size: int) -> VideoProcessor:
        """A processor with another image size."""
        return VideoProcessor(image_size, self.channels, self.frames)

    @property
    def config(self) -> dict[str, int]:
        """The stored settings."""
        return super().config | {"frames": self.frames}


class CaptionDataset(ImageDataset):
    """Images with captions as token ids. An image may have several captions; each epoch uses the next one.

    All batches are as wide as the longest caption, so that a GPU has a single shape.
    """

    def __init__(self, examples: ImageExamples, tokenizer: Tokenizer, max_tokens: int, device: torch.device):
        self.examples, self.vocab_size, self.max_tokens = examples, len(tokenizer), max_tokens
        self.pixels = pixels_on(examples, device)
        captions = [example.all_references for example in examples]
        self.counts = np.array([len(each) for each in captions], np.int64)
        self.first_captions = np.cumsum(self.counts) - self.counts
        self.side = EncodedTexts.of([text for each in captions for text in each], tokenizer, max_tokens)
        self.width = int(padded_width(int(self.side.lengths.max(initial=1))))

    @property
    def lengths(self) -> IntArray:
        """(image, 1): the length of its first caption."""
        return self.side.lengths[self.first_captions][:, None]

    @property
    def characters(self) -> int:
        """The total length of the first captions, in characters."""
        return sum(len(example.target) for example in self.examples)

    def batch(self, indices: IntArray, epoch: int = 0) -> Batch:
        """These images, target `<bos> y1 .. yn` and labels `y1 .. yn <eos>`, with the captions of this epoch."""
        rows = torch.from_numpy(np.array(indices, np.int64))
        images = Images.of(self.pixels.index_select(0, rows.to(self.pixels.device, non_blocking=True)))
        target, labels = decoder_inputs_and_labels(
            self.side, self.first_captions[indices] + epoch % self.counts[indices]
        )
        padding = (0, self.width - labels.size(1))
        target = Sequences(functional.pad(target.values, padding, value=PAD), target.lengths)
        return Batch(images, target, functional.pad(labels, padding, value=IGNORE_INDEX), rows)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and of the token ids of all captions."""
        return hashlib.sha256(self.examples.fingerprint.encode() + self.side.ids.astype("<i4").tobytes()).hexdigest()

    def warnings(self) -> list[str]:
        """A warning if captions were truncated."""
        count = len(self.side.truncated)
        return [f"{count} captions are longer than {self.max_tokens} tokens and were cut."] if count else []
