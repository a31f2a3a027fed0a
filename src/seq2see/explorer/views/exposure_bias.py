"""A part of the view "Decode step by step": teacher forcing compared with free running."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import InputRequest, InputText
from seq2see.explorer.views.decode import max_shown_tokens
from seq2see.explorer.views.next_token import PrefixRequest, decoder_context
from seq2see.explorer.workspace import Workspace
from seq2see.runs import exposure_bias as comparison


class ExposureBiasRequest(InputRequest):
    """An input and its reference; for language models, a text and its true continuation."""

    target: InputText


def exposure_bias(workspace: Workspace, request: ExposureBiasRequest) -> dict[str, Any]:
    """Step by step, the losses with teacher forcing and with free running."""
    context = decoder_context(workspace, PrefixRequest(**request.model_dump(exclude={"target"})))
    count, limit = len(comparison.target_ids(context, request.target)), max_shown_tokens(context.model)
    if count > limit:
        message = f"The target has {count} tokens, and the maximum is {limit}."
        raise UserError(message, hint="Give a shorter one.")
    return asdict(comparison.exposure_bias(context, request.target))
