"""The decoding loop: one loop for every model with `start` and `step`, and for every sampler.

A model reads tokens and computes the logits of the next token; logits processors change them; a sampler selects a
token. The loop passes tokens and model states between them, and does not depend on the contents of a state.

A prefix forces the first tokens of an output. A batch may contain prefixes of different lengths: the tokens up to the
length of the shortest prefix are read in few calls of `step`; the rest is forced token by token, while rows with
shorter prefixes already select tokens. So all rows are at the same time step, and no shape depends on a single row.

The settings of decoding have the names of Hugging Face. A registered check can cancel the loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from seq2see.core.batch import Images, Sequences, reorder_rows, repeat_rows
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.decoding.beam import BeamSampler, stop_when_full, stop_when_unbeatable
from seq2see.decoding.samplers import (
    DecodingStep,
    GreedySampler,
    History,
    Hypothesis,
    LengthPenalty,
    LogitsProcessor,
    MinNewTokens,
    NoPenalty,
    NoRepeatNGram,
    RandomSampler,
    RepetitionPenalty,
    Sampler,
    Search,
)

MAX_TOKENS = 250_000
"""The maximum number of tokens of one input, in all its hypotheses together: memory is reserved for each of them."""


class Decoding(Settings):
    """Settings of decoding: how outputs are generated."""

    max_new_tokens: int = Field(ge=1)
    """The maximum number of generated tokens, including the end token; a forced prefix is not counted."""
    min_new_tokens: int = Field(0, ge=0)
    """The minimum number of generated tokens; the end token and a forced prefix are not counted."""
    num_beams: int = Field(1, ge=1, le=1000)
    """The beam width: the number of hypotheses that are followed for each input; 1 is greedy decoding."""
    length_penalty: LengthPenalty = NoPenalty()
    """The length penalty: how the scores of outputs of different lengths are compared."""
    early_stopping: bool = False
    """Stop when num_beams hypotheses are finished; if false, stop when no live hypothesis can exceed their scores."""
    do_sample: bool = False
    """Sampling: draw each token by its probability instead of searching for the most probable output."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature: logits are divided by it; below 1 outputs vary less, above 1 more."""
    top_k: int = Field(0, ge=0)
    """Top-k sampling: only the k most probable tokens are drawn from; 0 is all."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Top-p (nucleus) sampling: only the most probable tokens that together have this probability are drawn from."""
    num_return_sequences: int = Field(1, ge=1, le=1000)
    """The number of outputs that are returned for each input."""
    no_repeat_ngram_size: int = Field(0, ge=0)
    """Forbid that an n-gram of this many tokens occurs twice; 0 allows it."""
    repetition_penalty: float = Field(1.0, gt=0)
    """Factor for the log-probabilities of tokens that occurred before; 1 has no effect, above 1 avoids repetition."""
    precision: Literal["float32", "bf16", "int8"] = "float32"
    """Precision of the weights: bf16 halves their bytes, int8 (CPU only) quarters them; outputs may differ."""

    @field_validator("temperature", mode="before")
    @classmethod
    def _reject_zero_temperature(cls, temperature: Any) -> Any:
        if temperature == 0:
            raise UserError(
                "temperature = 0 is a division by zero.",
                hint="Set do_sample = false: it always selects the most probable token.",
            )
        return temperature

    @model_validator(mode="after")
    def _check_combinations(self) -> Decoding:
        if self.do_sample and self.num_beams > 1:
            raise UserError(
                "do_sample = true and num_beams > 1 exclude each other.",
                hint="Remove one of them: outputs are either drawn at random or found by beam search.",
            )
        if not self.do_sample and self.num_return_sequences > self.num_beams:
            raise UserError(
                f"num_return_sequences = {self.num_return_sequences} is more than num_beams = {self.num_beams}.",
                hint="Increase num_beams, or sample with do_sample = true.",
            )
        if self.min_new_tokens > self.max_new_tokens:
            raise UserError(
                f"min_new_tokens = {self.min_new_tokens} is more than max_new_tokens = {self.max_new_tokens}."
            )
        if self.width * self.max_new_tokens > MAX_TOKENS:
            times = f"{self.width} times " * (self.width > 1)
            raise UserError(
                f"There is no memory for {times}{self.max_new_tokens:,} tokens: at most {MAX_TOKENS:,} in all.",
                hint="Set a smaller decoding.max_new_tokens.",
            )
        return self

    @property
    def width(self) -> int:
        """The number of hypotheses of an input."""
        return max(self.num_beams, self.num_return_sequences)


