"""Fast loops and searches for decoding, with the results of the plain ones.

On a CPU (`CPULoop`) every operator counts: rows that are done are dropped from the batch, rows that stay in place are
not copied, the step of beam search is one call of C++, and large vocabularies are searched block by block. On a GPU
(`GPULoop`) a row more costs no time, but reading a number waits for all kernels: nothing is read in most steps.

The definitions are `DecodingLoop` (decoding/engine.py), `IndependentSearch` (decoding/samplers.py) and `BeamSearch`
(decoding/beam.py); tests/acceleration/test_fast_search.py compares them.

In C++ the step of beam search is one call, and the merge of finished hypotheses another: with a small model and few
inputs, the thirty operators of a step take longer than the model. The definitions are `BeamSearch.advance` and
`BeamSearch.store_finished` (decoding/beam.py), `cpp/beam_step.hpp` and `cpp/beam_hypotheses.hpp` compute the same;
tests/acceleration/test_native_beam.py checks that both results are equal to the last bit.

Top-k and argmax of a large vocabulary have two stages: the vocabulary is divided into blocks, and only the blocks with
the highest maxima are searched. The maximum of a block is fast (SIMD instructions); finding its index is slow.
`blockwise_topk` and `blockwise_argmax` are for a CPU. Their definitions are `stable_topk` (decoding/samplers.py) and
`torch.argmax`, and `strided_topk`, for a GPU, is `torch.topk`; tests/acceleration/test_topk.py compares them.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.acceleration.compiler import native_library_if_loaded
from seq2see.core.batch import Images, Sequences, pick_rows, reorder_rows
from seq2see.data.tokenizers.tokenizer import EOS, PAD
from seq2see.decoding.beam import BeamHypotheses, BeamSampler, BeamSearch
from seq2see.decoding.engine import DecodingLoop, GenerativeModel
from seq2see.decoding.samplers import (
    DecodingStep,
    GreedySampler,
    History,
    Hypothesis,
    IndependentSearch,
    RandomSampler,
    Search,
)

MAX_NATIVE_BEAMS = 32
"""The maximum `width` in C++, which sorts the best candidates by insertion."""
SOME_ENDED, SOME_EXHAUSTED, NAN_SCORES = 1, 2, -1  # return values of `native_beam_step`, as in cpp/beam_step.hpp
BeamStepFields = ctypes.c_int64 * 22
"""The fields of `BeamStep` in cpp/beam_step.hpp (numbers and addresses), in its order."""
AddFinishedFields = ctypes.c_int64 * 19
"""The fields of `AddFinished` in cpp/beam_hypotheses.hpp (numbers and addresses), in its order."""


@dataclass(frozen=True)
class EndedCandidates:
    """The `width` best continuations of each input, and which of them end in <eos>."""

    sums: Float[Tensor, "input width"]
    parents: Int[Tensor, "input width"]
    is_eos: Bool[Tensor, "input width"]


@dataclass(frozen=True)
class NativeStep:
    """The result of a step: the best `width` continuations of each input that do not end in <eos>."""

    sums: Float[Tensor, "input width"]
    step: DecodingStep
    history: History
    ended: EndedCandidates | None
    """None if no hypothesis of an unfinished input ended."""
    maybe_exhausted: bool
    """False if every input certainly has a live hypothesis with a probability above 0."""


def native_beam_step(
    scores: Float[Tensor, "row vocab"],
    sums: Float[Tensor, "input width"],
    done: Bool[Tensor, "input"],
    history: History,
) -> NativeStep | None:
    """Extend every hypothesis and find the best; None if the library is not available, or if a score is NaN."""
    library: Any = native_library_if_loaded()
    inputs, width = sums.shape
    if library is None or not is_compatible(scores, width, (sums, history.log_probabilities), (done, history.tokens)):
        return None
    rows = inputs * width
    new_sums, log_probabilities, ended_sums = torch.empty_like(sums), scores.new_empty(rows), scores.new_empty(rows)
    parents, tokens, ended_parents = (history.tokens.new_empty(rows) for _ in range(3))
    is_eos = done.new_empty(rows)
    new_tokens, new_log_probabilities = torch.empty_like(history.tokens), torch.empty_like(history.log_probabilities)
    sizes = (inputs, width, scores.size(1), scores.stride(0), new_tokens.size(1), history.time, EOS, PAD)
    tensors = (
        scores, sums, done, history.tokens, history.log_probabilities,
        new_sums, parents, tokens, log_probabilities, new_tokens, new_log_probabilities,
        ended_sums, ended_parents, is_eos,
    )  # fmt: skip
    flags = library.native_beam_step(BeamStepFields(*sizes, *[tensor.data_ptr() for tensor in tensors]))
    if flags == NAN_SCORES:
        return None
    ended = None
    if flags & SOME_ENDED:
        shape = (inputs, width)
        ended = EndedCandidates(ended_sums.view(shape), ended_parents.view(shape), is_eos.view(shape))
    return NativeStep(
        new_sums,
        DecodingStep(tokens, log_probabilities, parents),
        History(new_tokens, new_log_probabilities, history.prompt_lengths, history.time + 1),
        ended,
        maybe_exhausted=bool(flags & SOME_EXHAUSTED),
    )


def native_add_finished(
    stored: BeamHypotheses,
    scores: Float[Tensor, "row vocab"],
    finished_scores: Float[Tensor, "input width"],
    parents: Int[Tensor, "input width"],
    history: History,
) -> BeamHypotheses | None:
    """Append <eos> to the parents and merge them into the stored hypotheses; None as in `native_beam_step`.

    `finished_scores` is minus infinity for continuations that do not end.
    """
    library: Any = native_library_if_loaded()
    inputs, width = finished_scores.shape
    floats = (finished_scores, history.log_probabilities, stored.scores, stored.log_probabilities)
    integers = (parents, history.tokens, stored.lengths, stored.tokens)
    if library is None or not is_compatible(scores, width, floats, integers):
        return None
    new = BeamHypotheses(*(torch.empty_like(getattr(stored, field.name)) for field in fields(BeamHypotheses)))
    sizes = (inputs, width, scores.stride(0), history.tokens.size(1), history.time, EOS)
    tensors = (
        scores, finished_scores, parents, history.tokens, history.log_probabilities,
        stored.scores, stored.lengths, stored.tokens, stored.log_probabilities,
        new.scores, new.lengths, new.tokens, new.log_probabilities,
    )  # fmt: skip
    flags = library.native_add_finished(AddFinishedFields(*sizes, *[tensor.data_ptr() for tensor in tensors]))
    return None if flags == NAN_SCORES else new


def is_compatible(scores: Tensor, width: int, floats: Sequence[Tensor], integers: Sequence[Tensor]) -> bool:
    """Whether C++ supports the devices, types and layouts of the tensors, and the sizes of beam and vocabulary."""
    if not scores.is_cpu or scores.dtype != torch.float32 or scores.stride(1) != 1:
        return False
    if width > MAX_NATIVE_BEAMS or scores.size(1) < 2:
        return False
    if not all(tensor.is_contiguous() for tensor in (*floats, *integers)):
        return False
    return all(tensor.dtype == torch.float32 for tensor in floats)


BLOCK = 64
ONE_STAGE_LIMIT = 1 << 14
"""Up to this number of scores (of all rows together) one stage is as fast as two."""


def blockwise_topk(
    scores: Float[Tensor, "row vocab"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The `count` highest scores of each row and their indices; among equals the lower index comes first.

    >>> blockwise_topk(torch.tensor([[0.0, 2.0, 1.0, 2.0]]), 2)[1].tolist()
    [[1, 3]]
    """
    if scores.size(1) <= max(count, BLOCK):
        return _sorted_topk(scores, count)
    best, indices = _unstable_topk(scores, count + 1)
    if (best[:, 1:] == best[:, :-1]).any():
        return _sorted_topk(scores, count)
    return best[:, :count], indices[:, :count]


