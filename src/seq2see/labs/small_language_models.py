"""Small language models on generated English sentences, trained for a few hundred steps: shared by several experiments.

Two models that are compared have the same sentences in the same order, the same steps and the same optimizer (Adam
without a schedule, one learning rate). What differs is in the file of the experiment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.layers.initialization import initialize
from seq2see.layers.positions import POSITIONS
from seq2see.models.embeddings_and_heads import HEADS, TOKEN_EMBEDDINGS
from seq2see.models.gpt import GPTDecoder
from seq2see.models.language_model import LanguageModel
from seq2see.models.recurrent import RecurrentDecoder, RecurrentDecoderSettings
from seq2see.models.transformer import TransformerSettings

SPECIAL, ROWS, LEARNING_RATE = 4, 32, 2e-3
MAX_SENTENCES = 8000


@dataclass(frozen=True)
class Sentences:
    """Sentences as rows of token ids from <bos> to <eos>, padded, and the size of the vocabulary."""

    train: Tensor
    valid: Tensor
    vocabulary: int


@cache
def english_sentences() -> Sentences:
    """The English side of pocket; all its words are in the vocabulary."""
    splits = PocketCorpus(size=MAX_SENTENCES).splits()
    texts = {name: [example.target.split() for example in splits[name]] for name in ("train", "valid")}
    words = sorted({word for rows in texts.values() for row in rows for word in row})
    ids = {word: SPECIAL + index for index, word in enumerate(words)}
    length = 2 + max(len(row) for rows in texts.values() for row in rows)

    def rows_of(name: str) -> Tensor:
        rows = torch.full((len(texts[name]), length), PAD)
        for index, row in enumerate(texts[name]):
            rows[index, : len(row) + 2] = torch.tensor([BOS, *(ids[word] for word in row), EOS])
        return rows

    return Sentences(rows_of("train"), rows_of("valid"), SPECIAL + len(words))


def batch_of(rows: Tensor) -> tuple[Batch, Tensor]:
    """The inputs of a language model, all tokens but the last one, and the labels, all but the first one."""
    rows = rows[:, : int((rows != PAD).sum(1).max())]
    lengths = (rows != PAD).sum(1) - 1
    inputs = Sequences(rows[:, :-1], lengths)
    labels = rows[:, 1:]
    return Batch(source=None, target=inputs, labels=labels, indices=torch.arange(len(rows))), labels


def gpt(width: int, depth: int, positions: str = "sinusoidal", head: str = "tied", **changes: object) -> LanguageModel:
    """A small GPT; the changes are settings of its blocks."""
    values = {"width": width, "depth": depth, "heads": 4, "dropout": 0.0} | changes
    decoder = GPTDecoder(TransformerSettings.model_validate(values), positions)
    return with_embedding(decoder, width, positions, head)


def recurrent(width: int, depth: int, cell: str) -> LanguageModel:
    """A small recurrent language model."""
    values = {"width": width, "depth": depth, "cell": cell, "attention": "none", "dropout": 0.0}
    decoder = RecurrentDecoder.from_settings(RecurrentDecoderSettings.model_validate(values), None)
    return with_embedding(decoder, width, "none", "tied")


def with_embedding(decoder: nn.Module, width: int, positions: str, head: str, scaled: bool = True) -> LanguageModel:
    """A decoder between an embedding of the words and a head, with the initial weights of this package."""
    table = nn.Embedding(english_sentences().vocabulary, width, padding_idx=PAD)
    embedding = TOKEN_EMBEDDINGS[scaled](table, POSITIONS[positions](width), 0.0)
    model = LanguageModel(embedding, decoder, HEADS[head](table))
    initialize(model, "xavier")
    return model


def loss_of(model: LanguageModel, rows: Tensor) -> Tensor:
    """The mean cross-entropy of the next token over all tokens of the rows."""
    batch, labels = batch_of(rows)
    return nn.functional.cross_entropy(model(batch).flatten(0, 1), labels.flatten(), ignore_index=PAD)


@torch.no_grad()
def valid_loss(model: LanguageModel, loss: Callable[[LanguageModel, Tensor], Tensor] = loss_of) -> float:
    """The loss on sentences that were not trained on."""
    model.eval()
    value = loss(model, english_sentences().valid[:500]).item()
    model.train()
    return value


def train(
    build: Callable[[], LanguageModel],
    seed: int,
    steps: int,
    sentences: int = MAX_SENTENCES,
    loss: Callable[[LanguageModel, Tensor], Tensor] = loss_of,
    learning_rate: Callable[[int], float] = lambda step: LEARNING_RATE,
    on_step: Callable[[int, LanguageModel], None] = lambda step, model: None,
) -> LanguageModel:
    """Train a new model; the order of the sentences depends on the seed alone."""
    seed_torch(seed, "weights")
    model, rng = build(), torch.Generator().manual_seed(derive_seed(seed, "batches"))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    rows = english_sentences().train[:sentences]
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.zero_grad()
        loss(model, rows[torch.randint(len(rows), (ROWS,), generator=rng)]).backward()
        optimizer.step()
        on_step(step, model)
    return model


def losses_by_step(
    build: Callable[[], LanguageModel], seed: int, steps: int, sentences: int = MAX_SENTENCES, points: int = 6
) -> tuple[list[int], list[float]]:
    """The validation losses at some steps of a training; their minimum is the loss with early stopping."""
    shown, losses = sorted({max(1, steps * index // points) for index in range(1, points + 1)}), []

    def record(step: int, model: LanguageModel) -> None:
        if step in shown:
            losses.append(valid_loss(model))

    train(build, seed, steps, sentences, on_step=record)
    return shown, losses