def make_sampler(settings: Decoding, seed: int = 0) -> Sampler:
    """Return the sampler for these settings; only sampling uses the seed."""
    if settings.do_sample:
        return RandomSampler(
            seed,
            settings.temperature,
            settings.top_k,
            settings.top_p,
            settings.num_return_sequences,
            settings.length_penalty,
        )
    if settings.num_beams == 1:
        return GreedySampler(settings.length_penalty)
    stopping_rule = stop_when_full if settings.early_stopping else stop_when_unbeatable
    return BeamSampler(settings.num_beams, settings.length_penalty, stopping_rule, settings.num_return_sequences)


def make_logits_processors(settings: Decoding) -> tuple[LogitsProcessor, ...]:
    """Return the logits processors for these settings."""
    logits_processors: list[LogitsProcessor] = []
    # The repetition penalty is first: it normalizes, and the probability of forbidden tokens must not be redistributed.
    if settings.repetition_penalty != 1:
        logits_processors.append(RepetitionPenalty(settings.repetition_penalty))
    if settings.min_new_tokens:
        logits_processors.append(MinNewTokens(settings.min_new_tokens))
    if settings.no_repeat_ngram_size:
        logits_processors.append(NoRepeatNGram(settings.no_repeat_ngram_size))
    return tuple(logits_processors)


def make_limits(settings: Decoding, should_stop: Callable[[], bool] | None = None) -> Limits:
    """Return the stopping conditions for these settings."""
    return Limits(settings.max_new_tokens, should_stop)


MIN_LOG_PROBABILITY = -1e4
"""The log-probability of a forced token whose probability is 0: it is finite, so that sums stay finite."""
SUPPRESSED_TOKENS = slice(PAD, BOS + 1)
"""PAD and BOS, whose ids are adjacent."""
PREFILL_CHUNK = 128
"""Tokens of a prompt in one call of `step`: a larger chunk needs more memory for logits."""


@runtime_checkable
class GenerativeModel(Protocol):
    """The interface of a model for decoding. The model should be in `eval` mode.

    A fast copy of a model may also have `decoding_loop`, a subclass of `DecodingLoop` that is then used for it.
    """

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> Any:
        """Return the state before the first token; `max_length` is the maximum number of tokens of a row."""

    def step(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row new vocab"], Any]:
        """Read one or more tokens of each row; return for each token the logits of the next one."""


Scores = Float[Tensor, "row vocab"]
StepGenerator = Generator[DecodingStep, None, list[list[Hypothesis]]]
"""Yields the steps, and returns the hypotheses at the end."""


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
    task = DecodingTask(source, sampler, limits, logits_processors, _prompt(source, prefix), indices)
    steps = _loop_of(model)(model, task).run()
    with torch.inference_mode():
        while True:
            try:
                next(steps)
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
) -> StepGenerator:
    """`decode` as a generator: yield the tokens of every step, and return the hypotheses at the end.

    The first tokens of the prefixes, up to the length of the shortest one, are not yielded.
    """
    task = DecodingTask(source, sampler, limits, logits_processors, _prompt(source, prefix), indices)
    loop = _loop_of(model)(model, task)
    steps = loop.run()
    while True:
        # Inference mode ends before every yield, so that it does not affect the code of the caller.
        with torch.inference_mode():
            try:
                step = loop.whole_batch(next(steps))
            except StopIteration as end:
                return end.value
        yield step


def _loop_of(model: GenerativeModel) -> type[DecodingLoop]:
    return getattr(model, "decoding_loop", DecodingLoop)


@dataclass(frozen=True)
class DecodingTask:
    """The inputs of the loop."""

    source: Sequences | Images | None
    sampler: Sampler
    limits: Limits
    logits_processors: Sequence[LogitsProcessor]
    prompt: Sequences
    """The prefixes that are forced; empty ones if there are none."""
    indices: Int[Tensor, "row"] | None

    @property
    def rows(self) -> int:
        """The number of inputs."""
        return self.prompt.lengths.size(0)

    @property
    def max_length(self) -> int:
        """The maximum number of tokens of any row."""
        return self.prompt.values.size(1) + self.limits.max_new_tokens

    @property
    def max_lengths(self) -> Int[Tensor, "input"]:
        """The maximum number of tokens of each input."""
        return self.prompt.lengths + self.limits.max_new_tokens

    @property
    def example_indices(self) -> list[int]:
        """The indices of the inputs in the dataset."""
        return list(range(self.rows)) if self.indices is None else self.indices.tolist()

    @property
    def stopped(self) -> bool:
        """Whether the caller stops the loop."""
        return self.limits.should_stop is not None and self.limits.should_stop()


