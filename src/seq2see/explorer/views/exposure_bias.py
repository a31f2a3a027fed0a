"""Below "Decode step by step": teacher forcing against free running."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import InputRequest, InputText
from seq2see.explorer.views.decode import max_shown_tokens
from seq2see.explorer.views.next_token import PrefixRequest, generation_scorer
from seq2see.explorer.workspace import Workspace
from seq2see.runs import exposure_bias as exposure_comparison


class ExposureBiasRequest(InputRequest):
    """Something that is given and its true answer, or how a text truly goes on."""

    target: InputText


def exposure_bias(workspace: Workspace, request: ExposureBiasRequest) -> dict[str, Any]:
    """Step by step, how a target is read and what is written in its place."""
    scorer = generation_scorer(workspace, PrefixRequest(**request.model_dump(exclude={"target"})))
    count, most = len(exposure_comparison.target_ids(scorer, request.target)), max_shown_tokens(scorer.model)
    if count > most:
        what = f"The target has {count} tokens, and up to {most} are compared."
        raise UserError(what, hint="Give a shorter one.")
    return asdict(exposure_comparison.exposure_bias(scorer, request.target))
