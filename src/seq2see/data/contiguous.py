"""Contiguous batches of a long text (sequential partitioning), for truncated back-propagation through time.

Windows (`windows.py`) start from an initial state of zero. Here the text is divided into one stream per batch row, and
each step has the next segment of every stream, so that a recurrent model continues from its last state: only the
gradient ends at the start of the segment (truncated back-propagation through time, Williams & Peng 1990; for text
Zaremba et al. 2014, section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from seq2see.core.batch import IGNORE_INDEX, ContiguousBatch, Sequences
from seq2see.core.errors import UserError
from seq2see.core.seeds import generator, uniform
from seq2see.data.buckets import IntArray
from seq2see.data.tokenizers.tokenizer import BOS, PAD
from seq2see.data.windows import TextDataset

HALF_LENGTH_PROBABILITY = 0.05
"""The share of segments that are about half as long as the others (Merity et al. 2018, section 5: 1 - p)."""
LENGTH_STD_DIVISOR = 14
"""Lengths have a standard deviation of a 14th of the usual length (the paper: 5 for 70), and are multiples of it.

So there are few different lengths, and a GPU captures or compiles each of them once."""


class ContiguousSampler:
    """The batches of a training run, by step number: every epoch reads all streams once.

    Segments are about as long as a window of these texts. With a fixed length, a cut would always be before the same
    tokens, which would never pass a gradient back across it; so lengths are sampled anew in each epoch. The start of
    the first stream is sampled, too, and the text continues from its end with its beginning: otherwise the same
    positions would share a batch in every epoch, and the last step of each epoch would always have about the same
    tokens.
    """

    def __init__(self, texts: TextDataset, batch_tokens: int, seed: int):
        self.texts, self.seed = texts, seed
        self.rows = texts.batch_rows(batch_tokens, "segments")
        self.length = len(texts.ids) // self.rows
        if self.length < texts.width:
            # With the text's own length as `batch_tokens`, streams are just long enough, unless it is shorter than one.
            count, setting = len(texts.ids), "training.batch_tokens" if len(texts.ids) >= texts.width else texts.setting
            raise UserError(
                f"The training text has {count} tokens: too few for {self.rows} streams of {texts.width} or more.",
                location=texts.location,
                hint=f"Give a longer text, or set {setting} to {count} or less.",
            )
        self._ends: list[IntArray] = []  # per epoch: the end of each segment within a stream
        self._first_steps = np.zeros(1, np.int64)  # the number of steps before each epoch

    def batch_at(self, step: int) -> ContiguousBatch:
        """The segments of one step, counted from 0."""
        while step >= self._first_steps[-1]:
            self._ends.append(segment_ends(self.length, self.texts.width, self.seed, len(self._ends)))
            self._first_steps = np.append(self._first_steps, self._first_steps[-1] + len(self._ends[-1]))
        epoch = int(np.searchsorted(self._first_steps, step, side="right")) - 1
        position = step - int(self._first_steps[epoch])
        begin = int(self._ends[epoch][position - 1]) if position else 0
        # The remainder that does not fill one more segment is left out; it differs from epoch to epoch.
        first = int(uniform(self.seed, "stream shift", epoch) * len(self.texts.ids))
        starts = first + self.length * np.arange(self.rows)
        return contiguous_batch(self.texts, starts, begin, np.full(self.rows, self._ends[epoch][position] - begin))


def segment_ends(length: int, bptt_length: int, seed: int, epoch: int) -> IntArray:
    """The ends of one epoch's segments in a stream of this length; segments have about `bptt_length` tokens.

    Lengths are sampled from N(m, bptt_length / 14), where m is the usual length or, rarely, half of it. An incomplete
    last segment is left out: it would have a length of its own, and a single token could update all weights.
    """
    unit = max(1, bptt_length // LENGTH_STD_DIVISOR)
    rng = generator(seed, "stretches", epoch)
    count = -(-4 * length // bptt_length) + LENGTH_STD_DIVISOR  # an upper bound: few are shorter than a quarter
    mean = np.where(rng.random(count) < HALF_LENGTH_PROBABILITY, bptt_length / 2, bptt_length)
    lengths = rng.normal(mean, bptt_length / LENGTH_STD_DIVISOR)
    ends = np.cumsum(np.maximum(1, np.rint(lengths / unit)).astype(np.int64) * unit)
    return ends[ends <= length] if ends[0] <= length else np.array([length])


def contiguous_batch(texts: TextDataset, starts: IntArray, begin: int, lengths: IntArray) -> ContiguousBatch:
    """The next `lengths` tokens of streams that start at `starts` and have been read up to `begin`.

    Each token is predicted from the previous one; the first input of a stream is <bos>.
    """
    times = begin + np.arange(int(lengths.max()))
    positions = starts[:, None] + times
    valid = times - begin < lengths[:, None]
    ids = texts.ids.take(positions, mode="wrap").astype(np.int64)
    previous = texts.ids.take(positions - 1, mode="wrap").astype(np.int64)
    inputs = np.where(valid, np.where(times == 0, BOS, previous), PAD)
    reset = torch.full((len(starts),), begin == 0)
    windows = torch.from_numpy((starts + begin) % len(texts.ids) // texts.width)
    target = Sequences(torch.from_numpy(inputs), torch.from_numpy(lengths))
    labels = torch.from_numpy(np.where(valid, ids, IGNORE_INDEX))
    return ContiguousBatch(None, target, labels, windows, reset, len(times) / texts.width)


def contiguous_batches(texts: TextDataset, rows: int) -> Iterator[ContiguousBatch]:
    """All tokens of the texts, each once, in `rows` streams, for evaluation; one stream has the full context."""
    length = -(-len(texts.ids) // rows)
    starts = length * np.arange(rows)
    ends = np.clip(len(texts.ids) - starts, 0, length)  # the text may end before the last streams do
    for begin in range(0, length, texts.width):
        yield contiguous_batch(texts, starts, begin, np.clip(ends - begin, 0, texts.width))
