"""Below "Decode step by step": teacher forcing against free running."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench
from seq2see.explorer.messages import AboutGiven, Words
from seq2see.explorer.views.decode import longest
from seq2see.explorer.views.next_token import StandingAsked, written
from seq2see.workbench import exposure as comparing


class ExposureAsked(AboutGiven):
    """Something that is given and its true answer, or how a text truly goes on."""

    target: Words


def exposure(bench: Bench, asked: ExposureAsked) -> dict[str, Any]:
    """Step by step, how a target is read and what is written in its place."""
    before = written(bench, StandingAsked(**asked.model_dump(exclude={"target"})))
    count, most = len(comparing.truth_of(before, asked.target)), longest(before.model)
    if count > most:
        what = f"The target has {count} tokens, and up to {most} are compared."
        raise UserError(what, remedy="Give a shorter one.")
    return asdict(comparing.exposure(before, asked.target))
