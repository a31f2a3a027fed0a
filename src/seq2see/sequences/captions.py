"""Images and the texts that are to be written about them; compare `pairs.py`, where texts are written about texts."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch.nn import functional

from seq2see.core.batch import IGNORE_INDEX, Batch, Images, Sequences
from seq2see.sequences.buckets import IntArray, padded_width
from seq2see.sequences.image_dataset import ImageDataset, pixels_on
from seq2see.sequences.pair_dataset import EncodedTexts, decoder_inputs_and_labels
from seq2see.sequences.tokenizers import PAD, Tokenizer
from seq2see.sources.image_examples import ImageExamples


class CaptionDataset(ImageDataset):
    """Images with captions as numbers. An image may have several; every epoch takes the next one.

    All batches are as wide as the longest caption needs, so that a GPU meets one shape.
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
        """(image, 1): how long its first caption is."""
        return self.side.lengths[self.first_captions][:, None]

    @property
    def characters(self) -> int:
        """How long the first captions are together."""
        return sum(len(example.target) for example in self.examples)

    def batch(self, indices: IntArray, epoch: int = 0) -> Batch:
        """These images, target `<bos> y1 .. yn`, labels `y1 .. yn <eos>`, of the caption that is the epoch's turn."""
        picked = torch.from_numpy(np.array(indices, np.int64))
        images = Images.of(self.pixels.index_select(0, picked.to(self.pixels.device, non_blocking=True)))
        target, labels = decoder_inputs_and_labels(
            self.side, self.first_captions[indices] + epoch % self.counts[indices]
        )
        room = (0, self.width - labels.size(1))
        target = Sequences(functional.pad(target.values, room, value=PAD), target.lengths)
        return Batch(images, target, functional.pad(labels, room, value=IGNORE_INDEX), picked)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and of the ids of all captions."""
        return hashlib.sha256(self.examples.fingerprint.encode() + self.side.ids.astype("<i4").tobytes()).hexdigest()

    def warnings(self) -> list[str]:
        """Captions that are too long are told."""
        cut = len(self.side.truncated)
        return [f"{cut} captions are longer than {self.max_tokens} tokens and were cut."] if cut else []
