"""The contract of every decoder: a model with `start`, `step` and a forward pass over whole sequences.

A model that fulfills it can be decoded greedily, by sampling and by beam search. To test a model, add a `DecoderCase`
to `ALL_DECODERS` in `test_decoder_contract.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from seq2see.acceleration.native import NativeCache
from seq2see.core.batch import Sequences, clone_state, pick_rows, repeat_rows
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import GenerativeModel, Limits, decode
from seq2see.decoding.samplers import GreedySampler

ROWS, TIME = 3, 9


def default_full_logits(model: Any, source: Sequences | None, tokens: Tensor) -> Tensor:
    """The logits by the model's own method."""
    return model.forward_logits(source, tokens)


@dataclass(frozen=True)
class DecoderCase:
    """A model under test; `build` returns it in `eval` mode, the same at every call."""

    name: str
    build: Callable[[], GenerativeModel]
    vocab: int
    source: Callable[[], Sequences] | None = None
    """Sources of three rows with different lengths; None for a model without a source."""
    full_logits: Callable[[Any, Sequences | None, Tensor], Tensor] = default_full_logits
    """(model, source, tokens (row, time)) -> logits (row, time, vocab), all times at once."""
    tolerance: float = 1e-5
    max_length: int = TIME
    """The number of tokens that the tests use; fewer if the model's maximum is lower."""

    def __str__(self) -> str:
        return self.name


def sources(case: DecoderCase) -> Sequences | None:
    return case.source() if case.source else None


