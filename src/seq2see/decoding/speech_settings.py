"""The settings of decoding of speech recognizers."""

from __future__ import annotations

from pydantic import Field

from seq2see.decoding.engine import Decoding


class SpeechDecoding(Decoding):
    """Settings of decoding: how a recording is transcribed."""

    max_new_tokens: int = Field(200, ge=1)
    """The maximum number of generated tokens, including the end token; CTC is limited by its frames alone."""
    ctc_weight: float = Field(0.3, ge=0, le=1)
    """The weight of CTC in joint decoding with a decoder (target.kind=ctc-attention); 0 is the decoder alone."""
    language_model: str = ""
    """A run of the task write or ngram whose log-probabilities are added; empty for none."""
    language_model_weight: float = Field(0.3, ge=0)
    """The weight of the language model."""
