"""How answers are made: the settings of decoding, under the names Hugging Face gave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.decoding.beam import BeamSampler, stop_when_full, stop_when_unbeatable
from seq2see.decoding.engine import Limits
from seq2see.decoding.length_penalties import LengthPenalty, NoPenalty
from seq2see.decoding.logits_processors import LogitsProcessor, MinNewTokens, NoRepeatNGram, RepetitionPenalty
from seq2see.decoding.samplers import GreedySampler, RandomSampler, Sampler

MAX_TOKENS = 250_000
"""Tokens that are kept side by side for one input, in all its hypotheses together: each has its place in memory."""


class Decoding(Settings):
    """How answers are made."""

    max_new_tokens: int = Field(ge=1)
    """The longest answer, its end token included; a given beginning is not counted."""
    min_new_tokens: int = Field(0, ge=0)
    """The shortest answer, its end token and a given beginning not counted."""
    num_beams: int = Field(1, ge=1, le=1000)
    """How many hypotheses are followed side by side; 1 is greedy decoding."""
    length_penalty: LengthPenalty = NoPenalty()
    """How answers of different length are compared."""
    early_stopping: bool = False
    """Stop when num_beams answers are finished; otherwise, when nothing can beat them any more."""
    do_sample: bool = False
    """Draw tokens by their probability instead of looking for the best."""
    temperature: float = Field(1.0, gt=0)
    """Sampling: below 1 more cautious, above 1 bolder."""
    top_k: int = Field(0, ge=0)
    """Sampling: only from this many most probable tokens; 0 is all."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Sampling: only from the most probable tokens that together have this probability."""
    num_return_sequences: int = Field(1, ge=1, le=1000)
    """How many answers are given for each input."""
    no_repeat_ngram_size: int = Field(0, ge=0)
    """Never say this many tokens in succession twice; 0 allows it."""
    repetition_penalty: float = Field(1.0, gt=0)
    """The log-probability of what was said before counts so many times; 1 changes nothing, more avoids repeating."""
    precision: Literal["float32", "bf16", "int8"] = "float32"
    """Numbers that weights are read in: bf16 halves the bytes, int8 (CPU only) quarters them; answers may differ."""

    @field_validator("temperature", mode="before")
    @classmethod
    def _not_frozen(cls, temperature: Any) -> Any:
        if temperature == 0:
            raise UserError(
                "temperature = 0 would divide by nothing.",
                hint="do_sample = false always takes the most probable token.",
            )
        return temperature

    @model_validator(mode="after")
    def _agree(self) -> Decoding:
        if self.do_sample and self.num_beams > 1:
            raise UserError(
                "do_sample and num_beams > 1 do not go together.",
                hint="Leave one of them out: either answers are drawn, or the best are looked for.",
            )
        if not self.do_sample and self.num_return_sequences > self.num_beams:
            raise UserError(
                f"num_beams = {self.num_beams} gives fewer answers than num_return_sequences asks for.",
                hint="Set num_beams to at least as many, or sample with do_sample = true.",
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
        """How many hypotheses an input has at one time."""
        return max(self.num_beams, self.num_return_sequences)


def make_sampler(settings: Decoding, seed: int = 0) -> Sampler:
    """The chooser that these settings describe; the seed matters to sampling alone."""
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
    """The rules that these settings ask for."""
    logits_processors: list[LogitsProcessor] = []
    if settings.repetition_penalty != 1:  # it goes first: what the others forbid is not shared out among the rest
        logits_processors.append(RepetitionPenalty(settings.repetition_penalty))
    if settings.min_new_tokens:
        logits_processors.append(MinNewTokens(settings.min_new_tokens))
    if settings.no_repeat_ngram_size:
        logits_processors.append(NoRepeatNGram(settings.no_repeat_ngram_size))
    return tuple(logits_processors)


def make_limits(settings: Decoding, should_stop: Callable[[], bool] | None = None) -> Limits:
    """When decoding ends under these settings."""
    return Limits(settings.max_new_tokens, should_stop)