class DecodingLoop:
    """The loop for one batch.

    Its methods are the definition. A fast copy of a model (`GenerativeModel`) has a subclass, which overrides some of
    them and has the same results.
    """

    def __init__(self, model: GenerativeModel, task: DecodingTask):
        self.model, self.task = model, task
        self.prompt = repeat_rows(task.prompt, task.sampler.width)

    def run(self) -> StepGenerator:
        """Yield each step as it is done."""
        if self.task.rows == 0:
            return []
        search, step, state = self.begin()
        while True:
            yield step
            check_cancelled()
            if search.finished or self.task.stopped:
                return search.results()
            step, state = self.next(search, step, state)

    def begin(self) -> tuple[Search, DecodingStep, Any]:
        """Read <bos> and the prompt up to its shortest row; return the search, its first step, and the model state."""
        state = self.model.start(self.task.source, self.task.rows, self.task.max_length)
        scores, history, state = self.read_prompt(state)
        # From now on every input has as many rows as the sampler has hypotheses.
        scores, history, state = repeat_rows((scores, history, state), self.task.sampler.width)
        search = self.start_search(history)
        return search, self.select(search, scores), state

    def next(self, search: Search, step: DecodingStep, state: Any) -> tuple[DecodingStep, Any]:
        """Read the tokens of the last step, and select the next ones."""
        tokens, state = self.continue_rows(search, step, state)
        scores, state = self.score(tokens.unsqueeze(1), state)
        return self.select(search, suppress_special_tokens(scores.select(1, -1))), state

    def continue_rows(self, search: Search, step: DecodingStep, state: Any) -> tuple[Int[Tensor, "row"], Any]:
        """The tokens to read, and the state in which every row is that of its parent."""
        return step.tokens, state if step.parents is None else reorder_rows(state, step.parents)

    def score(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row new vocab"], Any]:
        """Run the model: for each token the log-probabilities of the next one, in a new tensor."""
        logits, state = self.model.step(tokens, state)
        return log_probabilities(logits), state

    def select(self, search: Search, scores: Scores) -> DecodingStep:
        """Apply the logits processors and the forced prompt to the scores, and select the next tokens."""
        processed = _apply_logits_processors(scores, search.history, self.task.logits_processors)
        return search.select(_force_prompt(processed, scores, self.prompt, search.history.time))

    def start_search(self, history: History) -> Search:
        """Start the search from the tokens of the prompt that have been read."""
        return self.task.sampler.start_search(history, self.task.max_lengths, self.task.example_indices)

    def read_prompt(self, state: Any) -> tuple[Scores, History, Any]:
        """Read <bos> and the prompt up to its shortest row, in chunks."""
        prompt = self.task.prompt
        shared_prompt = prompt.values[:, : int(prompt.lengths.min())]
        history = History.empty(prompt.lengths, self.task.max_length)
        for chunk in torch.nn.functional.pad(shared_prompt, (1, 0), value=BOS).split(PREFILL_CHUNK, dim=1):
            scores, state = self.score(chunk, state)
            for time, tokens in enumerate(shared_prompt[:, history.time : history.time + PREFILL_CHUNK].unbind(1)):
                token_scores = scores[:, time].gather(1, tokens[:, None]).squeeze(1)
                history = history.append(tokens, token_scores.clamp(min=MIN_LOG_PROBABILITY))
        return suppress_special_tokens(scores[:, -1]), history, state

    def whole_batch(self, step: DecodingStep) -> DecodingStep:
        """The step with all rows of the batch, for a caller that keeps it: a fast loop may drop rows that are done."""
        return step


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
        return scores
    all_forbidden = processed.amax(dim=1) == -torch.inf
    eos_scores = scores[:, EOS].clamp(min=MIN_LOG_PROBABILITY)
    processed[:, EOS] = torch.where(all_forbidden, eos_scores, processed[:, EOS])
    return processed


def _force_prompt(processed: Scores, scores: Scores, prompt: Sequences, time: int) -> Scores:
    """In rows whose prompt has a token at this time, forbid all other tokens; logits processors do not apply there."""
    if time >= prompt.values.size(1):
        return processed
    tokens = prompt.values[:, time, None]
    token_scores = scores.gather(1, tokens).clamp(min=MIN_LOG_PROBABILITY)
    forced = torch.full_like(processed, -torch.inf).scatter(1, tokens, token_scores)
    return torch.where((time < prompt.lengths)[:, None], forced, processed)


_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("cancellation", default=None)


@contextlib.contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Register a check for this context: `check_cancelled` calls it, and an exception of it ends the computation."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_cancelled() -> None:
    """Call the registered check, which raises an exception if the result is no longer needed."""
    check = _CHECK.get()
    if check is not None:
        check()
