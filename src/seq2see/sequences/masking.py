"""Hiding tokens, so that a model that sees a whole text still has something to guess (Devlin et al. 2019).

Of a text's tokens 15 % are asked for. Of these 80 % are replaced by [MASK], 10 % by any token, and 10 % stay: a text
that the model is used on later holds few [MASK]s or none, so it must learn to know every token that it reads, not
only those that are missing (their appendix A.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import IGNORE_INDEX, Batch, SequencePairs
from seq2see.core.errors import UserError
from seq2see.core.seeds import generator
from seq2see.sequences.buckets import IntArray
from seq2see.sequences.tokenizers import BOS, EOS, MASK_TEXT, PAD, UNK, Tokenizer
from seq2see.sequences.windows import TextDataset
from seq2see.sources.examples import Example

MLM_PROBABILITY, MASK_REPLACE_PROBABILITY, RANDOM_REPLACE_PROBABILITY = 0.15, 0.8, 0.1
"""The share of the tokens that are asked for; of these, the shares that become [MASK] and any token."""
SHORT_SEQUENCE_PROBABILITY = 0.25
"""The share of training windows that are shortened: texts that are asked about later are seldom a window long."""
EVALUATION_SEED = 0
"""The seed of what is hidden when a model is judged: the same in every run, so that runs can be compared."""

Uniforms = NDArray[np.float64]


def mask_tokens(ids: IntArray, uniforms: Uniforms, mask: int) -> tuple[IntArray, IntArray]:
    """Rows with some tokens hidden, and what is asked at each place.

    `uniforms` are three numbers in [0, 1) for each place: they decide who is asked for, what it becomes, and which
    token stands in for it. Neither <bos> and <eos> nor what the tokenizer does not know is asked for. `mask` is
    the last number of the vocabulary, so all pieces lie below it.
    """
    choose, fate, stand_in = uniforms
    may_hide = ids > UNK
    wanted = np.maximum(1, np.round(MLM_PROBABILITY * may_hide.sum(-1, keepdims=True)))
    ranks = np.where(may_hide, choose, 1.0).argsort(-1, kind="stable").argsort(-1, kind="stable")
    masked = may_hide & (ranks < wanted)
    any_token = UNK + 1 + (stand_in * (mask - UNK - 1)).astype(np.int64)
    seen = np.where(masked & (fate < MASK_REPLACE_PROBABILITY), mask, ids)
    seen = np.where(masked & (fate >= 1 - RANDOM_REPLACE_PROBABILITY), any_token, seen)
    return seen, np.where(masked, ids, IGNORE_INDEX)


class MaskedTextDataset(TextDataset):
    """Windows of running text, each `<bos> x1 .. xn <eos>` with some of its tokens hidden.

    In training they are hidden anew at every step; when a model is judged, by the number of the window alone.
    """

    setting = "source.max_tokens"

    def batch(self, indices: IntArray) -> Batch:
        """These windows, as a model is judged on them."""
        drawn = [generator(EVALUATION_SEED, "blanks", int(index)).random((4, self.row_width)) for index in indices]
        return self.masked_batch(self.starts[indices], indices, np.stack(drawn, axis=1), short=0.0)

    def training_batch(self, starts: IntArray, indices: IntArray, seed: int, step: int) -> Batch:
        """Windows that begin anywhere, as one step of training sees them."""
        uniforms = generator(seed, "blanks", step).random((4, len(starts), self.row_width))
        return self.masked_batch(starts, indices, uniforms, short=SHORT_SEQUENCE_PROBABILITY)

    @property
    def row_width(self) -> int:
        """How wide a row is: a window, <bos> and <eos>."""
        return self.width + 2

    def masked_batch(self, starts: IntArray, indices: IntArray, uniforms: Uniforms, short: float) -> Batch:
        """Windows with tokens hidden; the first of the four tables of chances decides about whole rows."""
        widths = self._widths(uniforms[0], short)
        spans = [[self.ids[start : start + width]] for start, width in zip(starts, widths, strict=True)]
        source, labels = self._mask_rows(spans, uniforms[1:])
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))

    def _widths(self, uniforms: Uniforms, short: float) -> IntArray:
        """How many tokens each row takes: all that fit, or of a share of the rows any number of them."""
        some = 1 + (uniforms[:, 1] * self.width).astype(np.int64)
        return np.where(uniforms[:, 0] < short, some, self.width)

    def _mask_rows(
        self, spans: Sequence[Sequence[NDArray[np.int32]]], uniforms: Uniforms
    ) -> tuple[SequencePairs, torch.Tensor]:
        """Rows `<bos> span <eos>` or `<bos> span <eos> span <eos>`, with tokens hidden; and what is asked."""
        ids, token_type_ids = np.full((2, len(spans), self.row_width), PAD, dtype=np.int64)
        lengths = np.zeros(len(spans), np.int64)
        for row, texts in enumerate(spans):
            ids[row, 0], end = BOS, 1
            for number, text in enumerate(texts):
                start, end = end, end + len(text) + 1
                ids[row, start : end - 1], ids[row, end - 1] = text, EOS
                token_type_ids[row, start:end] = number
            lengths[row] = end
        seen, labels = mask_tokens(ids, uniforms, self.tokenizer.mask_id)
        values, parts = torch.from_numpy(seen), torch.from_numpy(token_type_ids)
        return SequencePairs(values, torch.from_numpy(lengths), parts), torch.from_numpy(labels)


class MaskedTextPairDataset(MaskedTextDataset):
    """Two texts a row, `<bos> A <eos> B <eos>`, with tokens hidden; <bos> is asked whether B follows A.

    A ends where a line ends. In half of the rows B is what follows, in the other half it begins with any line of
    the text. (Devlin et al. 2019, section 3.1, task 2.)
    """

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer, width: int):
        super().__init__(examples, tokenizer, width)
        self.lines = self.line_starts[self.line_starts > 0]
        if len(self.lines) < 2:
            raise UserError(
                "Pairs of texts are cut at the ends of lines, and there are fewer than three lines to learn from "
                "or to judge by.",
                location=self.location,
                hint="Give a text of more lines, or set target.kind=masked-tokens and objective.kind=masked-token.",
            )

    @property
    def row_width(self) -> int:
        """How wide a row is: a window, <bos> and twice <eos>."""
        return self.width + 3

    def masked_batch(self, starts: IntArray, indices: IntArray, uniforms: Uniforms, short: float) -> Batch:
        """Pairs whose first text ends at the first line end behind each start."""
        places = np.searchsorted(self.lines, starts) % len(self.lines)
        other = (uniforms[0][:, 3] * len(self.lines)).astype(np.int64)
        follows = uniforms[0][:, 2] < 0.5
        first, second = self.lines[places], self.lines[np.where(follows, places, other)]
        halves = np.maximum(1, self._widths(uniforms[0], short) // 2)
        rows = zip(first, second, halves, strict=True)
        spans = [[self.ids[max(0, end - half) : end], self.ids[start : start + half]] for end, start, half in rows]
        source, labels = self._mask_rows(spans, uniforms[1:])
        labels[:, 0] = torch.from_numpy(first == second)
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))


def encode_with_masks(text: str, tokenizer: Tokenizer) -> list[int]:
    """The ids of a text in which a person wrote [MASK] for what shall be guessed.

    Where pieces begin with the space before them, so does the hidden one: `the [MASK] sat` hides the piece " cat".
    """
    parts = text.split(MASK_TEXT)
    if len(parts) == 1:
        raise UserError(f"There is no {MASK_TEXT} in {text[:40]!r}.", hint=f"Write {MASK_TEXT} where to guess.")
    if tokenizer.mask_lstrip:
        parts = [part.removesuffix(" ") for part in parts[:-1]] + parts[-1:]
    first, *rest = tokenizer.encode_many(parts)
    return first + [number for ids in rest for number in (tokenizer.mask_id, *ids)]


def crop_around_masks(ids: list[int], mask: int, max_tokens: int) -> list[int]:
    """The ids, or of too many the part around the blanks; a text whose blanks lie too far apart is refused."""
    if len(ids) <= max_tokens:
        return ids
    first, last = ids.index(mask), len(ids) - 1 - ids[::-1].index(mask)
    if last - first >= max_tokens:
        what = f"From the first {MASK_TEXT} to the last there are {last - first + 1} tokens, and {max_tokens} are read."
        raise UserError(what, hint="Give the text in parts.")
    start = min(max(0, (first + last + 1 - max_tokens) // 2), len(ids) - max_tokens)
    return ids[start : start + max_tokens]
