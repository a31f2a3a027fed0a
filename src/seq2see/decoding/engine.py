"""The decoding loop: one loop for every model with `start` and `step`, and for every sampler.

A model reads tokens and computes the logits of the next token; logits processors change them; a sampler selects a
token. The loop passes tokens and model states between them, and does not depend on the contents of a state.

A prefix forces the first tokens of an output. A batch may contain prefixes of different lengths: the tokens up to the
length of the shortest prefix are read in few calls of `step`; the rest is forced token by token, while rows with
shorter prefixes already select tokens. So all rows are at the same time step, and no shape depends on a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2see.core.batch import Images, Sequences
from seq2see.core.cancellation import check_cancelled
from seq2see.core.errors import UserError
from seq2see.core.rows import clone_state, pick_rows, reorder_rows, repeat_rows
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.decoding.hypotheses import History, Hypothesis
from seq2see.decoding.logits_processors import LogitsProcessor
from seq2see.decoding.samplers import DecodingStep, Sampler, Search
from seq2see.decoding.topk import maybe_any

MIN_LOG_PROBABILITY = -1e4
"""The log-probability of a forced token whose probability is 0: it is finite, so that sums stay finite."""
SUPPRESSED_TOKENS = slice(PAD, BOS + 1)
"""PAD and BOS, whose ids are adjacent."""
PREFILL_CHUNK = 128
"""Tokens of a prompt in one call of `step`: a larger chunk needs more memory for logits."""
DONE_CHECK_INTERVAL = 8
"""On a GPU, the number of steps between two checks of which rows are done."""
DROP_DONE_RATIO = 4
"""Done rows are dropped when at least one row in this many is done: dropping copies the state of all other rows.

On a GPU no rows are dropped: it computes one more row in the same time, and a CUDA graph is captured for one shape.
"""


@runtime_checkable
class GenerativeModel(Protocol):
    """The interface of a model for decoding. The model should be in `eval` mode."""

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> Any:
        """Return the state before the first token; `max_length` is the maximum number of tokens of a row."""

    def step(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row new vocab"], Any]:
        """Read one or more tokens of each row; return for each token the logits of the next one.

        A model may also have `step_log_probabilities`, which returns log-probabilities in a new tensor, and
        `fused_step`, which runs the model and the sampler in one call (`decoding/graphed_decoding.py`).
        """


StepFunction = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""(tokens (row, new), state) -> (log-probabilities (row, new, vocab) in a new tensor, state)"""
Scores = Float[Tensor, "row vocab"]
FusedStep = Callable[[Search, DecodingStep, Any], tuple[DecodingStep, Any]]


@dataclass(frozen=True)
class Limits:
    """The stopping conditions of the loop that do not depend on the model."""

    max_new_tokens: int
    """The maximum number of tokens generated for a row, including <eos>; a forced prefix is not counted."""
    should_stop: Callable[[], bool] | None = None
    """Called at every step; if it returns True, decoding ends and the current hypotheses are returned as unfinished."""


def decode(
    model: GenerativeModel,
    source: Sequences | Images | None,
    sampler: Sampler,
    limits: Limits,
    logits_processors: Sequence[LogitsProcessor] = (),
    prefix: Sequences | None = None,
    indices: Int[Tensor, "row"] | None = None,
) -> list[list[Hypothesis]]:
    """Return for each row of the source (or, without one, of the prefix) a list of hypotheses, best first.

    `source` and `prefix` are on the model's device. The prefix is without <bos>. Its tokens are forced for any score,
    their unchanged log-probabilities count, and hypotheses contain them. `indices` are the indices of the rows in the
    dataset, on which samples depend; the default is 0, 1, 2, ...
    """
    run = _run(model, _DecodingTask(source, sampler, limits, logits_processors, _prompt(source, prefix), indices))
    with torch.inference_mode():
        while True:
            try:
                next(run)
            except StopIteration as end:
                return end.value


def stream(
    model: GenerativeModel,
    source: Sequences | Images | None,
    sampler: Sampler,
    limits: Limits,
    logits_processors: Sequence[LogitsProcessor] = (),
    prefix: Sequences | None = None,
    indices: Int[Tensor, "row"] | None = None,
) -> Generator[DecodingStep, None, list[list[Hypothesis]]]:
    """`decode` as a generator: yield the tokens of every step, and return the hypotheses at the end.

    The first tokens of the prefixes, up to the length of the shortest one, are not yielded.
    """
    prompt = _prompt(source, prefix)
    run = _run(model, _DecodingTask(source, sampler, limits, logits_processors, prompt, indices))
    while True:
        # Inference mode ends before every yield, so that it does not affect the code of the caller.
        with torch.inference_mode():
            try:
                # A copy, because a captured graph writes the next tokens to the same memory.
                step = clone_state(_scatter_to_batch(*next(run), prompt.lengths.size(0) * sampler.width))
            except StopIteration as end:
                return end.value
        yield step


