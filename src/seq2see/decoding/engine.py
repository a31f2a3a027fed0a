"""The one decoding loop: it serves every model that can `start` and `step`, and every chooser.

A model reads tokens and gives scores for the next one; a chooser takes one; rules forbid some. The loop
carries tokens and state between them, and knows nothing about hidden states or caches.

A prefix forces the first tokens of an answer. Prefixes of different length meet in one batch: what all
rows have is read in a single `step`, and the rest is forced token by token, while shorter rows already
choose. So all rows stand at the same time, and no shape depends on where a row is.
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
from seq2see.decoding.hypotheses import History, Hypothesis
from seq2see.decoding.logits_processors import LogitsProcessor
from seq2see.decoding.samplers import DecodingStep, Sampler, Search
from seq2see.decoding.topk import maybe_any
from seq2see.sequences.tokenizers import BOS, EOS, PAD

MIN_LOG_PROBABILITY = -1e4
"""Counted for a token that must be taken although its probability is 0: finite, so that sums stay numbers."""
SUPPRESSED_TOKENS = slice(PAD, BOS + 1)
"""PAD and BOS, which stand side by side."""
PREFILL_CHUNK = 128
"""Tokens of a prompt that are read at one time: each has a score for every token of the vocabulary."""
DONE_CHECK_INTERVAL = 8
"""On a GPU, steps between two looks at what is done."""
DROP_DONE_RATIO = 4
"""One row in so many must be done before rows are dropped: that copies the state of all the others.

On a GPU none are: it computes one row more in the same time, and a CUDA graph is recorded for one shape.
"""


@runtime_checkable
class GenerativeModel(Protocol):
    """A model as decoding sees it. It should be in `eval` mode."""

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> Any:
        """The state before the first token; `max_length` is the most tokens that will ever be stepped."""

    def step(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row new vocab"], Any]:
        """Read one or several tokens a row; for each, the logits of the token after it.

        A model may also have `step_log_probabilities`, which gives log-probabilities, in a tensor of their own, and
        `fused_step`, which reads what a search has chosen and lets it choose again (`decoding/graphed_decoding.py`).
        """


StepFunction = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""(tokens (row, new), state) -> (log-probabilities (row, new, vocab) in a tensor of their own, state)"""
Scores = Float[Tensor, "row vocab"]
FusedStep = Callable[[Search, DecodingStep, Any], tuple[DecodingStep, Any]]


@dataclass(frozen=True)
class Limits:
    """When the loop ends, whatever the model says."""

    max_new_tokens: int
    """How many tokens a row may choose, <eos> among them; a forced prefix is not counted."""
    should_stop: Callable[[], bool] | None = None
    """Asked at every step; when it says True, what is there so far is handed back as unfinished."""


