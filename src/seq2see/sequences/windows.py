"""A long text as windows of equal width: what a language model reads at one time.

Every window begins with <bos>, which stands for "what came before is not shown", and asks for each of its tokens.
In every epoch of training the windows begin somewhere else, so that no token always stands at an edge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.core.seeds import permutation, uniform
from seq2see.sequences.buckets import IntArray
from seq2see.sequences.pair_dataset import MANY_UNKNOWN
from seq2see.sequences.pretrained_tokenizer import PretrainedTokenizer
from seq2see.sequences.tokenizers import BOS, EOS, PAD, UNK, UNK_TEXT, Tokenizer
from seq2see.sources.examples import Example

Unit = Literal["token", "word", "character"]
UNITS: dict[str, Unit] = {"characters": "character", "words": "word", "whitespace": "word"}
"""What the pieces of a tokenizer are called, where people have a name for them."""


class TextDataset:
    """Texts as numbers, one behind the other with <eos> between them, in windows one behind the other.

    The examples that are counted here are windows; the last one may be shorter. A text is cut into tokens line by
    line, so that its length does not matter. In front of each window stand the `shown` tokens before it, which are not
    asked for again: a model that sees no further back is then judged as if the text were never cut.
    """

    setting = "target.max_tokens"
    """What a person sets to make windows wider or narrower."""

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer, width: int, shown: int = 0):
        self.examples, self.tokenizer, self.width, self.context = examples, tokenizer, width, shown
        self.ids, self.line_starts = _encode_texts([example.target for example in examples], tokenizer)
        if not len(self.ids):
            raise UserError(
                "The text is too short: nothing is left of it to validate or test on.", hint="Give a longer text."
            )
        self.starts = np.arange(0, len(self.ids), width)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def vocab_size(self) -> int:
        """How many tokens there are to guess from."""
        return len(self.tokenizer)

    @property
    def lengths(self) -> IntArray:
        """(window, 1): how many tokens each has."""
        return np.minimum(self.width, len(self.ids) - self.starts)[:, None]

    @property
    def unit(self) -> Unit:
        """What one guess is about: a character, a word, or a token that is something between the two."""
        return UNITS.get(self.tokenizer.kind, "token")

    @property
    def characters(self) -> int:
        """How long the texts are, in characters."""
        return sum(len(example.target) for example in self.examples)

    def text_at(self, index: int) -> str:
        """What stands in a window, about: in training it begins up to one window later."""
        start = int(self.starts[index])
        return self.tokenizer.decode(self.ids[start : start + self.width].tolist())

    def batch(self, indices: IntArray) -> Batch:
        """These windows, with what is shown before each."""
        starts = self.starts[indices]
        shown = np.minimum(self.context, starts)
        return self.window_batch(starts - shown, indices, shown)

    def training_batch(self, starts: IntArray, indices: IntArray, seed: int, step: int) -> Batch:
        """Windows that begin anywhere, as one step of training sees them."""
        return self.window_batch(starts, indices)

    def window_batch(self, starts: IntArray, indices: IntArray, shown: IntArray | int = 0) -> Batch:
        """Windows that begin anywhere: fed `<bos> x1 .. xn-1`, asked for `x1 .. xn`, less the first `shown` of them."""
        lengths = np.minimum(self.width + shown, len(self.ids) - starts)
        times = np.arange(int(lengths.max()))
        real = times < lengths[:, None]
        ids = self.ids.take(starts[:, None] + times, mode="clip").astype(np.int64)
        fed = np.full_like(ids, PAD)
        np.copyto(fed[:, 1:], ids[:, :-1], where=real[:, 1:])
        fed[:, 0] = BOS
        labels = np.where(real & (times >= np.reshape(shown, (-1, 1))), ids, IGNORE_INDEX)
        target = Sequences(torch.from_numpy(fed), torch.from_numpy(lengths))
        return Batch(None, target, torch.from_numpy(labels), torch.from_numpy(np.array(indices, np.int64)))

    @property
    def location(self) -> str:
        """The files that the texts are from."""
        return ", ".join(dict.fromkeys(example.location for example in self.examples if example.location))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all ids and of the tokenizer that made them."""
        digest = hashlib.sha256(f"{self.tokenizer.fingerprint} {len(self.ids)} ".encode())
        digest.update(self.ids.astype("<i4").tobytes())
        return digest.hexdigest()

    def batch_rows(self, batch_tokens: int, what: str) -> int:
        """How many rows as wide as a window a batch of so many tokens has; `what` such rows are called."""
        if batch_tokens < self.width:
            raise UserError(
                f"A batch of {batch_tokens} tokens is too small for {what} of {self.width}.",
                hint=f"Set training.batch_tokens to at least {self.width}, or {self.setting} to at most {batch_tokens}.",
            )
        return batch_tokens // self.width

    def warnings(self) -> list[str]:
        """What a person should know about these texts: how much of them nobody knows."""
        unknown = self.unknown_rate
        return [f"{unknown:.1%} of the {self.unit}s are unknown."] if unknown > MANY_UNKNOWN else []

    @property
    def unknown_rate(self) -> float:
        """The share of tokens that stand for something that was not learned.

        An <unk> that stands in the text itself, as in the Penn Treebank, is a word like any other.
        """
        own = sum(each.target.count(UNK_TEXT) for each in self.examples) if self.tokenizer.kind == "whitespace" else 0
        return max(0, int(np.count_nonzero(self.ids == UNK)) - own) / len(self.ids)


