"""How answers are made: the settings of decoding, under the names Hugging Face gave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.decoding.beam import Beam, when_beaten, when_full
from seq2see.decoding.choosers import Chooser, Greedy, Sample
from seq2see.decoding.engine import Limits
from seq2see.decoding.penalties import NoPenalty, Penalty
from seq2see.decoding.rules import Discourage, MinimumLength, NoRepeat, Rule

MOST_TOKENS = 250_000
"""Tokens that are kept side by side for one input, in all its hypotheses together: each has its place in memory."""


class Decoding(Settings):
    """How answers are made."""

    max_new_tokens: int = Field(ge=1)
    """The longest answer, its end token included; a given beginning is not counted."""
    min_new_tokens: int = Field(0, ge=0)
    """The shortest answer, its end token and a given beginning not counted."""
    num_beams: int = Field(1, ge=1, le=1000)
    """How many hypotheses are followed side by side; 1 is greedy decoding."""
    length_penalty: Penalty = NoPenalty()
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
                remedy="do_sample = false always takes the most probable token.",
            )
        return temperature

    @model_validator(mode="after")
    def _agree(self) -> Decoding:
        if self.do_sample and self.num_beams > 1:
            raise UserError(
                "do_sample and num_beams > 1 do not go together.",
                remedy="Leave one of them out: either answers are drawn, or the best are looked for.",
            )
        if not self.do_sample and self.num_return_sequences > self.num_beams:
            raise UserError(
                f"num_beams = {self.num_beams} gives fewer answers than num_return_sequences asks for.",
                remedy="Set num_beams to at least as many, or sample with do_sample = true.",
            )
        if self.min_new_tokens > self.max_new_tokens:
            raise UserError(
                f"min_new_tokens = {self.min_new_tokens} is more than max_new_tokens = {self.max_new_tokens}."
            )
        if self.width * self.max_new_tokens > MOST_TOKENS:
            times = f"{self.width} times " * (self.width > 1)
            raise UserError(
                f"There is no memory for {times}{self.max_new_tokens:,} tokens: at most {MOST_TOKENS:,} in all.",
                remedy="Set a smaller decoding.max_new_tokens.",
            )
        return self

    @property
    def width(self) -> int:
        """How many hypotheses an input has at one time."""
        return max(self.num_beams, self.num_return_sequences)


def chooser_of(settings: Decoding, seed: int = 0) -> Chooser:
    """The chooser that these settings describe; the seed matters to sampling alone."""
    if settings.do_sample:
        return Sample(
            seed,
            settings.temperature,
            settings.top_k,
            settings.top_p,
            settings.num_return_sequences,
            settings.length_penalty,
        )
    if settings.num_beams == 1:
        return Greedy(settings.length_penalty)
    stop = when_full if settings.early_stopping else when_beaten
    return Beam(settings.num_beams, settings.length_penalty, stop, settings.num_return_sequences)


def rules_of(settings: Decoding) -> tuple[Rule, ...]:
    """The rules that these settings ask for."""
    rules: list[Rule] = []
    if settings.repetition_penalty != 1:  # it goes first: what the others forbid is not shared out among the rest
        rules.append(Discourage(settings.repetition_penalty))
    if settings.min_new_tokens:
        rules.append(MinimumLength(settings.min_new_tokens))
    if settings.no_repeat_ngram_size:
        rules.append(NoRepeat(settings.no_repeat_ngram_size))
    return tuple(rules)


def limits_of(settings: Decoding, should_stop: Callable[[], bool] | None = None) -> Limits:
    """When decoding ends under these settings."""
    return Limits(settings.max_new_tokens, should_stop)
