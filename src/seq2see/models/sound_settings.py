"""Settings of a sound source, of the four outputs of a speech recognizer, and of its model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from seq2see.core.settings import OpenKinds, Settings
from seq2see.data.tokenizers.tokenizer import Characters, TokenizerSettings
from seq2see.models.convolutional import DilatedCNNSettings, GatedCNNSettings
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import OWN_ENCODERS, ModelSettings, TextTarget
from seq2see.models.transformer import TransformerSettings


class SoundEmbeddingSettings(Settings):
    """Two convolutions over time and frequency, each with stride 2: one vector for four frames."""

    kind: Literal["convolutions"] = "convolutions"
    channels: PositiveInt = 32
    """Channels of the convolutions."""
    positions: Literal["sinusoidal", "rotary", "alibi", "none"] = "none"
    """Position encoding; rotary and alibi act in self-attention (Transformers only), recurrent models need none."""


class Sound(Settings):
    """The source sound, as a log-mel spectrogram."""

    kind: Literal["sound"] = "sound"
    sampling_rate: int = Field(8000, ge=4000, le=48_000)
    """Samples per second; recordings of other rates are resampled."""
    bands: int = Field(40, ge=8, le=256)
    """Mel bands of the spectrogram."""
    embedding: SoundEmbeddingSettings = SoundEmbeddingSettings()
    """How the spectrogram is embedded."""


class CTCTarget(Settings):
    """The text by CTC: each frame has a token or a blank (Graves et al. 2006)."""

    kind: Literal["ctc"] = "ctc"
    tokenizer: TokenizerSettings = Characters()
    """How text is split into tokens."""


class TransducerTarget(CTCTarget):
    """The text by a transducer: each frame has several tokens or none (Graves 2012).

    The decoder is its prediction network. With `decoder.attention` other than none, it attends to the sound, too
    (Prabhavalkar et al. 2017, section 2.3).
    """

    kind: Literal["transducer"] = "transducer"  # type: ignore[assignment]
    joint_width: PositiveInt = 128
    """Width of the joint network."""


class CTCAttentionTarget(TextTarget):
    """The text by a decoder with attention, whose encoder is trained by CTC as well (Watanabe et al. 2017)."""

    kind: Literal["ctc-attention"] = "ctc-attention"  # type: ignore[assignment]
    ctc_weight: float = Field(0.3, gt=0, lt=1)
    """The weight λ of the CTC loss; the loss of the decoder has the weight 1 - λ."""


SpeechTarget = Annotated[
    CTCTarget | TextTarget | CTCAttentionTarget | TransducerTarget,
    Field(discriminator="kind"),
]
"""The outputs: CTC, a decoder with attention, both, or a transducer."""
SpeechEncoder = Annotated[
    TransformerSettings | RecurrentEncoderSettings | GatedCNNSettings | DilatedCNNSettings,
    Field(discriminator="kind"),
    OpenKinds(OWN_ENCODERS),
]
SpeechDecoder = Annotated[TransformerSettings | RecurrentDecoderSettings, Field(discriminator="kind")]


class SpeechModelSettings(ModelSettings):
    """A speech recognizer: an encoder of the sound, and one of four outputs."""

    source: Sound = Sound()  # type: ignore[assignment]
    target: SpeechTarget = CTCTarget()  # type: ignore[assignment]
    encoder: SpeechEncoder
    decoder: SpeechDecoder | None = None

    @model_validator(mode="after")
    def check_target(self) -> SpeechModelSettings:
        """CTC has no decoder, and a transducer has a recurrent one."""
        kind = self.target.kind
        if (kind == "ctc") != (self.decoder is None):
            raise ValueError(f"a recipe with target.kind={kind} {'has no' if kind == 'ctc' else 'needs'} [decoder]")
        if kind == "transducer" and not isinstance(self.decoder, RecurrentDecoderSettings):
            raise ValueError("target.kind=transducer needs decoder.kind=recurrent, its prediction network")
        if isinstance(self.target, TextTarget) and getattr(self.decoder, "attention", "") == "none":
            raise ValueError(f"target.kind={kind} needs attention to the sound: set decoder.attention=additive")
        return self

    @model_validator(mode="after")
    def check_sequence_to_sequence(self) -> SpeechModelSettings:
        """A sound has no vocabulary."""
        if isinstance(self.target, TextTarget) and self.target.vocabulary == "shared":
            raise ValueError("sounds have no vocabulary that could be shared: set target.vocabulary=separate")
        return self
