"""Labeled texts and tagged sentences as token ids.

The label belongs to the whole text; of tagged words, the first token of each has the tag as its label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences, WordSequences
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.pair_dataset import MAX_SHOWN, EncodedTexts, IntArray, PairDataset, take_padded
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, UNK, Tokenizer


class LabeledTextDataset(PairDataset):
    """Texts with one of a few labels each: `<bos> x1 .. xn <eos>`, and the label id."""

    prefix_length = 1  # <bos>

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer, labels: Sequence[str], max_tokens: int):
        self.examples, self.max_tokens_by_side, self.tokenizers = (
            examples,
            {"source": max_tokens},
            {"source": tokenizer},
        )
        self.sides = {"source": EncodedTexts.of([example.source for example in examples], tokenizer, max_tokens)}
        self.labels = label_ids(examples, labels)

    @property
    def characters(self) -> int:
        """The total length of all texts, in characters."""
        return sum(len(example.source) for example in self.examples)

    def batch(self, indices: IntArray) -> Batch:
        """These texts and their labels, one per row."""
        side = self.sides["source"]
        values = take_padded(side.ids, *side.token_indices(indices, self.prefix_length), PAD)
        values[:, 0] = BOS
        source = Sequences(torch.from_numpy(values), torch.from_numpy(side.lengths[indices] + self.prefix_length))
        labels = torch.from_numpy(self.labels[indices][:, None])
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all token ids, of the tokenizer, and of the labels."""
        return hashlib.sha256(super().fingerprint.encode() + self.labels.astype("<i8").tobytes()).hexdigest()


def label_ids(examples: Sequence[Example], labels: Sequence[str]) -> NDArray[np.int64]:
    """The label id of each example; a label without an id is an error."""
    ids = {label: index for index, label in enumerate(labels)}
    for example in examples:
        if example.target not in ids:
            names = ", ".join(labels[:10]) + (", ..." if len(labels) > 10 else "")
            raise UserError(
                f"The label {example.target[:40]!r} does not occur in the training examples; there are: {names}.",
                location=example.location,
                hint="Add examples with this label to the training data, or correct it.",
            )
    return np.array([ids[example.target] for example in examples], np.int64)


def with_leading_space(word: str, kind: str) -> str:
    """A word with the leading space that it has in running text, where tokens include it and the script has spaces.

    >>> with_leading_space("cat", "bpe"), with_leading_space("猫", "bpe"), with_leading_space("cat", "characters")
    (' cat', '猫', 'cat')
    """
    return f" {word}" if kind in ("bpe", "unigram") and word[:1].isascii() else word


def encode_words(words: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> tuple[list[int], list[int]]:
    """The token ids of the first words that fit into `max_tokens` tokens, and for each token the number of its word.

    A word that alone has more tokens (a URL of hundreds of letters) is cut to half of them, so that other words fit.
    """
    ids, word_numbers = list[int](), list[int]()
    for number, token_ids in enumerate(
        tokenizer.encode_many([with_leading_space(word, tokenizer.kind) for word in words]), 1
    ):
        token_ids = token_ids or [UNK]  # a word without tokens counts as one unknown token
        if len(token_ids) > max_tokens:
            token_ids = token_ids[: max(max_tokens // 2, 1)]
        if len(ids) + len(token_ids) > max_tokens:
            break
        ids += token_ids
        word_numbers += [number] * len(token_ids)
    return ids, word_numbers


def long_words(words: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> list[str]:
    """The words that alone have more than `max_tokens` tokens."""
    # A token has at least one character, so most words need not be encoded.
    candidates = [word for word in words if len(word.encode()) >= max_tokens]
    return [word for word in candidates if len(tokenizer.encode(with_leading_space(word, tokenizer.kind))) > max_tokens]


class TaggedTextDataset(PairDataset):
    """Sentences of words: `<bos> tokens <eos>`; the label of each word's first token is its tag."""

    prefix_length = 1  # <bos>

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer, tags: Sequence[str], max_tokens: int):
        self.examples, self.max_tokens_by_side, self.tokenizers = (
            examples,
            {"source": max_tokens},
            {"source": tokenizer},
        )
        rows = [encode_words(example.source_words, tokenizer, max_tokens) for example in examples]
        self.cut_words = [
            (example.location or f"example {number}", word)
            for number, example in enumerate(examples, 1)
            for word in long_words(example.source_words, tokenizer, max_tokens)
        ]
        truncated = [
            index
            for index, (row, each) in enumerate(zip(rows, examples, strict=True))
            if _word_count(row) < len(each.source_words)
        ]
        starts = np.cumsum([0, *(len(ids) + 1 for ids, _ in rows)], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable((*ids, EOS) for ids, _ in rows), np.int32, count=int(starts[-1]))
        self.sides = {"source": EncodedTexts(ids, starts, np.array(truncated, np.int64))}
        self.words = np.fromiter(chain.from_iterable((*words, 0) for _, words in rows), np.int64, count=len(ids))
        self.tags = _tag_ids(examples, rows, tags)

    @property
    def characters(self) -> int:
        """The total length of all words, in characters."""
        return sum(len(word) for example in self.examples for word in example.source_words)

    def warnings(self) -> list[str]:
        """Warnings for the user, also about words that were cut."""
        if not self.cut_words:
            return super().warnings()
        shown = ", ".join(f"{location} {word[:20]}..." for location, word in self.cut_words[:MAX_SHOWN])
        limit = self.max_tokens_by_side["source"]
        cut = f"{len(self.cut_words)} words are longer than {limit} tokens and were cut: {shown}"
        return [*super().warnings(), cut + (", ..." if len(self.cut_words) > MAX_SHOWN else ".")]

    def batch(self, indices: IntArray) -> Batch:
        """These sentences, and the tag of each word."""
        side = self.sides["source"]
        token_indices, valid = side.token_indices(indices, self.prefix_length)
        columns = ((side.ids, PAD), (self.words, 0), (self.tags, IGNORE_INDEX))
        values, words, labels = (
            torch.from_numpy(take_padded(column, token_indices, valid, padding)) for column, padding in columns
        )
        values[:, 0] = BOS
        source = WordSequences(values, torch.from_numpy(side.lengths[indices] + self.prefix_length), words)
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all token ids, of the tokenizer, and of the tags."""
        return hashlib.sha256(super().fingerprint.encode() + self.tags.astype("<i8").tobytes()).hexdigest()


def _word_count(row: tuple[list[int], list[int]]) -> int:
    return row[1][-1] if row[1] else 0


def _tag_ids(
    examples: Sequence[Example], rows: Sequence[tuple[list[int], list[int]]], tags: Sequence[str]
) -> NDArray[np.int64]:
    """The tag id at the first token of each word; a tag without an id is an error."""
    tag_ids = {tag: index for index, tag in enumerate(tags)}
    labels: list[int] = []
    for example, (_, words) in zip(examples, rows, strict=True):
        for word, tag in zip(example.source_words, example.source_tags, strict=True):
            if tag not in tag_ids:
                raise UserError(
                    f"The tag {tag[:40]!r} (of the word {word[:40]!r}) does not occur in the training sentences.",
                    location=example.location,
                    hint="Add sentences with this tag to the training data, or correct it.",
                )
        previous = 0
        for word_number in words:
            labels.append(IGNORE_INDEX if word_number == previous else tag_ids[example.source_tags[word_number - 1]])
            previous = word_number
        labels.append(IGNORE_INDEX)  # <eos>
    return np.array(labels, np.int64)
