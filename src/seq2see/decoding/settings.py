"""The settings of decoding, with the names of Hugging Face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.decoding.beam import BeamSampler, stop_when_full, stop_when_unbeatable
from seq2see.decoding.engine import Limits
from seq2see.decoding.logits_processors import LogitsProcessor, MinNewTokens, NoRepeatNGram, RepetitionPenalty
from seq2see.decoding.samplers import GreedySampler, LengthPenalty, NoPenalty, RandomSampler, Sampler

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
