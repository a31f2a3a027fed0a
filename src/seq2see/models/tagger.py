"""Taggers: read a text, and give every word of it a tag, such as its part of speech.

A word may be rare, but its pieces seldom are: what ends in "-ly" is an adverb. So the encoder reads pieces of words, or
characters, and a word's vector is the mean of its pieces' (compare Ling et al. 2015, who read characters, and Devlin
et al. 2019, section 5.3, who take the first piece). Or it reads words that were put together from their letters before,
in which case there is nothing to take the mean of. Compare `classifier.py`: the same question, asked of each word.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2see.core.batch import Batch, Sequences, WordSequences
from seq2see.models.classifier import Classifier


def mean_of_words(
    vectors: Float[Tensor, "row time width"], words: Int[Tensor, "row time"]
) -> Float[Tensor, "row time width"]:
    """At each place the mean vector of the word it is part of; what is no word counts as one of its own."""
    rows, times, _ = vectors.shape
    totals = vectors.new_zeros(rows, times + 1, vectors.size(-1)).scatter_add(1, _spread(words, vectors), vectors)
    counts = vectors.new_zeros(rows, times + 1).scatter_add(1, words, torch.ones_like(vectors[..., 0]))
    means = totals / counts.clamp(min=1)[..., None]
    return means.gather(1, _spread(words, vectors))


def _spread(words: Tensor, vectors: Tensor) -> Tensor:
    return words[..., None].expand_as(vectors)


class Tagger(Classifier):
    """One answer a word; it is asked at the word's first piece."""

    def hidden(self, batch: Batch) -> Sequences:
        """The vector of its word, at every place."""
        assert isinstance(batch.source, WordSequences), "a tagger needs words"
        read = self.encode(batch.source)
        return Sequences(self.dropout(mean_of_words(read.values, batch.source.word_ids)), read.lengths)


class FirstTokenTagger(Tagger):
    """One answer a word, from the vector of its first piece alone (Devlin et al. 2019, section 5.3)."""

    def hidden(self, batch: Batch) -> Sequences:
        """The vector of the piece, at every place."""
        assert batch.source is not None, "a tagger needs a text"
        read = self.encode(batch.source)
        return Sequences(self.dropout(read.values), read.lengths)


class WordTagger(Tagger):
    """One answer a word, where the encoder has read whole words (`spelling.py`)."""

    def hidden(self, batch: Batch) -> Sequences:
        """The vector of its word, at every letter."""
        assert isinstance(batch.source, WordSequences), "a tagger needs words"
        read = self.dropout(self.encode(batch.source).values)
        words = batch.source.word_ids[..., None].expand(-1, -1, read.size(-1))
        return Sequences(read.gather(1, words), batch.source.lengths)


TAGGERS = {"mean": Tagger, "first": FirstTokenTagger}
