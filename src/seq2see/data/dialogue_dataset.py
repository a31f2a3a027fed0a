"""Dialogues as the rows of a language model: each row is a dialogue, and only replies have labels (the loss mask).

A dialogue that is longer than a row becomes several rows. Each row after the first begins with whole messages of
earlier rows, as context without labels: so every reply has labels in exactly one row, and a history before it. In a
conversation, too, the oldest messages are left out when the context is full.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.data.chat_templates import BaseTemplate, EncodedMessage
from seq2see.data.dialogue import Dialogue
from seq2see.data.ngrams import IntArray
from seq2see.data.pair_dataset import MANY_UNKNOWN, EncodedTexts, padded_width
from seq2see.data.tokenizers.tokenizer import EOS, PAD, UNK, Tokenizer
from seq2see.data.windows import UNITS, Unit

CONTEXT_SHARE = 0.5
"""The largest share of a row after the first that is reserved for earlier messages."""


@dataclass(frozen=True)
class DialogueRow:
    """One row: the ids of messages, and for each id whether it is a label."""

    ids: list[int]
    label_mask: list[bool]
    dialogue: int
    """The index of its dialogue."""


class DialogueDataset:
    """Dialogues as token ids: the lengths for a batch sampler, and the batches."""

    def __init__(self, dialogues: Sequence[Dialogue], tokenizer: Tokenizer, template: BaseTemplate, max_tokens: int):
        self.examples, self.tokenizer, self.template, self.max_tokens = dialogues, tokenizer, template, max_tokens
        self.rows: list[DialogueRow] = []
        self.truncated: list[int] = []
        for index, dialogue in enumerate(dialogues):
            messages = template.encode(tokenizer, template.with_system(dialogue.messages))
            self.rows += self._rows(messages, index)

    def _rows(self, messages: list[EncodedMessage], index: int) -> list[DialogueRow]:
        """The rows of one dialogue; a message that is longer than a row is cut at its end."""
        start = self.template.start_ids(self.tokenizer)
        size = self.max_tokens + 1 - len(start)  # the last id of a row is a label only
        if any(len(each.ids) > size for each in messages):
            self.truncated.append(index)
            messages = [EncodedMessage(each.ids[:size], each.label_mask[:size], each.role) for each in messages]
        rows, begin = [], 0
        for first, last in pairwise([*_cuts([len(each.ids) for each in messages], size), len(messages)]):
            begin = first
            space = size - sum(len(each.ids) for each in messages[first:last])
            while begin > 0 and len(messages[begin - 1].ids) <= space:
                begin -= 1
                space -= len(messages[begin].ids)
            ids, label_mask = list(start), [False] * len(start)
            for number, each in enumerate(messages[begin:last], begin):
                ids += each.ids
                label_mask += each.label_mask if number >= first else [False] * len(each.ids)
            if any(label_mask):
                rows.append(DialogueRow(ids, label_mask, index))
        return rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary."""
        return len(self.tokenizer)

    @property
    def lengths(self) -> IntArray:
        """(row, 1): the number of input tokens of each row."""
        return np.array([[len(row.ids) - 1] for row in self.rows], dtype=np.int64).reshape(-1, 1)

    @property
    def unit(self) -> Unit:
        """The unit of a token: a character, a word, or (for subwords) a token."""
        return UNITS.get(self.tokenizer.kind, "token")

    @property
    def characters(self) -> int:
        """The total length of the replies, in characters."""
        return sum(len(each.messages[index].content) for each in self.examples for index in each.replies)

    @property
    def bytes(self) -> int:
        """The total length of the replies, in bytes of UTF-8."""
        return sum(len(each.messages[index].content.encode()) for each in self.examples for index in each.replies)

    def batch(self, indices: IntArray) -> Batch:
        """Inputs `x1 .. xn-1` and labels `x2 .. xn`, of which those outside of replies are ignored."""
        rows = [self.rows[int(index)] for index in indices]
        lengths = np.array([len(row.ids) - 1 for row in rows])
        shape = len(rows), int(padded_width(int(lengths.max())))
        inputs, labels = np.full(shape, PAD, np.int64), np.full(shape, IGNORE_INDEX, np.int64)
        for number, row in enumerate(rows):
            inputs[number, : lengths[number]] = row.ids[:-1]
            labels[number, : lengths[number]] = np.where(row.label_mask[1:], row.ids[1:], IGNORE_INDEX)
        target = Sequences(torch.from_numpy(inputs), torch.from_numpy(lengths))
        return Batch(None, target, torch.from_numpy(labels), torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all token ids and labels."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(repr((row.ids, row.label_mask)).encode())
        return digest.hexdigest()

    def warnings(self) -> list[str]:
        """Warnings for the user: messages that were cut, and unknown tokens."""
        warnings = []
        if self.truncated:
            first = self.examples[self.truncated[0]].location or f"dialogue {self.truncated[0] + 1}"
            count = (
                f"{len(self.truncated)} dialogues have a message longer than {self.max_tokens} tokens, which was cut"
            )
            warnings.append(f"{count}; the first: {first}.")
        if (unknown := self.unknown_rate) > MANY_UNKNOWN:
            warnings.append(f"{unknown:.1%} of the {self.unit}s are unknown.")
        return warnings

    @property
    def unknown_rate(self) -> float:
        """The share of tokens that are unknown to the tokenizer."""
        total = sum(len(row.ids) for row in self.rows)
        return sum(row.ids.count(UNK) for row in self.rows) / total if total else 0.0


def _cuts(lengths: list[int], size: int) -> list[int]:
    """The index of the first new message of each row, such that the messages of each row fit.

    Rows after the first have new messages up to the share 1 - `CONTEXT_SHARE` only, so that there is space for context.

    >>> _cuts([3, 3, 3, 3, 3, 3], 12)
    [0, 4]
    """
    cuts, used = [0], 0
    for index, length in enumerate(lengths):
        space = size if len(cuts) == 1 else int((1 - CONTEXT_SHARE) * size)
        if used + length > space and index > cuts[-1]:
            cuts.append(index)
            used = 0
        used += length
    return cuts


def encoded_rows(rows: list[list[int]], max_tokens: int, keep_end: bool = False) -> EncodedTexts:
    """Rows of token ids as one side of a `PairDataset`, each cut to `max_tokens` at its end or its beginning."""
    truncated = [index for index, row in enumerate(rows) if len(row) > max_tokens]
    rows = [row[-max_tokens:] if keep_end else row[:max_tokens] for row in rows]
    starts = np.cumsum([0, *(len(row) + 1 for row in rows)], dtype=np.int64)
    ids = np.array([each for row in rows for each in (*row, EOS)], dtype=np.int32)
    return EncodedTexts(ids, starts, np.array(truncated, dtype=np.int64))