@dataclass(frozen=True)
class _DecodingTask:
    """The inputs of the loop."""

    source: Sequences | Images | None
    sampler: Sampler
    limits: Limits
    logits_processors: Sequence[LogitsProcessor]
    prompt: Sequences
    indices: Int[Tensor, "row"] | None

    @property
    def rows(self) -> int:
        """The number of inputs."""
        return self.prompt.lengths.size(0)

    @property
    def max_length(self) -> int:
        """The maximum number of tokens of any row."""
        return self.prompt.values.size(1) + self.limits.max_new_tokens

    def start_search(self, history: History) -> Search:
        """Start the search from the tokens of the prompt that have been read."""
        indices = list(range(self.rows)) if self.indices is None else self.indices.tolist()
        return self.sampler.start_search(history, self.prompt.lengths + self.limits.max_new_tokens, indices)


def _run(
    model: GenerativeModel, task: _DecodingTask
) -> Generator[tuple[DecodingStep, Tensor | None], None, list[list[Hypothesis]]]:
    """Run the loop. Yield each step and the indices of its rows in the batch (None: all rows)."""
    if task.rows == 0:
        return []
    step_function, should_stop, remaining = _step_function_of(model), task.limits.should_stop, None
    search, step, state = _begin(model, task, step_function)
    prompt, fused_step = repeat_rows(task.prompt, task.sampler.width), _fused_step_of(model, task)
    while True:
        yield step, remaining
        check_cancelled()
        done = _count_done(search)
        is_finished = done == search.done.numel() or search.history.time >= task.max_length
        if is_finished or (should_stop is not None and should_stop()):
            return search.results()
        if fused_step and prompt.values.size(1) <= search.history.time < search.smallest_max_length:
            step, state = fused_step(search, step, state)
            continue
        if step.parents is not None and _is_reordered(step.parents):
            state = reorder_rows(state, step.parents)
        tokens = step.tokens
        if done * DROP_DONE_RATIO >= search.done.numel() and not search.done.is_cuda:
            remaining_rows = search.drop_done()
            tokens, prompt, state = pick_rows((tokens, prompt, state), remaining_rows)
            remaining = remaining_rows if remaining is None else remaining[remaining_rows]
        scores, state = step_function(tokens.unsqueeze(1), state)
        step = _select(search, suppress_special_tokens(scores.select(1, -1)), prompt, task.logits_processors)


def _begin(
    model: GenerativeModel, task: _DecodingTask, step_function: StepFunction
) -> tuple[Search, DecodingStep, Any]:
    """Read <bos> and the prompt up to its shortest row; return the search, its first step, and the model state."""
    width, fused_step = task.sampler.width, _fused_step_of(model, task)
    if fused_step and task.prompt.values.size(1) == 0:
        search = task.start_search(repeat_rows(History.empty(task.prompt.lengths, task.max_length), width))
        state = repeat_rows(model.start(task.source, task.rows, task.max_length), width)
        rows = torch.arange(task.rows * width, device=task.prompt.lengths.device)
        return search, *fused_step(
            search, DecodingStep(torch.full_like(rows, BOS), torch.zeros_like(rows).float(), rows), state
        )
    state = model.start(task.source, task.rows, task.max_length)
    scores, history, state = _read_prompt(step_function, state, task.prompt, task.max_length)
    scores, history, prompt, state = repeat_rows((scores, history, task.prompt, state), width)
    search = task.start_search(history)
    return search, _select(search, scores, prompt, task.logits_processors), state


def _fused_step_of(model: GenerativeModel, task: _DecodingTask) -> FusedStep | None:
    """The fused step of the model, if it has one and every step runs the same operations."""
    return getattr(model, "fused_step", None) if task.sampler.capturable and not task.logits_processors else None


def _select(
    search: Search, scores: Scores, prompt: Sequences, logits_processors: Sequence[LogitsProcessor]
) -> DecodingStep:
    """Apply the logits processors and the forced prompt to the scores, and select the next tokens."""
    return search.select(
        _force_prompt(
            _apply_logits_processors(scores, search.history, logits_processors), scores, prompt, search.history.time
        )
    )


def _scatter_to_batch(step: DecodingStep, remaining: Int[Tensor, "remaining"] | None, rows: int) -> DecodingStep:
    """Convert a step of the remaining rows to one of the whole batch; dropped rows get PAD and continue themselves."""
    if remaining is None:
        return step
    tokens = torch.full((rows,), PAD, device=remaining.device).index_copy(0, remaining, step.tokens)
    log_probabilities = step.log_probabilities.new_zeros(rows).index_copy(0, remaining, step.log_probabilities)
    if step.parents is None:
        return DecodingStep(tokens, log_probabilities)
    parents = torch.arange(rows, device=remaining.device).index_copy(0, remaining, remaining[step.parents])
    return DecodingStep(tokens, log_probabilities, parents)


