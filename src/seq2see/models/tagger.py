"""Taggers: a tag for every word of a text, such as its part of speech (token classification).

Rare words consist of frequent subwords: most words that end in "-ly" are adverbs. So the encoder reads subwords or
characters, and a word's vector is the mean of theirs (compare Ling et al. 2015, who read characters, and Devlin et al.
2019, section 5.3, who use the first subword). Or the encoder reads whole words, embedded by their character n-grams
(`subword_ngrams.py`). Compare `classifier.py`: there one label for the whole text.
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
    """At each position the mean vector of its word; the positions outside words share the word id 0."""
    rows, times, _ = vectors.shape
    totals = vectors.new_zeros(rows, times + 1, vectors.size(-1)).scatter_add(1, _spread(words, vectors), vectors)
    counts = vectors.new_zeros(rows, times + 1).scatter_add(1, words, torch.ones_like(vectors[..., 0]))
    means = totals / counts.clamp(min=1)[..., None]
    return means.gather(1, _spread(words, vectors))


def _spread(words: Tensor, vectors: Tensor) -> Tensor:
    return words[..., None].expand_as(vectors)


class Tagger(Classifier):
    """One tag per word from the mean of its subwords; the label is at the first subword."""

    def hidden(self, batch: Batch) -> Sequences:
        """The vector of the word, at every position."""
        assert isinstance(batch.source, WordSequences), "a tagger needs words"
        encoded = self.encode(batch.source)
        return Sequences(self.dropout(mean_of_words(encoded.values, batch.source.word_ids)), encoded.lengths)


class FirstTokenTagger(Tagger):
    """One tag per word from its first subword (Devlin et al. 2019, section 5.3)."""

    def hidden(self, batch: Batch) -> Sequences:
        """The hidden state of every subword."""
        assert batch.source is not None, "a tagger needs a text"
        encoded = self.encode(batch.source)
        return Sequences(self.dropout(encoded.values), encoded.lengths)


class WordTagger(Tagger):
    """One tag per word, for an encoder over whole words (`subword_ngrams.py`)."""

    def hidden(self, batch: Batch) -> Sequences:
        """The hidden state of the word, at every character."""
        assert isinstance(batch.source, WordSequences), "a tagger needs words"
        hidden = self.dropout(self.encode(batch.source).values)
        words = batch.source.word_ids[..., None].expand(-1, -1, hidden.size(-1))
        return Sequences(hidden.gather(1, words), batch.source.lengths)


TAGGERS = {"mean": Tagger, "first": FirstTokenTagger}
