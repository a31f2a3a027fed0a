"""A long text as the inputs of a language model: windows in random order, or contiguous batches.

**Windows** have equal width. Every window begins with <bos>, which means "the previous tokens are not visible", and all
its tokens are labels. In every epoch the windows start at a different offset, so that no token is always at the edge of
a window. A window starts from an initial state of zero.

**Contiguous batches** (sequential partitioning) are for truncated back-propagation through time. The text is divided
into one stream per batch row, and each step has the next segment of every stream, so that a recurrent model continues
from its last state: only the gradient ends at the start of the segment (Williams & Peng 1990; for text Zaremba et al.
2014, section 4.1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import IGNORE_INDEX, Batch, ContiguousBatch, Sequences
from seq2see.core.errors import UserError
from seq2see.core.seeds import generator, permutation, uniform
from seq2see.data.examples import Example
from seq2see.data.pair_dataset import MANY_UNKNOWN, IntArray
from seq2see.data.tokenizers.pretrained_tokenizer import PretrainedTokenizer
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, UNK, UNK_TEXT, Tokenizer

Unit = Literal["token", "word", "character"]
UNITS: dict[str, Unit] = {"characters": "character", "words": "word", "whitespace": "word"}
"""The units of tokenizers whose tokens have a common name."""


class TextDataset:
    """Texts as token ids, concatenated with <eos> between them, in consecutive windows.

    The examples of this dataset are windows; the last one may be shorter. Texts are encoded line by line, because the
    time of some encoders is not linear in the length. Each window is preceded by the `context` tokens before it, which
    have no labels: a model with a context of that size is then evaluated as if the text had no windows.
    """

    setting = "target.max_tokens"
    """The setting for the width of windows, for error messages."""

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer, width: int, context: int = 0):
        self.examples, self.tokenizer, self.width, self.context = examples, tokenizer, width, context
        self.ids, self.line_starts = _encode_texts([example.target for example in examples], tokenizer)
        if not len(self.ids):
            raise UserError(
                "The text is too short: no text is left for validation or testing.", hint="Give a longer text."
            )
        self.starts = np.arange(0, len(self.ids), width)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary."""
        return len(self.tokenizer)

    @property
    def lengths(self) -> IntArray:
        """(window, 1): the number of tokens of each window."""
        return np.minimum(self.width, len(self.ids) - self.starts)[:, None]

    @property
    def unit(self) -> Unit:
        """What one token is: a character, a word, or a token between the two."""
        return UNITS.get(self.tokenizer.kind, "token")

    @property
    def characters(self) -> int:
        """The total length of the texts, in characters."""
        return sum(len(example.target) for example in self.examples)

    def text_at(self, index: int) -> str:
        """The text of a window, approximately: in training it starts up to one window later."""
        start = int(self.starts[index])
        return self.tokenizer.decode(self.ids[start : start + self.width].tolist())

    def batch(self, indices: IntArray) -> Batch:
        """These windows, each with its context."""
        starts = self.starts[indices]
        context = np.minimum(self.context, starts)
        return self.window_batch(starts - context, indices, context)

    def training_batch(self, starts: IntArray, indices: IntArray, seed: int, step: int) -> Batch:
        """Windows that start at any position, for one training step."""
        return self.window_batch(starts, indices)

    def window_batch(self, starts: IntArray, indices: IntArray, context: IntArray | int = 0) -> Batch:
        """Windows from any position: inputs `<bos> x1 .. xn-1`, labels `x1 .. xn` except the first `context`."""
        lengths = np.minimum(self.width + context, len(self.ids) - starts)
        times = np.arange(int(lengths.max()))
        valid = times < lengths[:, None]
        ids = self.ids.take(starts[:, None] + times, mode="clip").astype(np.int64)
        inputs = np.full_like(ids, PAD)
        np.copyto(inputs[:, 1:], ids[:, :-1], where=valid[:, 1:])
        inputs[:, 0] = BOS
        labels = np.where(valid & (times >= np.reshape(context, (-1, 1))), ids, IGNORE_INDEX)
        target = Sequences(torch.from_numpy(inputs), torch.from_numpy(lengths))
        return Batch(None, target, torch.from_numpy(labels), torch.from_numpy(np.array(indices, np.int64)))

    @property
    def location(self) -> str:
        """The files of the texts."""
        return ", ".join(dict.fromkeys(example.location for example in self.examples if example.location))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all token ids and of the tokenizer."""
        digest = hashlib.sha256(f"{self.tokenizer.fingerprint} {len(self.ids)} ".encode())
        digest.update(self.ids.astype("<i4").tobytes())
        return digest.hexdigest()

    def batch_rows(self, batch_tokens: int, rows_name: str) -> int:
        """The number of window-wide rows in a batch of `batch_tokens` tokens; `rows_name` is for the error message."""
        if batch_tokens < self.width:
            raise UserError(
                f"A batch of {batch_tokens} tokens is too small for {rows_name} of {self.width}.",
                hint=f"Set training.batch_tokens to {self.width} or more, or {self.setting} to {batch_tokens} or less.",
            )
        return batch_tokens // self.width

    def warnings(self) -> list[str]:
        """A warning for the user if many tokens are unknown."""
        unknown = self.unknown_rate
        return [f"{unknown:.1%} of the {self.unit}s are unknown."] if unknown > MANY_UNKNOWN else []

    @property
    def unknown_rate(self) -> float:
        """The share of tokens that are unknown to the tokenizer.

        An <unk> that is part of the text itself, as in the Penn Treebank, counts as an ordinary word.
        """
        in_text = (
            sum(each.target.count(UNK_TEXT) for each in self.examples) if self.tokenizer.kind == "whitespace" else 0
        )
        return max(0, int(np.count_nonzero(self.ids == UNK)) - in_text) / len(self.ids)


class WindowSampler:
    """The batches of a training run, by step number: every epoch reads the text once."""

    def __init__(self, texts: TextDataset, batch_tokens: int, seed: int):
        self.texts, self.seed = texts, seed
        self.rows = texts.batch_rows(batch_tokens, "windows")
        # An epoch starts up to one window late, and uses the complete windows after that.
        self.window_count = len(texts.ids) // texts.width - 1
        if self.window_count < 1:
            half = len(texts.ids) // 2
            shorter = f", or set {texts.setting} to {half} or less" if half > 1 else ""
            raise UserError(
                f"The training text has {len(texts.ids)} tokens: too few for two windows of {texts.width}.",
                location=texts.location,
                hint=f"Give a longer text{shorter}.",
            )
        self.steps_per_epoch = -(-self.window_count // self.rows)
        self._epoch, self._order = -1, np.zeros(0, np.int64)

    def batch_at(self, step: int) -> Batch:
        """The batch of one step, counted from 0; the last one of an epoch is filled up with its first windows."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, permutation(self.window_count, self.seed, "windows", epoch)
        shift = int(uniform(self.seed, "window shift", epoch) * self.texts.width)
        indices = self._order.take(range(position * self.rows, (position + 1) * self.rows), mode="wrap")
        return self.texts.training_batch(indices * self.texts.width + shift, indices, self.seed, step)


def _encode_texts(texts: Sequence[str], tokenizer: Tokenizer) -> tuple[NDArray[np.int32], IntArray]:
    """The token ids of all texts, with <eos> between two texts; and the indices of line starts among them."""
    # Our tokens never cross the end of a line; those of a pretrained tokenizer may.
    lines = [[text] if isinstance(tokenizer, PretrainedTokenizer) else split_lines(text) for text in texts]
    ids, lengths = tokenizer.encode_concatenated([*chain.from_iterable(lines)])
    counts = np.array([len(text_lines) for text_lines in lines], dtype=np.int64)
    starts = np.cumsum([0, *lengths], dtype=np.int64)
    ids = np.insert(ids, starts[np.cumsum(counts)[:-1]], EOS)
    ids.setflags(write=False)
    # Each <eos> shifts the lines after it.
    return ids, starts[:-1] + np.repeat(np.arange(len(lines)), counts)


def split_lines(text: str) -> list[str]:
    """The lines of a text, each with its line end.

    >>> split_lines("a\\nb")
    ['a\\n', 'b']
    """
    *complete, last = text.split("\n")
    return [line + "\n" for line in complete] + ([last] if last else [])


# --- contiguous batches ---


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
