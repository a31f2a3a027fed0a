"""Weighted sums of log-probabilities: joint decoding and shallow fusion."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.data.tokenizers.tokenizer import BOS, EOS, UNK, Characters, train_tokenizer
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.ensemble import LogLinear, OtherVocabulary
from seq2see.decoding.samplers import GreedySampler

TOKENS = 7


class Table:
    """A model whose next token depends on the time alone: a row of logits for each."""

    def __init__(self, logits: torch.Tensor):
        self.logits = logits

    def start(self, source, rows, max_length):
        return torch.zeros(rows, dtype=torch.long)

    def step(self, tokens, state):
        times = state[:, None] + torch.arange(tokens.size(1))
        return self.logits[times.clamp(max=len(self.logits) - 1)], state + tokens.size(1)


def source(rows: int = 1) -> Sequences:
    return Sequences.of([[5]] * rows)


def test_the_score_is_the_weighted_sum_of_the_log_probabilities():
    first, second = (Table(torch.randn(3, TOKENS)) for _ in range(2))
    model = LogLinear([first, second], [0.7, 0.3])
    scores, _ = model.step(torch.tensor([[BOS, 5]]), model.start(source(), 1, 5))
    expected = 0.7 * first.logits[:2].log_softmax(-1) + 0.3 * second.logits[:2].log_softmax(-1)
    torch.testing.assert_close(scores[0], expected)


def test_decoding_sums_the_scores_and_does_not_normalize_them():
    first, second = (Table(torch.randn(6, TOKENS)) for _ in range(2))
    ((best, *_),) = decode(LogLinear([first, second], [2.0, 0.5]), source(), BeamSampler(20), Limits(5))
    labels = [*best.tokens, EOS] if best.finished else list(best.tokens)
    total = sum(
        2.0 * first.logits[t].log_softmax(-1)[token] + 0.5 * second.logits[t].log_softmax(-1)[token]
        for t, token in enumerate(labels)
    )
    assert best.log_probability == pytest.approx(float(total), rel=1e-4)


def test_each_model_can_veto():
    """The first prefers 4 to 5 a little; for the second 4 is out of the question."""
    first, second = torch.full((1, TOKENS), -20.0), torch.full((1, TOKENS), -20.0)
    first[0, 4], first[0, 5] = 0.2, 0.0
    second[0, 4], second[0, 5] = -20.0, 0.0
    ((alone,),) = decode(LogLinear([Table(first)], [1.0]), source(), GreedySampler(), Limits(1))
    ((both,),) = decode(LogLinear([Table(first), Table(second)], [0.7, 0.3]), source(), GreedySampler(), Limits(1))
    assert (alone.tokens, both.tokens) == ((4,), (5,))


def test_a_language_model_with_other_ids_scores_the_same_texts():
    own, ours = train_tokenizer(Characters(), ["abcd"]), train_tokenizer(Characters(), ["dcbx"])
    logits = torch.randn(4, len(own))
    model = OtherVocabulary(Table(logits), own, ours)
    scores, _ = model.step(torch.tensor([[BOS]]), model.start(None, 1, 4))
    truth = logits[0].log_softmax(-1)
    for letter in "bcd":
        assert scores[0, 0, ours.encode(letter)[0]] == truth[own.encode(letter)[0]]
    assert scores[0, 0, ours.encode("x")[0]] == truth[UNK]
    assert scores[0, 0, EOS] == 0


def test_a_language_model_with_other_ids_reads_its_own_ids():
    own, ours, read = train_tokenizer(Characters(), ["abcd"]), train_tokenizer(Characters(), ["dcbx"]), []

    class Reader(Table):
        def step(self, tokens, state):
            read.append(tokens.tolist())
            return super().step(tokens, state)

    model = OtherVocabulary(Reader(torch.randn(7, len(own))), own, ours)
    model.step(torch.tensor([[BOS, *ours.encode("bdx")]]), model.start(None, 1, 7))
    assert read == [[[BOS, *own.encode("bd"), UNK]]]
