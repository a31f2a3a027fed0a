"""Words with a tag each, as numbers: words are cut into pieces, and the first piece of each is asked for its tag."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import NOT_ASKED, Batch, Worded
from seq2see.core.errors import UserError
from seq2see.sequences.buckets import Numbers
from seq2see.sequences.pairs import PairSet, Side, read_at
from seq2see.sequences.tokenisers import BOS, EOS, PAD, UNK, Tokeniser
from seq2see.sources.examples import Example


def spelled(word: str, kind: str) -> str:
    """A word as running text has it: pieces of words begin with the space before them, where the script has spaces.

    >>> spelled("cat", "bpe"), spelled("猫", "bpe"), spelled("cat", "characters")
    (' cat', '猫', 'cat')
    """
    return f" {word}" if kind in ("bpe", "unigram") and word[:1].isascii() else word


def cut_words(words: Sequence[str], tokeniser: Tokeniser, limit: int) -> tuple[list[int], list[int]]:
    """The pieces of as many words as fit into `limit` tokens, and the number of the word that each is part of."""
    ids, numbers = list[int](), list[int]()
    for number, pieces in enumerate(tokeniser.encode_many([spelled(word, tokeniser.kind) for word in words]), 1):
        pieces = pieces or [UNK]  # a word that nothing is left of is still a word
        if len(ids) + len(pieces) > limit:
            break
        ids += pieces
        numbers += [number] * len(pieces)
    return ids, numbers


class TaggedTexts(PairSet):
    """Sentences of words: `<bos> pieces <eos>`; at the first piece of each word its tag is asked for."""

    before = 1  # <bos>

    def __init__(self, examples: Sequence[Example], tokeniser: Tokeniser, tags: Sequence[str], limit: int):
        self.examples, self.limits, self.tokenisers = examples, {"source": limit}, {"source": tokeniser}
        rows = [cut_words(example.source_words, tokeniser, limit) for example in examples]
        cut = [
            place
            for place, (row, each) in enumerate(zip(rows, examples, strict=True))
            if _kept(row) < len(each.source_words)
        ]
        starts = np.cumsum([0, *(len(ids) + 1 for ids, _ in rows)], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable((*ids, EOS) for ids, _ in rows), np.int32, count=int(starts[-1]))
        self.sides = {"source": Side(ids, starts, np.array(cut, np.int64))}
        self.words = np.fromiter(chain.from_iterable((*words, 0) for _, words in rows), np.int64, count=len(ids))
        self.tags = _tag_numbers(examples, rows, tags)

    @property
    def characters(self) -> int:
        """How long all words are together, in characters."""
        return sum(len(word) for example in self.examples for word in example.source_words)

    def batch(self, indices: Numbers) -> Batch:
        """These sentences, and the tag of each word."""
        side = self.sides["source"]
        places, real = side.places(indices, self.before)
        columns = ((side.ids, PAD), (self.words, 0), (self.tags, NOT_ASKED))
        values, words, labels = (torch.from_numpy(read_at(column, places, real, empty)) for column, empty in columns)
        values[:, 0] = BOS
        source = Worded(values, torch.from_numpy(side.lengths[indices] + self.before), words)
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all ids, of the tokeniser that made them, and of the tags."""
        return hashlib.sha256(super().fingerprint.encode() + self.tags.astype("<i8").tobytes()).hexdigest()


def _kept(row: tuple[list[int], list[int]]) -> int:
    return row[1][-1] if row[1] else 0


def _tag_numbers(
    examples: Sequence[Example], rows: Sequence[tuple[list[int], list[int]]], tags: Sequence[str]
) -> NDArray[np.int64]:
    """At the first piece of each word the number of its tag; one that nobody has learnt is refused."""
    numbers = {tag: number for number, tag in enumerate(tags)}
    found: list[int] = []
    for example, (_, words) in zip(examples, rows, strict=True):
        for word, tag in zip(example.source_words, example.source_tags, strict=True):
            if tag not in numbers:
                raise UserError(
                    f"The tag {tag[:40]!r} (of the word {word[:40]!r}) does not occur in the training sentences.",
                    where=example.place,
                    remedy="Add sentences with this tag to the training data, or correct it.",
                )
        before = 0
        for place in words:
            found.append(NOT_ASKED if place == before else numbers[example.source_tags[place - 1]])
            before = place
        found.append(NOT_ASKED)  # <eos>
    return np.array(found, np.int64)