def blockwise_argmax(scores: Float[Tensor, "row vocab"]) -> Int[Tensor, "row"]:
    """The index of the highest score of each row; among equals the lowest index.

    >>> blockwise_argmax(torch.tensor([[0.0, 2.0, 1.0, 2.0]])).tolist()
    [1]
    """
    if scores.numel() <= ONE_STAGE_LIMIT:
        return scores.argmax(dim=1)
    block = _block_maxima(scores).argmax(dim=1, keepdim=True)
    candidates, indices = _gather_blocks(scores, block)
    return indices.gather(1, candidates.argmax(dim=1, keepdim=True)).squeeze(1)


def strided_topk(
    scores: Float[Tensor, "row vocab"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """Top-k for a GPU: blocks are strided, so that adjacent threads read adjacent scores.

    The order of equals is undefined: checking for equals takes longer than the rest of the step. A row with fewer than
    `count` scores returns all of them.
    """
    count = min(count, scores.size(1))
    columns = scores.size(1) // BLOCK
    if columns <= count:
        return scores.topk(count, dim=1)
    best_columns = scores[:, : columns * BLOCK].unflatten(1, (BLOCK, columns)).amax(dim=1).topk(count, dim=1).indices
    steps = torch.arange(0, columns * BLOCK, columns, device=scores.device)
    remainder = torch.arange(columns * BLOCK, scores.size(1), device=scores.device).expand(scores.size(0), -1)
    indices = torch.cat([(best_columns[:, :, None] + steps).flatten(1), remainder], dim=1)
    best, positions = scores.gather(1, indices).topk(count, dim=1)
    return best, indices.gather(1, positions)


def _unstable_topk(scores: Float[Tensor, "row vocab"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """The highest scores and their indices; the order of equal scores is undefined."""
    if scores.numel() <= ONE_STAGE_LIMIT or scores.size(1) <= count * BLOCK:
        return scores.topk(count, dim=1)
    # The `count` blocks with the highest maxima contain the `count` highest scores: a score in any other block is not
    # higher than those maxima. If the maxima of two blocks are equal and only one block is selected, its maximum
    # equals the last of the best scores, so that the caller detects the tie.
    candidates, indices = _gather_blocks(scores, _block_maxima(scores).topk(count, dim=1).indices)
    best, positions = candidates.topk(count, dim=1)
    return best, indices.gather(1, positions)


def _sorted_topk(scores: Float[Tensor, "row vocab"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """Top-k by stable sorts of `count` blocks: sorting whole vocabularies would be slow."""
    if scores.size(1) <= count * BLOCK:
        return _sorted(scores, count)
    # Blocks in ascending order, so that among equal scores the lower index comes first.
    blocks = _sorted(_block_maxima(scores), count)[1].sort(dim=1).values
    candidates, indices = _gather_blocks(scores, blocks)
    best, positions = _sorted(candidates, count)
    return best, indices.gather(1, positions)


def _block_maxima(scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row block"]:
    full_blocks = scores.size(1) // BLOCK
    best = scores[:, : full_blocks * BLOCK].unflatten(1, (full_blocks, BLOCK)).amax(dim=2)
    if full_blocks * BLOCK == scores.size(1):
        return best
    return torch.cat([best, scores[:, full_blocks * BLOCK :].amax(dim=1, keepdim=True)], dim=1)


def _gather_blocks(
    scores: Float[Tensor, "row vocab"], blocks: Int[Tensor, "row block"]
) -> tuple[Float[Tensor, "row candidate"], Int[Tensor, "row candidate"]]:
    """The scores of some blocks, concatenated, and their indices."""
    indices = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if scores.size(1) % BLOCK == 0:
        return scores.gather(1, indices), indices
    out_of_range = indices >= scores.size(1)  # the last block is shorter than the others
    return scores.gather(1, indices.masked_fill(out_of_range, 0)).masked_fill(out_of_range, -torch.inf), indices


def _sorted(scores: Float[Tensor, "row vocab"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    best, indices = scores.sort(dim=1, descending=True, stable=True)
    return best[:, :count], indices[:, :count]


DROP_DONE_RATIO = 4
"""Done rows are dropped when at least one row in this many is done: dropping copies the state of all other rows."""
DONE_CHECK_INTERVAL = 8
"""On a GPU, the number of steps between two checks of which rows are done."""


class FastSearchModel:
    """A model whose search is fast: the plain model itself, or a copy that is fast in another way."""

    def __init__(self, model: GenerativeModel, decoding_loop: type[DecodingLoop]):
        self.model, self.decoding_loop = model, decoding_loop

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> Any:
        """Return the state before the first token."""
        return self.model.start(source, rows, max_length)

    def step(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row new vocab"], Any]:
        """Read one or more tokens of each row."""
        return self.model.step(tokens, state)


class FastSearch:
    """What all fast searches have in common: before the smallest maximum length, no tensor is compared with it."""

    max_lengths: Tensor
    done: Tensor
    history: History

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        max_lengths = self.max_lengths.tolist()
        self.smallest_max_length, self.largest_max_length = min(max_lengths), max(max_lengths)

    def stop_at_max_length(self) -> None:
        """Mark what has its maximum length as done."""
        if self.history.time >= self.smallest_max_length:
            super().stop_at_max_length()  # type: ignore[misc]


# --- CPU ---


class CPUSearch(FastSearch):
    """A search that stores the results of finished units and removes their rows.

    `done` has one flag for each row, or in beam search for each input; both are called units here.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.units = list(range(self.done.size(0)))  # the index of each unit in the batch
        self.dropped_results: dict[int, Any] = {}

    @property
    def finished(self) -> bool:
        """Whether all units are done; searching a list is faster than an operator of torch."""
        return False not in self.done.tolist()

    def drop_done(self) -> Int[Tensor, "remaining"] | None:
        """Store the results of units that are done and drop them; return the remaining rows. None: few are done."""
        done = self.done.tolist()
        if done.count(True) * DROP_DONE_RATIO < len(done):
            return None
        dropped: Any = copy.copy(self)
        dropped.keep(self.done.nonzero().squeeze(1))
        self.dropped_results |= zip(dropped.units, dropped.hypotheses(), strict=True)
        return self.keep((~self.done).nonzero().squeeze(1))

    def keep(self, units: Int[Tensor, "unit"]) -> Int[Tensor, "remaining"]:
        """Keep only these units; return their rows."""
        raise NotImplementedError

    def with_dropped(self, hypotheses: list[Any]) -> list[Any]:
        """The results of all units of the batch: those of the remaining units, and of those that were dropped."""
        results = self.dropped_results | dict(zip(self.units, hypotheses, strict=True))
        return [results[unit] for unit in range(len(results))]


class CPUIndependentSearch(CPUSearch, IndependentSearch):
    """Greedy decoding or sampling; rows are dropped one by one."""

    def choose(self, scores: Float[Tensor, "row vocab"]) -> Int[Tensor, "row"]:
        """The token of each row; the best of a large vocabulary is found in two stages."""
        return blockwise_argmax(scores) if isinstance(self.sampler, GreedySampler) else super().choose(scores)

    def keep(self, units: Int[Tensor, "unit"]) -> Int[Tensor, "remaining"]:
        """Keep only these rows."""
        self.history, self.max_lengths, self.done = pick_rows((self.history, self.max_lengths, self.done), units)
        kept = units.tolist()
        self.rows, self.units = [self.rows[row] for row in kept], [self.units[row] for row in kept]
        return units

    def results(self) -> list[list[Hypothesis]]:
        """Return the hypotheses of each input, best first."""
        return self.group_by_input(self.with_dropped(self.hypotheses()))


class CPUBeamSearch(CPUSearch, BeamSearch):
    """Beam search whose step is one call of C++ where possible; inputs are dropped one by one."""

    topk = staticmethod(blockwise_topk)
    may_stop = False  # whether any input has the required number of finished hypotheses

    def advance(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Do one step of the search."""
        result = native_beam_step(scores, self.sums, self.done, self.history)
        if result is None:
            return super().advance(scores)
        if result.ended is not None:
            self.store_finished(scores, result.ended.sums, result.ended.parents, result.ended.is_eos)
        self.sums, self.history = result.sums, result.history
        if self.may_stop or result.maybe_exhausted:
            self.done = self.done | self.should_stop()
        return result.step

    def store_finished(
        self,
        scores: Float[Tensor, "row vocab"],
        sums: Float[Tensor, "input width"],
        parents: Int[Tensor, "input width"],
        is_eos: Bool[Tensor, "input width"],
    ) -> None:
        """Store the continuations that end."""
        finished_scores = self.penalized_scores(sums, self.history.time + 1, is_eos & ~self.done[:, None])
        stored = native_add_finished(self.stored, scores, finished_scores, parents, self.history)
        if stored is None:
            super().store_finished(scores, sums, parents, is_eos)
        else:
            self.stored = stored
        self.may_stop = bool((self.stored.scores[:, self.sampler.required_hypotheses - 1] > -torch.inf).any())

    def keep(self, units: Int[Tensor, "unit"]) -> Int[Tensor, "remaining"]:
        """Keep only these inputs."""
        rows = self.rows[units].flatten()
        self.history = pick_rows(self.history, rows)
        by_input = (self.stored, self.sums, self.max_lengths, self.done)
        self.stored, self.sums, self.max_lengths, self.done = pick_rows(by_input, units)
        self.rows = torch.arange(rows.size(0)).view(self.sums.shape)
        self.units = [self.units[unit] for unit in units.tolist()]
        return rows

    def results(self) -> list[list[Hypothesis]]:
        """Return the hypotheses of each input, best first; if decoding was stopped early, also the live ones."""
        return self.with_dropped(super().results())


class CPULoop(DecodingLoop):
    """The loop with the searches of a CPU: it drops rows that are done, and copies no rows that stay in place."""

    remaining: Int[Tensor, "remaining"] | None = None
    """The indices of the rows in the batch; None: all rows."""
    scores: Tensor | None = None
    """The last scores: freed at once, their memory would be returned to the system and fetched again at every step."""

    def start_search(self, history: History) -> Search:
        """Start the fast search of this sampler, if there is one."""
        task, sampler = self.task, self.task.sampler
        if isinstance(sampler, BeamSampler):
            return CPUBeamSearch(sampler, history, task.max_lengths)
        if isinstance(sampler, GreedySampler | RandomSampler):
            return CPUIndependentSearch(sampler, history, task.max_lengths, task.example_indices)
        return super().start_search(history)

    def score(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row new vocab"], Any]:
        """Run the model, with `step_log_probabilities` if it has that method."""
        step = getattr(self.model, "step_log_probabilities", None)
        self.scores, state = step(tokens, state) if step else super().score(tokens, state)
        return self.scores, state

    def continue_rows(self, search: Search, step: DecodingStep, state: Any) -> tuple[Int[Tensor, "remaining"], Any]:
        """Reorder the rows if any row continues another one, and drop rows that are done."""
        tokens, parents = step.tokens, step.parents
        if parents is not None and parents.tolist() != list(range(parents.size(0))):
            state = reorder_rows(state, parents)
        rows = search.drop_done() if isinstance(search, CPUSearch) else None
        if rows is None:
            return tokens, state
        self.remaining = rows if self.remaining is None else self.remaining[rows]
        tokens, self.prompt, state = pick_rows((tokens, self.prompt, state), rows)
        return tokens, state

    def whole_batch(self, step: DecodingStep) -> DecodingStep:
        """The step with all rows of the batch; those that were dropped get PAD and continue themselves."""
        rows, remaining = self.task.rows * self.task.sampler.width, self.remaining
        if remaining is None:
            return step
        tokens = torch.full((rows,), PAD).index_copy(0, remaining, step.tokens)
        log_probabilities = step.log_probabilities.new_zeros(rows).index_copy(0, remaining, step.log_probabilities)
        if step.parents is None:
            return DecodingStep(tokens, log_probabilities)
        parents = torch.arange(rows).index_copy(0, remaining, remaining[step.parents])
        return DecodingStep(tokens, log_probabilities, parents)


# --- GPU ---


class GPUSearch(FastSearch):
    """A search that waits for no number of the GPU in most steps; the loop runs for a few more steps instead."""

    @property
    def finished(self) -> bool:
        """Whether all rows are done; only at some steps, or at the maximum length, this is known."""
        time = self.history.time
        return time >= self.largest_max_length or (time % DONE_CHECK_INTERVAL == 0 and bool(self.done.all()))


class GPUIndependentSearch(GPUSearch, IndependentSearch):
    """Greedy decoding or sampling."""

    @property
    def search_state(self) -> tuple[History, *tuple[Any, ...]]:
        """The history, and all other tensors that a step reads or changes."""
        return self.history, self.done

    @search_state.setter
    def search_state(self, search_state: tuple[History, *tuple[Any, ...]]) -> None:
        self.history, self.done = search_state


class GPUBeamSearch(GPUSearch, BeamSearch):
    """Beam search."""

    topk = staticmethod(strided_topk)

    @property
    def search_state(self) -> tuple[History, *tuple[Any, ...]]:
        """The history, and all other tensors that a step reads or changes."""
        return self.history, self.sums, self.done, self.stored, self.max_lengths

    @search_state.setter
    def search_state(self, search_state: tuple[History, *tuple[Any, ...]]) -> None:
        self.history, self.sums, self.done, self.stored, self.max_lengths = search_state


class GPURandomSampler(RandomSampler):
    """Sampling whose top-k waits for no number of the GPU."""

    topk = staticmethod(strided_topk)


class GPULoop(DecodingLoop):
    """The loop with the searches of a GPU: rows are neither compared nor dropped."""

    def start_search(self, history: History) -> Search:
        """Start the fast search of this sampler, if there is one."""
        task, sampler = self.task, self.task.sampler
        if isinstance(sampler, BeamSampler):
            return GPUBeamSearch(sampler, history, task.max_lengths)
        if isinstance(sampler, RandomSampler):
            sampler = GPURandomSampler(**vars(sampler))
        if isinstance(sampler, GreedySampler | RandomSampler):
            return GPUIndependentSearch(sampler, history, task.max_lengths, task.example_indices)
        return super().start_search(history)
