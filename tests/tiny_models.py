"""One tiny model of every family, and random pairs as their inputs, for the tests of invariants.

All weights differ from their initial values, so that no bias is 0, no norm 1 and no running statistic initial: a part
that is missing or applied twice changes the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import hypothesis
import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.data.ngrams import count_ngrams
from seq2see.data.tokenizers.tokenizer import SPECIAL_TOKENS, Characters, train_tokenizer
from seq2see.models.build import build_model, fresh_model
from seq2see.models.convolutional import GatedCNNSettings
from seq2see.models.language_model import LanguageModel
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.model_folder import Tokenizers
from seq2see.tasks.task import task_named
from seq2see.training.ngram_smoothing import SMOOTHINGS, load_levels

SOURCE_SIZE, TARGET_SIZE, WIDTH = 11, 13, 8
BOS, EOS, FIRST_WORD = 1, 2, 3


def transformer(**changes) -> TransformerSettings:
    return TransformerSettings(**{"width": WIDTH, "depth": 2, "heads": 2, "dropout": 0.2} | changes)


def recurrent_encoder(cell: str, bidirectional: bool = True) -> RecurrentEncoderSettings:
    return RecurrentEncoderSettings(width=WIDTH, depth=2, cell=cell, bidirectional=bidirectional, dropout=0.2)


def recurrent_decoder(cell: str, attention: str) -> RecurrentDecoderSettings:
    return RecurrentDecoderSettings(width=WIDTH, depth=2, cell=cell, attention=attention, dropout=0.2)


def gated_cnn() -> GatedCNNSettings:
    return GatedCNNSettings(width=WIDTH, depth=2, dropout=0.2)


def seq2seq_settings(encoder, decoder, positions: str = "sinusoidal", head: str = "tied") -> ModelSettings:
    embedding = TokenEmbeddingSettings(positions=positions)
    return ModelSettings(
        source=Text(embedding=embedding),
        target=TextTarget(embedding=embedding, head=head),
        encoder=encoder,
        decoder=decoder,
    )


FAMILIES = {
    "transformer, pre-norm": seq2seq_settings(transformer(), transformer()),
    "transformer, post-norm": seq2seq_settings(
        transformer(norm_order="post"), transformer(norm_order="post"), "learned", "untied"
    ),
    "transformer, rms norm": seq2seq_settings(transformer(norm="rms"), transformer(norm="rms")),
    "transformer, batch norm": seq2seq_settings(
        transformer(norm="batch"), transformer(norm="batch", norm_order="post")
    ),
    "transformer, power norm": seq2seq_settings(
        transformer(norm="power", norm_order="post"), transformer(norm="power")
    ),
    "recurrent, first state": seq2seq_settings(
        recurrent_encoder("rnn", False), recurrent_decoder("rnn", "none"), "none", "untied"
    ),
    "recurrent, every step": seq2seq_settings(
        recurrent_encoder("lstm"), recurrent_decoder("lstm", "context-vector"), "none"
    ),
    "recurrent, additive": seq2seq_settings(
        recurrent_encoder("gru"), recurrent_decoder("gru", "additive"), "none", "untied"
    ),
    "recurrent, dot": seq2seq_settings(
        recurrent_encoder("gru-reset-before"), recurrent_decoder("gru-reset-before", "dot"), "none"
    ),
    "recurrent, bilinear": seq2seq_settings(
        recurrent_encoder("lstm", False), recurrent_decoder("lstm", "bilinear"), "learned"
    ),
    "recurrent, scaled dot": seq2seq_settings(recurrent_encoder("gru"), recurrent_decoder("gru", "scaled-dot"), "none"),
    "convolutional to recurrent": seq2seq_settings(gated_cnn(), recurrent_decoder("gru", "additive")),
    "convolutional to transformer": seq2seq_settings(gated_cnn(), transformer()),
    "recurrent to transformer": seq2seq_settings(recurrent_encoder("gru"), transformer(norm_order="post")),
    "transformer to recurrent": seq2seq_settings(transformer(), recurrent_decoder("lstm", "dot")),
}


def untrained_model(task: str, settings: ModelSettings, size: int) -> nn.Module:
    """The model that a task builds, for vocabularies of this size; its weights are not initialized."""
    letters = "".join(chr(ord("a") + index) for index in range(size - len(SPECIAL_TOKENS)))
    tokenizer = train_tokenizer(Characters(), [letters])
    return task_named(task).build(settings, Tokenizers(tokenizer, tokenizer))


def perturbed_model(settings: ModelSettings, seed: int = 1, dtype: torch.dtype = torch.float32) -> Seq2Seq:
    """A model in `eval` mode whose weights and running statistics all differ from their initial values."""
    model = fresh_model(settings, (SOURCE_SIZE, TARGET_SIZE), "xavier", seed)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=random)
        for name, statistic in model.named_buffers():
            if "running" in name:  # a variance must stay positive
                statistic *= 0.5 + torch.rand(statistic.shape, generator=random)
                statistic += 0.2 * torch.rand(statistic.shape, generator=random)
    return model.to(dtype).eval()


def ngram_model(order: int, smoothing: str) -> LanguageModel:
    """An n-gram model of a random text."""
    settings = ModelSettings(decoder=NgramSettings(order=order, smoothing=smoothing))
    model = build_model(settings, TARGET_SIZE, TARGET_SIZE).eval()
    random = np.random.default_rng(order)
    ids = random.choice(np.arange(2, TARGET_SIZE), size=4000, p=random.dirichlet(np.ones(TARGET_SIZE - 2)))
    load_levels(model.decoder, SMOOTHINGS[smoothing]().levels(list(count_ngrams(ids, TARGET_SIZE, order))))
    return model


@cache
def tiny_model(name: str, dtype: torch.dtype = torch.float32) -> Seq2Seq:
    """The tiny model of a family; it is shared by all tests of a process, so they must not change it."""
    return perturbed_model(FAMILIES[name], dtype=dtype)


PRECISIONS = st.sampled_from([(torch.float32, 1e-4), (torch.float64, 1e-12)])
"""A dtype, and the tolerance between two computations of the same result in it (see `assert_same`)."""


def assert_same(left: Tensor, right: Tensor, tolerance: float) -> None:
    """Equal up to rounding errors, relative to the largest number: with a power norm the stream grows."""
    scale = 1 + float(right.detach().abs().max()) if right.numel() else 1.0
    torch.testing.assert_close(left, right, rtol=0, atol=tolerance * scale)


def few_examples(divisor: int = 8):
    """A fraction of the profile's examples, at least five, for properties that are slow or tested on every family."""
    return hypothesis.settings(max_examples=max(5, hypothesis.settings().max_examples // divisor))


lengths = st.lists(st.integers(1, 6), min_size=1, max_size=4)
"""The lengths of the rows of a batch."""


def random_ids(rows: list[int], size: int, seed: int) -> list[list[int]]:
    random = torch.Generator().manual_seed(seed)
    return [torch.randint(FIRST_WORD, size, (length,), generator=random).tolist() for length in rows]


def sources(rows: list[int], seed: int = 0) -> Sequences:
    return Sequences.of(random_ids(rows, SOURCE_SIZE, seed))


def pairs(rows: list[int], target_rows: list[int] | None = None, seed: int = 0) -> Batch:
    """A batch with sources and targets of these lengths; a target of n words has n + 1 labels."""
    words = random_ids(target_rows or rows[::-1], TARGET_SIZE, seed + 1)
    target = Sequences.of([[BOS, *row] for row in words])
    labels = Sequences.of([[*row, EOS] for row in words], padding=IGNORE_INDEX).values
    return Batch(sources(rows, seed), target, labels, torch.arange(len(rows)))


def pad_further(sequences: Sequences, extra: int, fill_value: Tensor | float) -> Sequences:
    """The sequences with more padding, all of which has another value."""
    values = torch.nn.functional.pad(sequences.values, (0, 0) * (sequences.values.dim() - 2) + (0, extra))
    longer = Sequences(values, sequences.lengths)
    valid = longer.valid.view(*longer.valid.shape, *[1] * (values.dim() - 2))
    return Sequences(torch.where(valid, values, torch.as_tensor(fill_value, dtype=values.dtype)), sequences.lengths)


def full_logits(model: Seq2Seq, source: Sequences, tokens: Tensor) -> Tensor:
    """The logits after every one of these tokens, in one forward pass."""
    rows, times = tokens.shape
    target = Sequences(tokens, torch.full((rows,), times))
    return model(Batch(source, target, torch.zeros_like(tokens), torch.arange(rows)))


def single_rows(batch: Batch) -> Iterator[Batch]:
    """Every row of a batch alone, without any padding."""
    for row in range(batch.indices.numel()):
        source, target = int(batch.source.lengths[row]), int(batch.target.lengths[row])
        yield Batch(
            Sequences(batch.source.values[row : row + 1, :source], batch.source.lengths[row : row + 1]),
            Sequences(batch.target.values[row : row + 1, :target], batch.target.lengths[row : row + 1]),
            batch.labels[row : row + 1, :target],
            batch.indices[row : row + 1],
        )
