"""What decides a model's shape: the four slots that a model folder needs to be built again."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2see.core.settings import Settings
from seq2see.models.convolutional import ConvolutionalEncoderSettings
from seq2see.models.counting import CountingSettings
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import AnyTokeniser, BytePairs

Encoder = Annotated[
    TransformerSettings | RecurrentEncoderSettings | ConvolutionalEncoderSettings, Field(discriminator="kind")
]
Decoder = Annotated[TransformerSettings | RecurrentDecoderSettings | CountingSettings, Field(discriminator="kind")]


class Tokens(Settings):
    """Tokens become vectors by a learned table, plus a vector for where they stand."""

    kind: Literal["tokens"] = "tokens"
    positions: Literal["sinusoidal", "learned", "rotary", "alibi", "none"] = "sinusoidal"
    """How a model is told where a token stands; rotary and alibi are for Transformers, recurrent ones need none."""
    longest: int = Field(512, ge=1)
    """Learned positions: how many there are; all times beyond share the last."""
    vectors: Literal["scaled", "plain"] = "scaled"
    """Whether the table's vectors are taken times √width, as in the paper, or as they are, as in GPT-2."""


class Text(Settings):
    """Text that is read."""

    kind: Literal["text"] = "text"
    tokeniser: AnyTokeniser = BytePairs()
    """How text is cut into tokens."""
    frontend: Tokens = Tokens()
    """How tokens become vectors."""
    longest: int = Field(256, ge=2)
    """Tokens kept of one text; what lies beyond is cut off, and that is reported."""


class TextTarget(Text):
    """Text that is written."""

    vocabulary: Literal["separate", "shared"] = "separate"
    """Whether source and target have one vocabulary and one table of vectors, or one each."""
    head: Literal["tied", "free", "plain"] = "tied"
    """What scores tokens: the table of their input vectors, a matrix of its own with a bias, or one without."""
    missing: tuple[int, ...] = ()
    """Numbers that name no token and are never probable: real weights may have no <pad>, say."""

    @property
    def half(self) -> int:
        """Tokens that a language model goes on from, at most, and so many more it may say: both fit in its window."""
        return self.longest // 2


class ModelSettings(Settings):
    """A model: one that reads a source and writes a target, or, without source and encoder, a language model."""

    source: Text | None = None
    """What is read; a language model reads nothing but what it writes."""
    target: TextTarget = TextTarget()
    encoder: Encoder | None = None
    """What reads it."""
    decoder: Decoder = TransformerSettings()

    @model_validator(mode="after")
    def check(self) -> ModelSettings:
        """The rules that hold between slots."""
        if (self.source is None) != (self.encoder is None):
            there, missing = ("encoder", "source") if self.source is None else ("source", "encoder")
            raise ValueError(f"a recipe with [{there}] needs [{missing}] too; a language model has neither")
        if self.encoder is not None and isinstance(self.decoder, CountingSettings):
            raise ValueError("a counting decoder cannot look at a source: leave out [source] and [encoder]")
        for name, part in (("encoder", self.encoder), ("decoder", self.decoder)):
            if isinstance(part, TransformerSettings) and part.width % (2 * part.heads):
                raise ValueError(f"{name}.width {part.width} must be a multiple of twice its {part.heads} heads")
            if isinstance(part, TransformerSettings) and part.key_heads and part.heads % part.key_heads:
                raise ValueError(f"{name}.key_heads {part.key_heads} must divide its {part.heads} heads")
        if self.encoder is not None and self.source is not None and self.target.vocabulary == "shared":
            assert not isinstance(self.decoder, CountingSettings)
            if self.encoder.width != self.decoder.width:
                raise ValueError("a shared vocabulary needs an encoder and a decoder of equal width")
            if self.source.tokeniser != self.target.tokeniser:
                raise ValueError("a shared vocabulary needs the same tokeniser on both sides")
        return self
