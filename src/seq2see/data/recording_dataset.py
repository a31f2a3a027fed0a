"""Recordings as batches of log-mel features, with their texts as token ids.

Compare `pair_dataset.py`: the source is a sequence of vectors instead of token ids. The features of each recording are
computed once and stored in half precision; if an augmentation changes the samples, they are computed in every epoch.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.core.batch import Batch, Sequences
from seq2see.core.seeds import generator
from seq2see.data.log_mel import LogMel, vectors_of
from seq2see.data.ngrams import IntArray
from seq2see.data.pair_dataset import MAX_SHOWN, EncodedTexts, decoder_inputs_and_labels, padded_width
from seq2see.data.recordings import RecordingExamples
from seq2see.data.sound_augmentation import SoundAugmentation, augmented_features, masked
from seq2see.data.tokenizers.tokenizer import EOS, Tokenizer

MAX_TOKENS = 10_000
"""The maximum length of a text: more than an hour of speech, so that no text is cut."""


class RecordingDataset:
    """The features of recordings and the token ids of their texts."""

    def __init__(
        self,
        examples: RecordingExamples,
        features: LogMel,
        tokenizer: Tokenizer,
        augmentation: SoundAugmentation | None = None,
        seed: int = 0,
    ):
        self.examples, self.features, self.tokenizer = examples, features, tokenizer
        self.augmentation, self.seed = augmentation, seed
        self.vocab_size = len(tokenizer)
        self.side = EncodedTexts.of(examples.texts, tokenizer, MAX_TOKENS)
        self._stored: dict[int, NDArray[np.float16]] = {}

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def lengths(self) -> IntArray:
        """(recording, 2): the largest number of frames after augmentation, and the number of tokens with <eos>."""
        samples = list(map(int, self.examples.lengths))
        if self.augmentation:
            samples = [self.augmentation.longest(each, self.features.rate) for each in samples]
        frames = np.array(list(map(self.features.frames, samples)), np.int64)
        return np.stack([frames, self.side.lengths], axis=1)

    @property
    def characters(self) -> int:
        """The total length of all texts, in characters."""
        return sum(map(len, self.examples.texts))

    def source(self, index: int, epoch: int | None = None) -> Tensor:
        """[frame, band]: the features of one recording; augmented, if an epoch is given."""
        augmentation = self.augmentation if epoch is not None else None
        if augmentation is None or not augmentation.changes_samples:
            if index not in self._stored:
                self._stored[index] = self.features.features(self.examples.samples[index]).half().numpy()
            features = torch.from_numpy(self._stored[index]).float()
        else:
            assert epoch is not None
            samples = self.examples.samples[index]
            features = augmented_features(samples, self.features, augmentation, self.seed, (epoch, index))
        if augmentation is None or epoch is None:
            return features
        rng = generator(self.seed, "sound masks", epoch, index)
        return masked(features, augmentation, self.features.hop_seconds, rng)

    def batch(self, indices: IntArray, epoch: int | None = None) -> Batch:
        """Source [row, frame, band], target `<bos> y1 .. yn` and labels `y1 .. yn <eos>`; augmented in an epoch."""
        rows = [self.source(int(index), epoch) for index in indices]
        lengths = [len(row) for row in rows]
        values = torch.zeros(len(rows), int(padded_width(max(lengths))), self.features.bands)
        for row, features in enumerate(rows):
            values[row, : len(features)] = features
        target, labels = decoder_inputs_and_labels(self.side, np.asarray(indices))
        source = Sequences(values, torch.tensor(lengths))
        return Batch(source, target, labels, torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all recordings, of the settings of their features, and of the token ids of all texts."""
        settings = f"{self.examples.fingerprint} {self.features.fingerprint} {self.tokenizer.fingerprint}"
        return hashlib.sha256(settings.encode() + self.side.ids.astype("<i4").tobytes()).hexdigest()

    def too_short(self) -> IntArray:
        """The recordings with too few frames for their text.

        Connectionist temporal classification needs a vector for each token, and one between two equal tokens, which
        would otherwise be merged (Graves et al. 2006, section 3.1).
        """
        needed = []
        for start, end in zip(self.side.starts[:-1], self.side.starts[1:], strict=True):
            ids = self.side.ids[start:end]
            ids = ids[ids != EOS]
            needed.append(len(ids) + np.count_nonzero(ids[1:] == ids[:-1]))
        vectors = [vectors_of(self.features.frames(int(each))) for each in self.examples.lengths]
        return np.flatnonzero(np.array(vectors, np.int64) < np.array(needed, np.int64))

    def warnings(self) -> list[str]:
        """A warning about recordings that are too short for their texts, and one about unknown tokens."""
        warnings, short = [], self.too_short()
        if len(short):
            names = ", ".join(
                f"{self.examples.names[index]} ({self.examples.texts[index]!r})" for index in short[:MAX_SHOWN]
            )
            more = ", ..." if len(short) > MAX_SHOWN else ""
            warnings.append(f"{len(short):,} recordings have fewer vectors than their text has tokens: {names}{more}.")
        if self.side.unknown_rate:
            warnings.append(f"{self.side.unknown_rate:.1%} of the tokens of the texts are unknown.")
        return warnings
