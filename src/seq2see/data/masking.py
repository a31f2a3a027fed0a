"""Masked language modeling: mask tokens that the model has to predict (Devlin et al. 2019).

15 % of a text's tokens have a label. Of these 80 % are replaced by [MASK], 10 % by a random token, and 10 % stay: the
texts of downstream tasks have few [MASK]s or none, so the model must learn to represent every token that it reads, not
only masked ones (their appendix A.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import IGNORE_INDEX, Batch, SequencePairs
from seq2see.core.errors import UserError
from seq2see.core.seeds import generator
from seq2see.data.examples import Example
from seq2see.data.pair_dataset import IntArray
from seq2see.data.tokenizers.tokenizer import BOS, EOS, MASK_TEXT, PAD, UNK, Tokenizer
from seq2see.data.windows import TextDataset

MLM_PROBABILITY, MASK_REPLACE_PROBABILITY, RANDOM_REPLACE_PROBABILITY = 0.15, 0.8, 0.1
"""The share of tokens with a label; of these, the shares that are replaced by [MASK] and by a random token."""
SHORT_SEQUENCE_PROBABILITY = 0.25
"""The share of training windows that are shortened, because the texts of downstream tasks are usually shorter."""
EVALUATION_SEED = 0
"""The seed of the masks for evaluation: equal in all runs, so that runs can be compared."""

Uniforms = NDArray[np.float64]


def mask_tokens(ids: IntArray, uniforms: Uniforms, mask_id: int) -> tuple[IntArray, IntArray]:
    """Rows with some tokens masked, and the labels.

    `uniforms` has three numbers in [0, 1) for each position: they determine whether it is selected, how it is replaced,
    and by which random token. <bos>, <eos> and unknown tokens are never selected. `mask_id` is the last id of the
    vocabulary, so all other ids are smaller.
    """
    selection, replacement, random_token = uniforms
    can_be_masked = ids > UNK
    count = np.maximum(1, np.round(MLM_PROBABILITY * can_be_masked.sum(-1, keepdims=True)))
    ranks = np.where(can_be_masked, selection, 1.0).argsort(-1, kind="stable").argsort(-1, kind="stable")
    selected = can_be_masked & (ranks < count)
    random_ids = UNK + 1 + (random_token * (mask_id - UNK - 1)).astype(np.int64)
    inputs = np.where(selected & (replacement < MASK_REPLACE_PROBABILITY), mask_id, ids)
    inputs = np.where(selected & (replacement >= 1 - RANDOM_REPLACE_PROBABILITY), random_ids, inputs)
    return inputs, np.where(selected, ids, IGNORE_INDEX)


class MaskedTextDataset(TextDataset):
    """Windows of running text, each `<bos> x1 .. xn <eos>` with some of its tokens masked.

    In training they are masked anew at every step; in evaluation the masks depend on the window's index alone.
    """

    setting = "source.max_tokens"

    def batch(self, indices: IntArray) -> Batch:
        """These windows, with the masks for evaluation."""
        uniforms = [generator(EVALUATION_SEED, "blanks", int(index)).random((4, self.row_width)) for index in indices]
        return self.masked_batch(self.starts[indices], indices, np.stack(uniforms, axis=1), short=0.0)

    def training_batch(self, starts: IntArray, indices: IntArray, seed: int, step: int) -> Batch:
        """Windows that start at any position, with the masks of one training step."""
        uniforms = generator(seed, "blanks", step).random((4, len(starts), self.row_width))
        return self.masked_batch(starts, indices, uniforms, short=SHORT_SEQUENCE_PROBABILITY)

    @property
    def row_width(self) -> int:
        """The width of a row: a window, <bos> and <eos>."""
        return self.width + 2

    def masked_batch(self, starts: IntArray, indices: IntArray, uniforms: Uniforms, short: float) -> Batch:
        """Windows with masked tokens; the first of the four tables of uniforms is for decisions about whole rows."""
        widths = self._widths(uniforms[0], short)
        spans = [[self.ids[start : start + width]] for start, width in zip(starts, widths, strict=True)]
        source, labels = self._mask_rows(spans, uniforms[1:])
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))

    def _widths(self, uniforms: Uniforms, short: float) -> IntArray:
        """The number of tokens in each row: the window's width, or for a share of the rows a random length."""
        random_widths = 1 + (uniforms[:, 1] * self.width).astype(np.int64)
        return np.where(uniforms[:, 0] < short, random_widths, self.width)

    def _mask_rows(
        self, spans: Sequence[Sequence[NDArray[np.int32]]], uniforms: Uniforms
    ) -> tuple[SequencePairs, torch.Tensor]:
        """Rows `<bos> span <eos>` or `<bos> span <eos> span <eos>`, with tokens masked, and the labels."""
        ids, token_type_ids = np.full((2, len(spans), self.row_width), PAD, dtype=np.int64)
        lengths = np.zeros(len(spans), np.int64)
        for row, texts in enumerate(spans):
            ids[row, 0], end = BOS, 1
            for number, text in enumerate(texts):
                start, end = end, end + len(text) + 1
                ids[row, start : end - 1], ids[row, end - 1] = text, EOS
                token_type_ids[row, start:end] = number
            lengths[row] = end
        inputs, labels = mask_tokens(ids, uniforms, self.tokenizer.mask_id)
        values, segments = torch.from_numpy(inputs), torch.from_numpy(token_type_ids)
        return SequencePairs(values, torch.from_numpy(lengths), segments), torch.from_numpy(labels)