class WindowSampler:
    """The batches of a whole training, by step number: every epoch goes once through the text."""

    def __init__(self, texts: TextDataset, batch_tokens: int, seed: int):
        self.texts, self.seed = texts, seed
        self.rows = texts.batch_rows(batch_tokens, "windows")
        # An epoch begins up to one window late, so there are as many whole windows as fit behind that.
        self.window_count = len(texts.ids) // texts.width - 1
        if self.window_count < 1:
            half = len(texts.ids) // 2
            smaller = f", or set {texts.setting} to {half} or less" if half > 1 else ""
            raise UserError(
                f"The text to learn from has {len(texts.ids)} tokens: too few for two windows of {texts.width}.",
                location=texts.location,
                hint=f"Give a longer text{smaller}.",
            )
        self.steps_per_epoch = -(-self.window_count // self.rows)
        self._epoch, self._order = -1, np.zeros(0, np.int64)

    def batch_at(self, step: int) -> Batch:
        """The batch of one step, counted from 0; the last of an epoch is filled up from its beginning."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, permutation(self.window_count, self.seed, "windows", epoch)
        shift = int(uniform(self.seed, "window shift", epoch) * self.texts.width)
        indices = self._order.take(range(place * self.rows, (place + 1) * self.rows), mode="wrap")
        return self.texts.training_batch(indices * self.texts.width + shift, indices, self.seed, step)


def _encode_texts(texts: Sequence[str], tokenizer: Tokenizer) -> tuple[NDArray[np.int32], IntArray]:
    """All ids of all texts, with <eos> between one text and the next; and where lines begin among them."""
    # Pieces of ours never reach over the end of a line; those of other people may.
    lines = [[text] if isinstance(tokenizer, PretrainedTokenizer) else split_lines(text) for text in texts]
    ids, lengths = tokenizer.encode_concatenated([*chain.from_iterable(lines)])
    counts = np.array([len(mine) for mine in lines], dtype=np.int64)
    starts = np.cumsum([0, *lengths], dtype=np.int64)
    ids = np.insert(ids, starts[np.cumsum(counts)[:-1]], EOS)
    ids.setflags(write=False)
    # An <eos> moves all that stands behind it.
    return ids, starts[:-1] + np.repeat(np.arange(len(lines)), counts)


def split_lines(text: str) -> list[str]:
    """The lines of a text, each with its end.

    >>> lines_of("a\\nb")
    ['a\\n', 'b']
    """
    *whole, last = text.split("\n")
    return [line + "\n" for line in whole] + ([last] if last else [])
