"""Encoder-only models: an encoder of a whole text or image, and a head for labels, tags, tokens or embeddings.

Every encoder can be used: recurrent, TextCNN (Kim 2014), Transformer. Compare `language_model.py`: there a decoder
generates a text and each position depends on the positions before it; here every position may depend on the whole text,
and all outputs are computed at once.

* A *classifier* pools the hidden states to one vector, and predicts one label from it. Fine-tuning of a pretrained BERT
  needs less training (Devlin et al. 2019, section 4). Compare `bert.py`: the same encoder with another head.
* A *tagger* predicts a tag for every word of a text, such as its part of speech (token classification). Rare words
  consist of frequent subwords: most words that end in "-ly" are adverbs. So the encoder reads subwords or characters,
  and a word's vector is the mean of theirs (compare Ling et al. 2015, who read characters, and Devlin et al. 2019,
  section 5.3, who use the first subword). Or the encoder reads whole words, embedded by their character n-grams
  (`subword_ngrams.py`).
* A *sentence embedding* is the pooled vector itself, without a head: texts of similar meaning have a high cosine
  similarity (Reimers & Gurevych 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped  # noqa: F401 - annotations of inherited fields are evaluated here
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Batch, Images, PackedSequences, Sequences, WordSequences
from seq2see.layers.norms_and_dropout import Dropout
from seq2see.models.embeddings_and_heads import ClassificationHead


@dataclass(frozen=True)
class EncoderOutput(Sequences):
    """The hidden state of each position of the source, and one pooled vector for the whole source.

    The first encoder-decoders used only the pooled vector, the context vector C = q(h₁, ..., h_T) of the course notes;
    attention uses the hidden states h_t of all positions. Every encoder returns both, so that every decoder can use it.
    """

    pooled: Float[Tensor, "row width"]
    packed_source: PackedSequences | None = None
    """The source, if its rows are packed: the decoder needs its document ids for the attention mask."""


class EncoderModel(nn.Module):
    """An encoder and a head; subclasses differ in the hidden states that the head gets."""

    def __init__(self, source: nn.Module, encoder: nn.Module, head: nn.Module):
        super().__init__()
        self.source, self.encoder = source, encoder
        self.head: Any = head

    def forward(self, batch: Batch) -> Float[Tensor, "row position class"]:
        """The logits at every position that has an output."""
        return self.head(self.hidden(batch).values)

    def hidden(self, batch: Batch) -> Sequences:
        """The input of the head: here the hidden state of every token."""
        assert batch.source is not None, "an encoder model needs a source"
        encoded = self.encode(batch.source)
        return Sequences(encoded.values, encoded.lengths)

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """One vector for each whole text or image: here the encoder's own pooled vector."""
        return self.encode(source).pooled

    def encode(self, source: Sequences | Images) -> EncoderOutput:
        """The encoder output for the text or the image."""
        return self.encoder(self.source(source))


class Classifier(EncoderModel):
    """One label per text from a pooled vector: here the one that the encoder returns."""

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, classes: int):
        super().__init__(source, encoder, ClassificationHead(settings.width, classes))
        self.dropout = Dropout(settings.dropout)

    def hidden(self, batch: Batch) -> Sequences:
        """The pooled vector of each text or image, as a sequence of length 1."""
        assert batch.source is not None, "a classifier needs a text or an image"
        pooled = self.dropout(self.pooled(batch.source))
        return Sequences(pooled[:, None], torch.ones(len(pooled), dtype=torch.long, device=pooled.device))


class ClsClassifier(Classifier):
    """A classifier with BERT's pooler: tanh(h W + b), where h is the hidden state of <bos>.

    Devlin et al. 2019, section 3.1 ([CLS]): <bos> is the same in every text, so its hidden state holds information
    about the other tokens alone.
    """

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, classes: int):
        super().__init__(source, encoder, settings, classes)
        self.pooler = nn.Linear(settings.width, settings.width)

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """The pooler's output for <bos>."""
        return self.pooler(self.encode(source).values[:, 0]).tanh()


CLASSIFIERS = {"encoder": Classifier, "cls": ClsClassifier}


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


def normalized_embedding(model: EncoderModel, source: Sequences | Images) -> Float[Tensor, "row width"]:
    """The pooled vector of each text or image with length 1: dot products are cosine similarities."""
    return functional.normalize(model.pooled(source), dim=-1)


class EmbeddingModel(EncoderModel):
    """One vector per text by the encoder's own pooling: the masked mean for a Transformer."""

    def __init__(self, source: nn.Module, encoder: nn.Module):
        super().__init__(source, encoder, nn.Identity())

    def hidden(self, batch: Batch) -> Sequences:
        """The embedding of each text or image, as a sequence of length 1."""
        assert batch.source is not None, "an embedding model needs a source"
        vectors = normalized_embedding(self, batch.source)
        return Sequences(vectors[:, None], torch.ones_like(vectors[:, 0], dtype=torch.long))


class ClsEmbeddingModel(EmbeddingModel):
    """One vector per text: the hidden state of <bos>."""

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """The hidden state of <bos>."""
        return self.encode(source).values[:, 0]


EMBEDDING_MODELS = {"mean": EmbeddingModel, "cls": ClsEmbeddingModel}
