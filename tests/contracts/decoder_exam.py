"""The exam every decoder takes: anything with `start` and `step`, and a way to read a whole sequence at once.

A model that passes can be decoded greedily, by sampling and with beams. To enter one, add a `Candidate` to
`ALL_DECODERS` in `test_decoder_contract.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from seq2see.core.batch import Sequences
from seq2see.core.rows import fork, pick_rows, repeat_rows
from seq2see.decoding.beam import Beam
from seq2see.decoding.choosers import Greedy
from seq2see.decoding.engine import Decodes, Limits, decode
from seq2see.decoding.native import Store

ROWS, TIME = 3, 9


def read_whole(model: Any, source: Sequences | None, tokens: Tensor) -> Tensor:
    """Most models say it themselves."""
    return model.forward_logits(source, tokens)


@dataclass(frozen=True)
class Candidate:
    """A model that takes the exam; `build` gives it in `eval` mode, the same at every call."""

    name: str
    build: Callable[[], Decodes]
    vocab: int
    source: Callable[[], Sequences] | None = None
    """Sources for three rows, of different length; None for a model that has no source."""
    whole: Callable[[Any, Sequences | None, Tensor], Tensor] = read_whole
    """(model, source, tokens (row, time)) -> logits (row, time, vocab), all times at once."""
    tolerance: float = 1e-5
    longest: int = TIME
    """How many tokens it can read; nine are asked for where a model is not made for fewer."""

    def __str__(self) -> str:
        return self.name


def sources(candidate: Candidate) -> Sequences | None:
    return candidate.source() if candidate.source else None


def some_tokens(candidate: Candidate, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randint(3, candidate.vocab, (ROWS, candidate.longest), generator=random)


def rows_of(source: Sequences | None, rows: list[int]) -> Sequences | None:
    """Some rows with the padding they had."""
    return None if source is None else Sequences(source.values[rows], source.lengths[rows])


def step_through(model: Decodes, source: Sequences | None, tokens: Tensor, pieces: list[int]) -> Tensor:
    """The logits when tokens are stepped in pieces of these sizes; the room is exactly what is needed."""
    state, logits = model.start(source, tokens.size(0), tokens.size(1)), []
    for piece in tokens.split(pieces, dim=1):
        new, state = model.step(piece, state)
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
        assert state is None or isinstance(state, int | float | Store), f"{type(state)} cannot be picked by row"


def close(candidate: Candidate, left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=candidate.tolerance, atol=candidate.tolerance)


class DecoderExam:
    """Subclass it under a parametrisation by `candidate`."""

    @pytest.fixture(autouse=True)
    def without_gradients(self):
        with torch.no_grad():
            yield

    def test_stepping_equals_reading_whole(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        whole = candidate.whole(model, source, tokens)
        time = tokens.size(1)
        assert whole.shape == (ROWS, time, candidate.vocab)
        first = time // 2
        for pieces in ([1] * time, [time], [first, 1, time - first - 1], [1, time - 1], [time - 1, 1]):
            close(candidate, step_through(model, source, tokens, pieces), whole)

    def test_future_tokens_change_nothing(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        before = candidate.whole(model, source, tokens)
        for time in range(1, tokens.size(1)):
            changed = tokens.clone()
            changed[:, time:] = some_tokens(candidate, seed=1)[:, time:]
            close(candidate, candidate.whole(model, source, changed)[:, :time], before[:, :time])

    def test_every_past_token_can_matter_to_some_later_logits(self, candidate):
        """Otherwise the other tests would be passed by a model that reads nothing."""
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        before = candidate.whole(model, source, tokens)
        for time in range(tokens.size(1)):
            changed = tokens.clone()
            changed[:, time] = torch.where(tokens[:, time] == 3, 4, 3)
            after = candidate.whole(model, source, changed)
            assert (after[:, time:] - before[:, time:]).abs().max() > 10 * candidate.tolerance

    def test_padding_in_the_source_changes_nothing(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        if source is None:
            return
        before = candidate.whole(model, source, tokens)
        width = [0, 0] * (source.values.dim() - 2)
        longer = torch.nn.functional.pad(source.values, (*width, 0, 4))
        nonsense = source.values[0, 0].expand_as(longer)  # something that a source may hold, but not here
        real = Sequences(longer, source.lengths).real.view(*longer.shape[:2], *[1] * (longer.dim() - 2))
        padded = Sequences(torch.where(real, longer, nonsense), source.lengths)
        close(candidate, candidate.whole(model, padded, tokens), before)
        close(candidate, step_through(model, padded, tokens, [1] * tokens.size(1)), before)

    def test_the_source_matters(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        if source is None:
            return
        before = candidate.whole(model, source, tokens)
        after = candidate.whole(model, rows_of(source, [1, 2, 0]), tokens)
        assert (after - before).abs().amax(dim=(1, 2)).min() > 10 * candidate.tolerance

    def test_rows_do_not_talk(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        steps = [1] * tokens.size(1)
        together = step_through(model, source, tokens, steps)
        for rows in ([0], [1], [2], [2, 0, 1], [1, 1]):
            alone = rows_of(source, rows)
            close(candidate, step_through(model, alone, tokens[rows], steps), together[rows])
            close(candidate, candidate.whole(model, alone, tokens[rows]), together[rows])

    def test_every_tensor_of_a_state_has_rows_first(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        state = model.start(source, ROWS, tokens.size(1))
        for _ in range(2):
            found = list(tensors_of(state))
            assert found
            assert all(tensor.dim() > 0 and tensor.size(0) == ROWS for tensor in found)
            _, state = model.step(tokens[:, :1], state)

    def test_picking_rows_is_reordering_the_input(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        rows, half = [2, 0, 0, 1], tokens.size(1) // 2
        _, state = model.step(tokens[:, :half], model.start(source, ROWS, tokens.size(1)))
        picked, _ = model.step(tokens[rows, half:], pick_rows(state, torch.tensor(rows)))
        expected = candidate.whole(model, rows_of(source, rows), tokens[rows])
        close(candidate, picked, expected[:, half:])

    def test_repeated_rows_go_their_own_ways(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        rows, half = [0, 0, 1, 1, 2, 2], tokens.size(1) // 2
        _, state = model.step(tokens[:, :half], model.start(source, ROWS, tokens.size(1)))
        other = tokens[rows].clone()
        other[1::2, half:] = some_tokens(candidate, seed=1)[:, half:]
        repeated, _ = model.step(other[:, half:], repeat_rows(state, 2))
        close(candidate, repeated, candidate.whole(model, rows_of(source, rows), other)[:, half:])

    def test_a_fork_leaves_the_original_alone(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        half = tokens.size(1) // 2
        _, state = model.step(tokens[:, :half], model.start(source, ROWS, tokens.size(1)))
        copy = fork(state)
        model.step(some_tokens(candidate, seed=1)[:, half:], copy)
        logits, _ = model.step(tokens[:, half:], state)
        close(candidate, logits, candidate.whole(model, source, tokens)[:, half:])

    def test_two_starts_share_nothing(self, candidate):
        model, source, tokens = candidate.build(), sources(candidate), some_tokens(candidate)
        half = tokens.size(1) // 2
        _, state = model.step(tokens[:, :half], model.start(source, ROWS, tokens.size(1)))
        step_through(model, source, some_tokens(candidate, seed=1), [tokens.size(1)])
        logits, _ = model.step(tokens[:, half:], state)
        close(candidate, logits, candidate.whole(model, source, tokens)[:, half:])

    def test_answers_score_what_reading_them_whole_says(self, candidate):
        """Greedy and beam answers, each read back at once from <bos>."""
        model, source = candidate.build(), sources(candidate)
        prefix = Sequences.of([[4, 3], [], [5]]) if candidate.longest > 3 else Sequences.of([[], [], []])
        limits = Limits(candidate.longest - prefix.values.size(1))
        for chooser in (Greedy(), Beam(3)):
            for row, answers in enumerate(decode(model, source, chooser, limits, (), prefix)):
                for answer in answers:
                    said = torch.tensor([[*answer.tokens, *[2] * answer.finished]])
                    read = torch.nn.functional.pad(said, (1, 0), value=1)[:, :-1]
                    logits = candidate.whole(model, rows_of(source, [row]), read)
                    told = logits.float().log_softmax(-1).gather(2, said[:, :, None]).flatten()
                    close(candidate, torch.tensor(answer.token_log_probabilities), told)