class MaskedTextPairDataset(MaskedTextDataset):
    """Two texts per row, `<bos> A <eos> B <eos>`, with tokens masked; the label of <bos> is whether B follows A.

    A ends at the end of a line. In half of the rows B is the text after A, in the other half it starts at a random
    line. (Devlin et al. 2019, section 3.1, task 2.)
    """

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer, width: int):
        super().__init__(examples, tokenizer, width)
        self.lines = self.line_starts[self.line_starts > 0]
        if len(self.lines) < 2:
            raise UserError(
                "Pairs of texts are cut at the ends of lines, and the text for training or evaluation has fewer than "
                "three lines.",
                location=self.location,
                hint="Give a text of more lines, or set target.kind=masked-tokens and objective.kind=masked-token.",
            )

    @property
    def row_width(self) -> int:
        """The width of a row: a window, <bos> and twice <eos>."""
        return self.width + 3

    def masked_batch(self, starts: IntArray, indices: IntArray, uniforms: Uniforms, short: float) -> Batch:
        """Pairs whose first text ends at the first end of a line after each start."""
        next_lines = np.searchsorted(self.lines, starts) % len(self.lines)
        random_lines = (uniforms[0][:, 3] * len(self.lines)).astype(np.int64)
        follows = uniforms[0][:, 2] < 0.5
        first, second = self.lines[next_lines], self.lines[np.where(follows, next_lines, random_lines)]
        halves = np.maximum(1, self._widths(uniforms[0], short) // 2)
        rows = zip(first, second, halves, strict=True)
        spans = [[self.ids[max(0, end - half) : end], self.ids[start : start + half]] for end, start, half in rows]
        source, labels = self._mask_rows(spans, uniforms[1:])
        labels[:, 0] = torch.from_numpy(first == second)
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))


def encode_with_masks(text: str, tokenizer: Tokenizer) -> list[int]:
    """The token ids of a text that contains [MASK].

    With tokens that include the preceding space, so does the mask: `the [MASK] sat` masks the token " cat".
    """
    parts = text.split(MASK_TEXT)
    if len(parts) == 1:
        raise UserError(f"There is no {MASK_TEXT} in {text[:40]!r}.", hint=f"Write {MASK_TEXT} for each masked token.")
    if tokenizer.mask_lstrip:
        parts = [part.removesuffix(" ") for part in parts[:-1]] + parts[-1:]
    first, *rest = tokenizer.encode_many(parts)
    return first + [token for ids in rest for token in (tokenizer.mask_id, *ids)]


def crop_around_masks(ids: list[int], mask_id: int, max_tokens: int) -> list[int]:
    """The ids, cropped around the masks if there are too many; masks that are too far apart are an error."""
    if len(ids) <= max_tokens:
        return ids
    first, last = ids.index(mask_id), len(ids) - 1 - ids[::-1].index(mask_id)
    if last - first >= max_tokens:
        message = f"The first and the last {MASK_TEXT} span {last - first + 1} tokens; the model reads {max_tokens}."
        raise UserError(message, hint="Split the text into parts.")
    start = min(max(0, (first + last + 1 - max_tokens) // 2), len(ids) - max_tokens)
    return ids[start : start + max_tokens]