def _prompt(source: Sequences | Images | None, prefix: Sequences | None) -> Sequences:
    """Return the prefix, or an empty one if there is none; raise an error for a prefix that cannot be forced."""
    if prefix is None:
        if source is None:
            raise ValueError("A model without a source needs a prefix for each row; it may be empty.")
        lengths = torch.zeros(source.values.size(0), dtype=torch.long, device=source.values.device)
        return Sequences(lengths.new_zeros(lengths.size(0), 0), lengths)
    if source is not None and source.values.size(0) != prefix.lengths.size(0):
        raise ValueError("The number of prefixes differs from the number of sources. A prefix may be empty.")
    if torch.isin(prefix.unpad(), torch.tensor([PAD, BOS, EOS], device=prefix.values.device)).any():
        raise UserError("A prefix cannot contain <pad>, <bos> or <eos>.", hint="Pass only the words of the prefix.")
    return prefix


def _step_function_of(model: GenerativeModel) -> StepFunction:
    """`step_log_probabilities` of the model if it exists, else `step` followed by a log-softmax."""

    def step_function(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = model.step(tokens, state)
        return log_probabilities(logits), state

    return getattr(model, "step_log_probabilities", step_function)


def _read_prompt(
    step_function: StepFunction, state: Any, prompt: Sequences, max_length: int
) -> tuple[Scores, History, Any]:
    """Read <bos> and the prompt up to its shortest row, in chunks."""
    shared_prompt = prompt.values[:, : int(prompt.lengths.min())]
    history = History.empty(prompt.lengths, max_length)
    for chunk in torch.nn.functional.pad(shared_prompt, (1, 0), value=BOS).split(PREFILL_CHUNK, dim=1):
        scores, state = step_function(chunk, state)
        for time, tokens in enumerate(shared_prompt[:, history.time : history.time + PREFILL_CHUNK].unbind(1)):
            token_scores = scores[:, time].gather(1, tokens[:, None]).squeeze(1)
            history = history.append(tokens, token_scores.clamp(min=MIN_LOG_PROBABILITY))
    return suppress_special_tokens(scores[:, -1]), history, state


def log_probabilities(logits: Float[Tensor, "*any vocab"]) -> Float[Tensor, "*any vocab"]:
    """A log-softmax over the vocabulary, always computed in float32."""
    return logits.float().log_softmax(dim=-1)


def suppress_special_tokens(scores: Scores) -> Scores:
    """Set the scores of PAD and BOS to minus infinity, in place: they are never generated."""
    scores[:, SUPPRESSED_TOKENS] = -torch.inf
    return scores


def _apply_logits_processors(scores: Scores, history: History, logits_processors: Sequence[LogitsProcessor]) -> Scores:
    """Apply all processors; a row in which they forbid every token ends with <eos>."""
    processed = scores
    for processor in logits_processors:
        processed = processor(history, processed)
    if not logits_processors:
        return processed
    all_forbidden = processed.amax(dim=1) == -torch.inf
    if maybe_any(all_forbidden):
        eos_scores = torch.where(all_forbidden, scores[:, EOS].clamp(min=MIN_LOG_PROBABILITY), processed[:, EOS])
        processed = processed.clone()
        processed[:, EOS] = eos_scores
    return processed


def _force_prompt(processed: Scores, scores: Scores, prompt: Sequences, time: int) -> Scores:
    """In rows whose prompt has a token at this time, forbid all other tokens; logits processors do not apply there."""
    if time >= prompt.values.size(1):
        return processed
    tokens = prompt.values[:, time, None]
    token_scores = scores.gather(1, tokens).clamp(min=MIN_LOG_PROBABILITY)
    forced = torch.full_like(processed, -torch.inf).scatter(1, tokens, token_scores)
    return torch.where((time < prompt.lengths)[:, None], forced, processed)


def _count_done(search: Search) -> int:
    """The number of rows or inputs that are done; on a GPU 0 in most steps, because reading it would synchronize."""
    if search.done.is_cuda and search.history.time % DONE_CHECK_INTERVAL:
        return 0
    return search.done.tolist().count(True)  # counting in a list is faster than an operator of torch


def _is_reordered(parents: Int[Tensor, "row"]) -> bool:
    """Whether any row continues another row; on a GPU always True (see `maybe_any`)."""
    return parents.is_cuda or parents.tolist() != list(range(parents.size(0)))
