"""Images with captions as token ids; compare `pair_dataset.py`, where the source is a text, too."""

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
