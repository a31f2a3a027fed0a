"""A long text as streams that run side by side: what a reader sees that does not forget between two steps.

Windows (`windows.py`) begin with an empty memory. Here the text is cut into as many streams as a step has rows, and a
step shows the next stretch of every stream, so that a recurrent reader goes on from the state it had: only the gradient
ends where the stretch begins (truncated back-propagation through time, Williams & Peng 1990; for text Zaremba et al.
2014, section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from seq2see.core.batch import IGNORE_INDEX, ContiguousBatch, Sequences
from seq2see.core.errors import UserError
from seq2see.core.seeds import generator, uniform
from seq2see.sequences.buckets import IntArray
from seq2see.sequences.tokenizers import BOS, PAD
from seq2see.sequences.windows import TextDataset

HALF_LENGTH_PROBABILITY = 0.05
"""The share of stretches that are drawn about half as long (Merity et al. 2018, section 5: 1 - p)."""
LENGTH_STD_DIVISOR = 14
"""Lengths spread around the usual one by a 14th of it (the paper: 5 around 70), and are rounded to multiples of that.

So there are few different lengths, and a GPU is prepared for each of them once."""


class ContiguousSampler:
    """The batches of a whole training, by step number: every epoch goes once through the streams.

    A stretch is about as long as a window of these texts. Were it always as long, the same tokens would stand behind
    every cut and never send a gradient back; so lengths are drawn anew in each epoch. So is the place where the first
    stream begins, and behind the end of the text comes its beginning: else the same places would be read side by side
    in every epoch, and the last step of each would always be about the same ones.
    """

    def __init__(self, texts: TextDataset, batch_tokens: int, seed: int):
        self.texts, self.seed = texts, seed
        self.rows = texts.batch_rows(batch_tokens, "stretches")
        self.length = len(texts.ids) // self.rows
        if self.length < texts.width:
            # As many tokens as the text has make streams that are just long enough, unless it is shorter than one.
            few, setting = len(texts.ids), "training.batch_tokens" if len(texts.ids) >= texts.width else texts.setting
            raise UserError(
                f"The text to learn from has {few} tokens: too few for {self.rows} streams of {texts.width} or more.",
                location=texts.location,
                hint=f"Give a longer text, or set {setting} to {few} or less.",
            )
        self._ends: list[IntArray] = []  # of each epoch: where its stretches end in every stream
        self._before = np.zeros(1, np.int64)  # steps before each epoch

    def batch_at(self, step: int) -> ContiguousBatch:
        """The stretches of one step, counted from 0."""
        while step >= self._before[-1]:
            self._ends.append(segment_ends(self.length, self.texts.width, self.seed, len(self._ends)))
            self._before = np.append(self._before, self._before[-1] + len(self._ends[-1]))
        epoch = int(np.searchsorted(self._before, step, side="right")) - 1
        place = step - int(self._before[epoch])
        begin = int(self._ends[epoch][place - 1]) if place else 0
        # What does not fill one more stretch is left out, in each epoch something else.
        first = int(uniform(self.seed, "stream shift", epoch) * len(self.texts.ids))
        starts = first + self.length * np.arange(self.rows)
        return contiguous_batch(self.texts, starts, begin, np.full(self.rows, self._ends[epoch][place] - begin))


def segment_ends(length: int, bptt_length: int, seed: int, epoch: int) -> IntArray:
    """Where the stretches of one epoch end in a stream of this length; they are about as long as usual.

    A length is drawn from N(m, usual / 14), with m the usual one or, seldom, half of it. All are whole: a last one that
    took what is left would be of a length of its own, and could be a single token that moves all weights.
    """
    unit = max(1, bptt_length // LENGTH_STD_DIVISOR)
    draws = generator(seed, "stretches", epoch)
    count = -(-4 * length // bptt_length) + LENGTH_STD_DIVISOR  # more than enough: hardly any is shorter than a quarter
    middle = np.where(draws.random(count) < HALF_LENGTH_PROBABILITY, bptt_length / 2, bptt_length)
    drawn = draws.normal(middle, bptt_length / LENGTH_STD_DIVISOR)
    ends = np.cumsum(np.maximum(1, np.rint(drawn / unit)).astype(np.int64) * unit)
    return ends[ends <= length] if ends[0] <= length else np.array([length])


def contiguous_batch(texts: TextDataset, starts: IntArray, begin: int, lengths: IntArray) -> ContiguousBatch:
    """The next tokens of streams that start at these places and have been read up to `begin`: so many of each.

    Each token is asked for where the one before it is fed; at the start of a stream that is <bos>.
    """
    times = begin + np.arange(int(lengths.max()))
    places = starts[:, None] + times
    real = times - begin < lengths[:, None]
    ids = texts.ids.take(places, mode="wrap").astype(np.int64)
    before = texts.ids.take(places - 1, mode="wrap").astype(np.int64)
    fed = np.where(real, np.where(times == 0, BOS, before), PAD)
    reset = torch.full((len(starts),), begin == 0)
    windows = torch.from_numpy((starts + begin) % len(texts.ids) // texts.width)
    target = Sequences(torch.from_numpy(fed), torch.from_numpy(lengths))
    labels = torch.from_numpy(np.where(real, ids, IGNORE_INDEX))
    return ContiguousBatch(None, target, labels, windows, reset, len(times) / texts.width)


def contiguous_batches(texts: TextDataset, rows: int) -> Iterator[ContiguousBatch]:
    """All tokens of the texts, each once, in this many streams: with one, nothing is ever forgotten."""
    length = -(-len(texts.ids) // rows)
    starts = length * np.arange(rows)
    ends = np.clip(len(texts.ids) - starts, 0, length)  # the text may end before the last streams do
    for begin in range(0, length, texts.width):
        yield contiguous_batch(texts, starts, begin, np.clip(ends - begin, 0, texts.width))
