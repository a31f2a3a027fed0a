"""Pictures and the texts that are to be written about them; compare `pairs.py`, where texts are written about texts."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch.nn import functional

from seq2see.core.batch import NOT_ASKED, Batch, Pictures, Sequences
from seq2see.sequences.buckets import Numbers, padded_width
from seq2see.sequences.pairs import Side, fed_and_asked
from seq2see.sequences.pixels import PictureSet, pixels_on
from seq2see.sequences.tokenisers import PAD, Tokeniser
from seq2see.sources.picture_examples import PictureExamples


class CaptionSet(PictureSet):
    """Pictures with captions as numbers. A picture may have several; every epoch takes the next one.

    All batches are as wide as the longest caption needs, so that a GPU meets one shape.
    """

    def __init__(self, examples: PictureExamples, tokeniser: Tokeniser, limit: int, device: torch.device):
        self.examples, self.vocabulary, self.limit = examples, len(tokeniser), limit
        self.pixels = pixels_on(examples, device)
        captions = [example.right for example in examples]
        self.counts = np.array([len(each) for each in captions], np.int64)
        self.firsts = np.cumsum(self.counts) - self.counts
        self.side = Side.of([text for each in captions for text in each], tokeniser, limit)
        self.width = int(padded_width(int(self.side.lengths.max(initial=1))))

    @property
    def lengths(self) -> Numbers:
        """(picture, 1): how long its first caption is."""
        return self.side.lengths[self.firsts][:, None]

    @property
    def characters(self) -> int:
        """How long the first captions are together."""
        return sum(len(example.target) for example in self.examples)

    def batch(self, indices: Numbers, epoch: int = 0) -> Batch:
        """These pictures, target `<bos> y1 .. yn`, labels `y1 .. yn <eos>`, of the caption that is the epoch's turn."""
        picked = torch.from_numpy(np.array(indices, np.int64))
        pictures = Pictures.of(self.pixels.index_select(0, picked.to(self.pixels.device, non_blocking=True)))
        target, labels = fed_and_asked(self.side, self.firsts[indices] + epoch % self.counts[indices])
        room = (0, self.width - labels.size(1))
        target = Sequences(functional.pad(target.values, room, value=PAD), target.lengths)
        return Batch(pictures, target, functional.pad(labels, room, value=NOT_ASKED), picked)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and of the ids of all captions."""
        return hashlib.sha256(self.examples.fingerprint.encode() + self.side.ids.astype("<i4").tobytes()).hexdigest()

    def warnings(self) -> list[str]:
        """Captions that are too long are told."""
        cut = len(self.side.truncated)
        return [f"{cut} captions are longer than {self.limit} tokens and were cut."] if cut else []
