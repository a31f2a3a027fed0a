"""Two tiny decoders, and slow but simple algorithms that check the results of decoding.

`TableModel` reads its logits from a table by the last two tokens; `HistoryModel` computes them from all past tokens and
from the source, and stores the past in a preallocated cache, as a Transformer does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2see.core.batch import Sequences
from seq2see.decoding.samplers import History

VOCAB = 6  # <pad> <bos> <eos> and three words
BOS, EOS, WORDS = 1, 2, (3, 4, 5)


@dataclass(frozen=True)
class Forbid:
    """A logits processor that forbids some tokens."""

    ids: tuple[int, ...]

    def __call__(self, history: History, scores: Tensor) -> Tensor:
        return scores.index_fill(1, torch.tensor(self.ids), -torch.inf)


@dataclass(frozen=True)
class TableState:
    last: Tensor  # (row,)


class TableModel:
    """Next-token logits from a table of the last two tokens, without a source."""

    def __init__(self, seed: int = 0, scale: float = 1.5):
        random = torch.Generator().manual_seed(seed)
        self.table = scale * torch.randn(VOCAB, VOCAB, VOCAB, generator=random, dtype=torch.float64)

    def start(self, source: Sequences | None, rows: int, max_length: int) -> TableState:
        return TableState(torch.zeros(rows, dtype=torch.long))

    def step(self, tokens: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        previous = torch.cat([state.last[:, None], tokens[:, :-1]], dim=1)
        return self.table[previous, tokens], TableState(tokens[:, -1])

    def forward_logits(self, source: Sequences | None, tokens: Tensor) -> Tensor:
        padded = torch.nn.functional.pad(tokens, (1, 0))
        return torch.stack([self.table[padded[:, t], padded[:, t + 1]] for t in range(tokens.size(1))], dim=1)


@dataclass(frozen=True)
class HistoryState:
    cache: Tensor  # (row, max_length, width), written in place
    time: Tensor  # (row,)
    memory: Tensor  # (row, width)


class HistoryModel:
    """Logits from all past tokens, weighted by position, and from the source."""

    def __init__(self, seed: int = 0, width: int = 7, scale: float = 2.0):
        random = torch.Generator().manual_seed(seed)
        self.embeddings = torch.randn(VOCAB, width, generator=random, dtype=torch.float64)
        self.readout = scale * torch.randn(width, VOCAB, generator=random, dtype=torch.float64)

    def memory(self, source: Sequences) -> Tensor:
        positions = torch.arange(1, source.values.size(1) + 1, dtype=torch.float64)
        weights = positions.cos() * source.valid
        return (weights[:, :, None] * self.embeddings[source.values]).sum(dim=1)

    def start(self, source: Sequences | None, rows: int, max_length: int) -> HistoryState:
        width = self.embeddings.size(1)
        memory = torch.zeros(rows, width, dtype=torch.float64) if source is None else self.memory(source)
        # Unwritten positions contain a huge number, so that a model that reads them fails its tests.
        cache = torch.full((rows, max_length, width), 1e6, dtype=torch.float64)
        return HistoryState(cache, torch.zeros(rows, dtype=torch.long), memory)

    def step(self, tokens: Tensor, state: HistoryState) -> tuple[Tensor, HistoryState]:
        times = state.time[:, None] + torch.arange(tokens.size(1))
        rows = torch.arange(tokens.size(0))[:, None]
        state.cache[rows, times] = self.embeddings[tokens]
        positions = torch.arange(state.cache.size(1))
        visible = positions <= times[:, :, None]  # (row, new, max_length)
        weights = (positions + 1.0).double().sin()
        past = torch.where(visible[..., None], weights[:, None] * state.cache[:, None], 0).sum(dim=2)
        logits = torch.tanh(past + state.memory[:, None]) @ self.readout
        return logits, HistoryState(state.cache, state.time + tokens.size(1), state.memory)

    def forward_logits(self, source: Sequences | None, tokens: Tensor) -> Tensor:
        weights = torch.arange(1, tokens.size(1) + 1, dtype=torch.float64).sin()
        past = (weights[:, None] * self.embeddings[tokens]).cumsum(dim=1)
        memory = 0 if source is None else self.memory(source)[:, None]
        return torch.tanh(past + memory) @ self.readout


def random_source(rows: int, seed: int = 0) -> Sequences:
    """Random sources of different lengths."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 6, (rows,), generator=random).tolist()
    return Sequences.of([torch.randint(3, VOCAB, (n,), generator=random).tolist() for n in lengths])


def select_rows(sequences: Sequences | None, rows: list[int]) -> Sequences | None:
    """Some rows of a batch, without superfluous padding."""
    if sequences is None:
        return None
    lengths = sequences.lengths[rows]
    return Sequences(sequences.values[rows, : int(lengths.max())], lengths)


def next_log_probabilities(model, source: Sequences | None, tokens: tuple[int, ...]) -> list[float]:
    """The log-probability of every token after <bos> and `tokens`, which are read one by one."""
    state = model.start(source, 1, len(tokens) + 1)
    for token in (BOS, *tokens):
        logits, state = model.step(torch.tensor([[token]]), state)
    return logits[0, -1].log_softmax(-1).tolist()


def rescore(model, source: Sequences | None, tokens: tuple[int, ...]) -> list[float]:
    """The log-probabilities of `tokens` (<eos> at their end if they have one), recomputed by stepping."""
    return [next_log_probabilities(model, source, tokens[:t])[token] for t, token in enumerate(tokens)]


def all_outputs(model, source: Sequences | None, max_length: int) -> Iterator[tuple[tuple[int, ...], float, bool]]:
    """All outputs of at most `max_length` tokens: (tokens without <eos>, log-probability, finished)."""

    def extend(tokens: tuple[int, ...], total: float):
        if len(tokens) == max_length:
            yield tokens, total, False
            return
        scores = next_log_probabilities(model, source, tokens)
        yield tokens, total + scores[EOS], True
        for word in WORDS:
            yield from extend((*tokens, word), total + scores[word])

    yield from extend((), 0.0)


def best_outputs(model, source: Sequences | None, max_length: int, score: Callable[[float, int], float]):
    """Brute force: every possible output with its score, best first."""
    outputs = [
        (score(total, len(tokens) + finished), tokens, finished)
        for tokens, total, finished in all_outputs(model, source, max_length)
    ]
    return sorted(outputs, key=lambda output: -output[0])