def random_tokens(case: DecoderCase, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randint(3, case.vocab, (ROWS, case.max_length), generator=random)


def rows_of(source: Sequences | None, rows: list[int]) -> Sequences | None:
    """A selection of rows with their padding."""
    return None if source is None else Sequences(source.values[rows], source.lengths[rows])


def step_through(model: GenerativeModel, source: Sequences | None, tokens: Tensor, chunk_sizes: list[int]) -> Tensor:
    """The logits of steps with chunks of these sizes; `max_length` is the number of tokens."""
    state, logits = model.start(source, tokens.size(0), tokens.size(1)), []
    for chunk in tokens.split(chunk_sizes, dim=1):
        new, state = model.step(chunk, state)
        logits.append(new)
    return torch.cat(logits, dim=1)


def tensors_of(state: Any) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif is_dataclass(state):
        for field in fields(state):
            yield from tensors_of(getattr(state, field.name))
    elif isinstance(state, tuple):
        for part in state:
            yield from tensors_of(part)
    else:
        assert state is None or isinstance(state, int | float | NativeCache), f"{type(state)} cannot be picked by row"


def close(case: DecoderCase, left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=case.tolerance, atol=case.tolerance)


class DecoderContract:
    """Subclasses are parametrized by `case`."""

    @pytest.fixture(autouse=True)
    def without_gradients(self):
        with torch.no_grad():
            yield

    def test_incremental_decoding_matches_the_full_forward_pass(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        whole = case.full_logits(model, source, tokens)
        time = tokens.size(1)
        assert whole.shape == (ROWS, time, case.vocab)
        first = time // 2
        for chunk_sizes in ([1] * time, [time], [first, 1, time - first - 1], [1, time - 1], [time - 1, 1]):
            close(case, step_through(model, source, tokens, chunk_sizes), whole)

    def test_future_tokens_change_nothing(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        before = case.full_logits(model, source, tokens)
        for time in range(1, tokens.size(1)):
            changed = tokens.clone()
            changed[:, time:] = random_tokens(case, seed=1)[:, time:]
            close(case, case.full_logits(model, source, changed)[:, :time], before[:, :time])

    def test_every_past_token_can_affect_some_later_logits(self, case):
        """Otherwise a model that ignores its input would pass the other tests."""
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        before = case.full_logits(model, source, tokens)
        for time in range(tokens.size(1)):
            changed = tokens.clone()
            changed[:, time] = torch.where(tokens[:, time] == 3, 4, 3)
            after = case.full_logits(model, source, changed)
            assert (after[:, time:] - before[:, time:]).abs().max() > 10 * case.tolerance

    def test_padding_in_the_source_changes_nothing(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        if source is None:
            return
        before = case.full_logits(model, source, tokens)
        width = [0, 0] * (source.values.dim() - 2)
        longer = torch.nn.functional.pad(source.values, (*width, 0, 4))
        noise = source.values[0, 0].expand_as(longer)  # valid values at the positions of the padding
        valid = Sequences(longer, source.lengths).valid.view(*longer.shape[:2], *[1] * (longer.dim() - 2))
        padded = Sequences(torch.where(valid, longer, noise), source.lengths)
        close(case, case.full_logits(model, padded, tokens), before)
        close(case, step_through(model, padded, tokens, [1] * tokens.size(1)), before)

    def test_the_source_matters(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        if source is None:
            return
        before = case.full_logits(model, source, tokens)
        after = case.full_logits(model, rows_of(source, [1, 2, 0]), tokens)
        assert (after - before).abs().amax(dim=(1, 2)).min() > 10 * case.tolerance

    def test_batch_elements_are_independent(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        steps = [1] * tokens.size(1)
        together = step_through(model, source, tokens, steps)
        for rows in ([0], [1], [2], [2, 0, 1], [1, 1]):
            alone = rows_of(source, rows)
            close(case, step_through(model, alone, tokens[rows], steps), together[rows])
            close(case, case.full_logits(model, alone, tokens[rows]), together[rows])

    def test_every_tensor_of_a_state_has_rows_first(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        state = model.start(source, ROWS, tokens.size(1))
        for _ in range(2):
            tensors = list(tensors_of(state))
            assert tensors
            assert all(tensor.dim() > 0 and tensor.size(0) == ROWS for tensor in tensors)
            _, state = model.step(tokens[:, :1], state)

    def test_picking_rows_is_reordering_the_input(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        rows, half = [2, 0, 0, 1], tokens.size(1) // 2
        _, state = model.step(tokens[:, :half], model.start(source, ROWS, tokens.size(1)))
        picked, _ = model.step(tokens[rows, half:], pick_rows(state, torch.tensor(rows)))
        expected = case.full_logits(model, rows_of(source, rows), tokens[rows])
        close(case, picked, expected[:, half:])

    def test_repeated_rows_are_independent(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        rows, half = [0, 0, 1, 1, 2, 2], tokens.size(1) // 2
        _, state = model.step(tokens[:, :half], model.start(source, ROWS, tokens.size(1)))
        other = tokens[rows].clone()
        other[1::2, half:] = random_tokens(case, seed=1)[:, half:]
        repeated, _ = model.step(other[:, half:], repeat_rows(state, 2))
        close(case, repeated, case.full_logits(model, rows_of(source, rows), other)[:, half:])

    def test_a_fork_leaves_the_original_alone(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        half = tokens.size(1) // 2
        _, state = model.step(tokens[:, :half], model.start(source, ROWS, tokens.size(1)))
        copy = clone_state(state)
        model.step(random_tokens(case, seed=1)[:, half:], copy)
        logits, _ = model.step(tokens[:, half:], state)
        close(case, logits, case.full_logits(model, source, tokens)[:, half:])

    def test_two_starts_share_nothing(self, case):
        model, source, tokens = case.build(), sources(case), random_tokens(case)
        half = tokens.size(1) // 2
        _, state = model.step(tokens[:, :half], model.start(source, ROWS, tokens.size(1)))
        step_through(model, source, random_tokens(case, seed=1), [tokens.size(1)])
        logits, _ = model.step(tokens[:, half:], state)
        close(case, logits, case.full_logits(model, source, tokens)[:, half:])

    def test_output_scores_match_teacher_forcing(self, case):
        """Log-probabilities of greedy and beam search equal those of one forward pass from <bos>."""
        model, source = case.build(), sources(case)
        prefix = Sequences.of([[4, 3], [], [5]]) if case.max_length > 3 else Sequences.of([[], [], []])
        limits = Limits(case.max_length - prefix.values.size(1))
        for sampler in (GreedySampler(), BeamSampler(3)):
            for row, hypotheses in enumerate(decode(model, source, sampler, limits, (), prefix)):
                for hypothesis in hypotheses:
                    labels = torch.tensor([[*hypothesis.tokens, *[2] * hypothesis.finished]])
                    inputs = torch.nn.functional.pad(labels, (1, 0), value=1)[:, :-1]
                    logits = case.full_logits(model, rows_of(source, [row]), inputs)
                    expected = logits.float().log_softmax(-1).gather(2, labels[:, :, None]).flatten()
                    close(case, torch.tensor(hypothesis.token_log_probabilities), expected)