def decode(
    model: GenerativeModel,
    source: Sequences | Images | None,
    sampler: Sampler,
    limits: Limits,
    logits_processors: Sequence[LogitsProcessor] = (),
    prefix: Sequences | None = None,
    indices: Int[Tensor, "row"] | None = None,
) -> list[list[Hypothesis]]:
    """For each row of the source (or, without one, of the prefix) a list of answers, best first.

    `source` and `prefix` lie on the model's device. The prefix is without <bos>; its tokens are taken
    whatever their score, their log-probabilities count as they are, and answers contain them. `indices`
    are the rows' global numbers, on which samples depend; without them rows are counted from 0.
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
    """`decode`, step by step: yields what was chosen, and returns the answers in the end.

    The tokens that all prefixes have in common in number are read at once and not yielded.
    """
    prompt = _prompt(source, prefix)
    run = _run(model, _DecodingTask(source, sampler, limits, logits_processors, prompt, indices))
    while True:
        # Inference mode is left at every yield, because what the caller does meanwhile is the caller's own.
        with torch.inference_mode():
            try:
                # A copy, because a recorded step gives the next tokens in the same place.
                step = clone_state(_scatter_to_batch(*next(run), prompt.lengths.size(0) * sampler.width))
            except StopIteration as end:
                return end.value
        yield step


@dataclass(frozen=True)
class _DecodingTask:
    """What is asked of the loop."""

    source: Sequences | Images | None
    sampler: Sampler
    limits: Limits
    logits_processors: Sequence[LogitsProcessor]
    prompt: Sequences
    indices: Int[Tensor, "row"] | None

    @property
    def rows(self) -> int:
        """How many inputs there are."""
        return self.prompt.lengths.size(0)

    @property
    def max_length(self) -> int:
        """The most tokens that any row can come to."""
        return self.prompt.values.size(1) + self.limits.max_new_tokens

    def start_search(self, history: History) -> Search:
        """Start the search on what was read already."""
        numbers = list(range(self.rows)) if self.indices is None else self.indices.tolist()
        return self.sampler.start_search(history, self.prompt.lengths + self.limits.max_new_tokens, numbers)


def _run(
    model: GenerativeModel, task: _DecodingTask
) -> Generator[tuple[DecodingStep, Tensor | None], None, list[list[Hypothesis]]]:
    """The loop. Yields each step, and which rows of the batch it is about; None if about all of them."""
    if task.rows == 0:
        return []
    step_function, should_stop, remaining = _step_function_of(model), task.limits.should_stop, None
    search, step, state = _begin(model, task, step_function)
    prompt, fused_step = repeat_rows(task.prompt, task.sampler.width), _fused_step_of(model, task)
    while True:
        yield step, remaining
        check_cancelled()
        done = _count_done(search)
        over = done == search.done.numel() or search.history.time >= task.max_length
        if over or (should_stop is not None and should_stop()):
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
    """The first choice of every row, after <bos> and as much of the prompt as every row has; and the state then."""
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
    """How the model goes round by itself, if it can and every round is like the others."""
    return getattr(model, "fused_step", None) if task.sampler.capturable and not task.logits_processors else None


def _select(
    search: Search, scores: Scores, prompt: Sequences, logits_processors: Sequence[LogitsProcessor]
) -> DecodingStep:
    """Let the search choose among what the rules allow and the prompt leaves open."""
    return search.select(
        _force_prompt(
            _apply_logits_processors(scores, search.history, logits_processors), scores, prompt, search.history.time
        )
    )


def _scatter_to_batch(step: DecodingStep, remaining: Int[Tensor, "left"] | None, rows: int) -> DecodingStep:
    """A step about the rows that are left, as a step about all: the others say PAD and stay where they are."""
    if remaining is None:
        return step
    tokens = torch.full((rows,), PAD, device=remaining.device).index_copy(0, remaining, step.tokens)
    log_probabilities = step.log_probabilities.new_zeros(rows).index_copy(0, remaining, step.log_probabilities)
    if step.parents is None:
        return DecodingStep(tokens, log_probabilities)
    everyone = torch.arange(rows, device=remaining.device)
    return DecodingStep(tokens, log_probabilities, everyone.index_copy(0, remaining, remaining[step.parents]))


def _prompt(source: Sequences | Images | None, prefix: Sequences | None) -> Sequences:
    """The prefix, an empty one if there is none; what cannot be forced is refused here."""
    if prefix is None:
        if source is None:
            raise ValueError("A model without a source needs a prefix for each row; it may be empty.")
        lengths = torch.zeros(source.values.size(0), dtype=torch.long, device=source.values.device)
        return Sequences(lengths.new_zeros(lengths.size(0), 0), lengths)
    if source is not None and source.values.size(0) != prefix.lengths.size(0):
        raise ValueError("There must be as many prefixes as sources; some may be empty.")
    if torch.isin(prefix.unpad(), torch.tensor([PAD, BOS, EOS], device=prefix.values.device)).any():
        raise UserError("A prefix cannot contain <pad>, <bos> or <eos>.", hint="Give only the words to begin with.")
    return prefix


def _step_function_of(model: GenerativeModel) -> StepFunction:
    """How a model reads on: by itself if it can give log-probabilities, else by a softmax over its logits."""

    def step_function(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = model.step(tokens, state)
        return log_probabilities(logits), state

    return getattr(model, "step_log_probabilities", step_function)


def _read_prompt(
    step_function: StepFunction, state: Any, prompt: Sequences, max_length: int
) -> tuple[Scores, History, Any]:
    """Read <bos> and as much of the prompt as every row has, in as few steps as memory allows."""
    given = prompt.values[:, : int(prompt.lengths.min())]
    history = History.empty(prompt.lengths, max_length)
    for piece in torch.nn.functional.pad(given, (1, 0), value=BOS).split(PREFILL_CHUNK, dim=1):
        scores, state = step_function(piece, state)
        for time, tokens in enumerate(given[:, history.time : history.time + PREFILL_CHUNK].unbind(1)):
            known = scores[:, time].gather(1, tokens[:, None]).squeeze(1)
            history = history.append(tokens, known.clamp(min=MIN_LOG_PROBABILITY))
    return suppress_special_tokens(scores[:, -1]), history, state


def log_probabilities(logits: Float[Tensor, "*any vocab"]) -> Float[Tensor, "*any vocab"]:
    """A softmax over the vocabulary, as logarithms; a model that computes in bf16 is not asked to add up in it."""
    return logits.float().log_softmax(dim=-1)


def suppress_special_tokens(scores: Scores) -> Scores:
    """The scores themselves, changed: PAD and BOS are never said."""
    scores[:, SUPPRESSED_TOKENS] = -torch.inf
    return scores


def _apply_logits_processors(scores: Scores, history: History, logits_processors: Sequence[LogitsProcessor]) -> Scores:
    """The scores after all rules; where they leave nothing, the row ends. A softmax always leaves something."""
    allowed = scores
    for rule in logits_processors:
        allowed = rule(history, allowed)
    if not logits_processors:
        return allowed
    stuck = allowed.amax(dim=1) == -torch.inf
    if maybe_any(stuck):
        ending = torch.where(stuck, scores[:, EOS].clamp(min=MIN_LOG_PROBABILITY), allowed[:, EOS])
        allowed = allowed.clone()
        allowed[:, EOS] = ending
    return allowed


def _force_prompt(allowed: Scores, scores: Scores, prompt: Sequences, time: int) -> Scores:
    """Where a row's prompt still goes on, only its next token is left, whatever rules say of it."""
    if time >= prompt.values.size(1):
        return allowed
    tokens = prompt.values[:, time, None]
    only = scores.gather(1, tokens).clamp(min=MIN_LOG_PROBABILITY)
    forced = torch.full_like(allowed, -torch.inf).scatter(1, tokens, only)
    return torch.where((time < prompt.lengths)[:, None], forced, allowed)


def _count_done(search: Search) -> int:
    """How many rows or inputs are done. A GPU is asked now and then only: meanwhile it gets on with what is left."""
    if search.done.is_cuda and search.history.time % DONE_CHECK_INTERVAL:
        return 0
    return search.done.tolist().count(True)  # a list is read faster than an operator is called


def _is_reordered(parents: Int[Tensor, "row"]) -> bool:
    """Whether any row continues the story of another; on a GPU nobody asks (see `maybe_any`)."""
    return parents.is_cuda or parents.tolist() != list(range(parents.size(0)))
