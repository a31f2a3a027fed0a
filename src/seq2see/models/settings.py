"""What decides a model's shape: the four slots that a model folder needs to be built again."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from seq2see.core.settings import Settings, usually
from seq2see.models.convolutional import ConvolutionalEncoderSettings, WindowEncoderSettings
from seq2see.models.counting import CountingSettings
from seq2see.models.picture_settings import APART, Film, Picture
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.resnet import ResNetSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.models.window import WindowDecoderSettings
from seq2see.sequences.tokenisers import AnyTokeniser, BytePairs

Encoder = Annotated[
    TransformerSettings
    | RecurrentEncoderSettings
    | ConvolutionalEncoderSettings
    | WindowEncoderSettings
    | ResNetSettings,
    Field(discriminator="kind"),
]
Decoder = Annotated[
    TransformerSettings | RecurrentDecoderSettings | WindowDecoderSettings | CountingSettings,
    Field(discriminator="kind"),
]


class Tokens(Settings):
    """Tokens become vectors by a learned table, plus a vector for where they stand."""

    kind: Literal["tokens"] = "tokens"
    positions: Literal["sinusoidal", "learned", "rotary", "alibi", "none"] = "sinusoidal"
    """How a model is told where a token stands; rotary and alibi are for Transformers, recurrent ones need none."""
    longest: int = Field(512, ge=1)
    """Learned positions: how many there are; all times beyond share the last."""
    vectors: Literal["scaled", "plain"] = "scaled"
    """Whether the table's vectors are taken times √width, as in the paper, or as they are, as in GPT-2."""


class Sentences(Settings):
    """Tokens become vectors as BERT's do: learned ones for token, place and sentence, added up and normalised."""

    kind: Literal["sentences"] = "sentences"
    longest: int = Field(512, ge=1)
    """How many places have a vector of their own; all places beyond share the last."""

    @property
    def positions(self) -> Literal["learned"]:
        """How a model is told where a token stands."""
        return "learned"


class Ngrams(Settings):
    """Words become vectors by the n-grams of their letters, each looked up by its hash; for taggers."""

    kind: Literal["ngrams"] = "ngrams"
    letters: PositiveInt = 3
    """Letters in the longest n-gram; a whole word has a vector of its own besides, whatever its length."""
    rows: PositiveInt = 16_384
    """Rows of the table; words and n-grams that fall into the same row share a vector."""
    left_out: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the words that are known by their n-grams alone, drawn anew at every step of training."""

    @property
    def positions(self) -> Literal["none"]:
        """How a model is told where a word stands."""
        return "none"


class Text(Settings):
    """Text that is read."""

    kind: Literal["text"] = "text"
    tokeniser: AnyTokeniser = BytePairs()
    """How text is cut into tokens."""
    frontend: Annotated[Tokens | Sentences | Ngrams, Field(discriminator="kind"), usually("tokens")] = Tokens()
    """How tokens become vectors."""
    longest: int = Field(256, ge=2)
    """Tokens kept of one text; what lies beyond is cut off, and that is reported."""


class TextTarget(Text):
    """Text that is written."""

    frontend: Tokens = Tokens()
    """How tokens become vectors."""
    vocabulary: Literal["separate", "shared"] = "separate"
    """Whether source and target have one vocabulary and one table of vectors, or one each."""
    head: Literal["tied", "free", "plain"] = "tied"
    """What scores tokens: the table of their input vectors, a matrix of its own with a bias, or one without."""
    missing: tuple[int, ...] = ()
    """Numbers that name no token and are never probable: real weights may have no <pad>, say."""


class Blanks(Settings):
    """The tokens that were hidden in what is read."""

    kind: Literal["blanks"] = "blanks"


class BlanksAndPairs(Settings):
    """The tokens that were hidden in two texts, and whether the second follows the first."""

    kind: Literal["blanks-and-pairs"] = "blanks-and-pairs"


class Label(Settings):
    """One of a few labels for the whole text; which there are, the training examples say."""

    kind: Literal["label"] = "label"
    summary: Literal["encoder", "first"] = "encoder"
    """What the label is told from: the encoder's own summary of the text, or what it made of <bos>, as in BERT."""


class PictureLabel(Settings):
    """One of a few labels for the whole picture; which there are, the training examples say."""

    kind: Literal["picture-label"] = "picture-label"
    summary: Literal["class-token", "mean", "attention", "pre-logits", "distilled"] = "class-token"
    """What the label is told from: a class token, the mean, what a question finds; or as real weights have it."""

    @property
    def tokens(self) -> int:
        """How many learned vectors stand in front of the patches."""
        return {"mean": 0, "attention": 0, "distilled": 2}.get(self.summary, 1)


class Tags(Settings):
    """One of a few tags for each word; which there are, the training examples say."""

    kind: Literal["tags"] = "tags"
    word: Literal["mean", "first"] = "mean"
    """What a word is told from: the mean of its pieces, or its first piece, as in BERT."""


class Vector(Settings):
    """A vector for the whole text: real weights without a head give no more."""

    kind: Literal["vector"] = "vector"
    summary: Literal["mean", "first"] = "mean"
    """What the vector is: the mean of all places, or what the encoder made of <bos>."""


class Series(Settings):
    """The next number of a series."""

    kind: Literal["series"] = "series"
    longest: int = Field(64, ge=1)
    """Numbers asked for in one window of training; a model without a window of its own sees so many back."""


def table_width(decoder: TransformerSettings | RecurrentDecoderSettings | WindowDecoderSettings) -> int:
    """Numbers in a token's vector, on the way into a decoder and at its head."""
    return (isinstance(decoder, RecurrentDecoderSettings) and decoder.vectors) or decoder.width


Target = TextTarget | Blanks | BlanksAndPairs | Label | PictureLabel | Tags | Series | Vector


class ModelSettings(Settings):
    """A model: it reads a source and writes a target.

    Without source and encoder it only writes (a language model), without decoder it only reads.
    """

    source: Annotated[Text | Picture | Film, Field(discriminator="kind"), usually("text")] | None = None
    """What is read or looked at; a language model reads nothing but what it writes."""
    target: Annotated[Target, Field(discriminator="kind"), usually("text")] = TextTarget()
    """What is answered: a text, or something about the text that was read."""
    encoder: Encoder | None = None
    """What reads the source."""
    decoder: Decoder | None = None
    """What writes the target, if it is a text."""

    @property
    def writes(self) -> bool:
        """Whether the answer is a text."""
        return isinstance(self.target, TextTarget)

    @property
    def written(self) -> TextTarget:
        """The text that is written."""
        assert isinstance(self.target, TextTarget), "this model does not write"
        return self.target

    @property
    def read(self) -> Text:
        """The text that is read."""
        assert isinstance(self.source, Text), "this model does not read a text"
        return self.source

    @property
    def in_front(self) -> int:
        """Learned vectors in front of a picture's patches: whoever writes looks at the patches themselves."""
        return self.target.tokens if isinstance(self.target, PictureLabel) else int(not self.writes)

    @property
    def sight(self) -> int:
        """Tokens that a language model goes on from, at most, and so many more it may say: both fit in its window.

        A recurrent one whose tokens have no numbered places has no window: its state takes in any text.
        """
        endless = isinstance(self.decoder, RecurrentDecoderSettings) and self.written.frontend.positions == "none"
        return sys.maxsize if endless else self.written.longest // 2

    @model_validator(mode="after")
    def check_words(self) -> ModelSettings:
        """N-grams are those of words, and only taggers are told which letters are a word."""
        if isinstance(self.source, Text) and isinstance(self.source.frontend, Ngrams) and self.target != Tags():
            raise ValueError("source.frontend.kind=ngrams needs target.kind=tags and target.word=mean")
        return self

    @model_validator(mode="after")
    def check_picture(self) -> ModelSettings:
        """A picture must be whole patches, and what is said of pictures is not said of texts."""
        looks = isinstance(self.source, Picture)
        answered = self.writes or self.target == Vector(summary="first")  # words, or real weights without a head
        if looks != isinstance(self.target, PictureLabel) and not (looks and answered):
            raise ValueError("source.kind=picture and target.kind=picture-label go together")
        if looks and self.writes and self.written.vocabulary == "shared":
            raise ValueError("pictures have no vocabulary that could be shared: set target.vocabulary=separate")
        if isinstance(self.source, Picture) and self.source.side % self.source.frontend.size:
            apart = f"{APART[self.source.frontend.kind]} {self.source.frontend.size}"
            raise ValueError(f"source.side {self.source.side} must be a multiple of {apart}")
        if isinstance(self.source, Film) and not (self.writes and isinstance(self.encoder, RecurrentEncoderSettings)):
            raise ValueError("source.kind=film needs encoder.kind=recurrent, which knows what came first, and a text")
        if self.target == PictureLabel(summary="attention") and not isinstance(self.encoder, TransformerSettings):
            raise ValueError("target.summary=attention needs encoder.kind=transformer, whose heads it takes")
        if isinstance(self.encoder, ResNetSettings):
            if self.target != PictureLabel(summary="mean"):
                raise ValueError("encoder.kind=resnet needs target.kind=picture-label and target.summary=mean")
            if self.encoder.width % 2 ** (self.encoder.stages - 1):
                stages = self.encoder.stages
                raise ValueError(f"encoder.width {self.encoder.width} cannot be halved for each of {stages} stages")
        return self

    @model_validator(mode="after")
    def check(self) -> ModelSettings:
        """The rules that hold between slots."""
        if (self.source is None) != (self.encoder is None):
            there, missing = ("encoder", "source") if self.source is None else ("source", "encoder")
            raise ValueError(f"a recipe with [{there}] needs [{missing}] too; a language model has neither")
        if self.encoder is not None and isinstance(self.decoder, CountingSettings | WindowDecoderSettings):
            raise ValueError(f"a {self.decoder.kind} decoder cannot look at a source: leave out [source] and [encoder]")
        for name, part in (("encoder", self.encoder), ("decoder", self.decoder)):
            if isinstance(part, TransformerSettings) and part.width % (2 * part.heads):
                raise ValueError(f"{name}.width {part.width} must be a multiple of twice its {part.heads} heads")
            if isinstance(part, TransformerSettings) and part.key_heads and part.heads % part.key_heads:
                raise ValueError(f"{name}.key_heads {part.key_heads} must divide its {part.heads} heads")
        goes_on = self.writes or isinstance(self.target, Series)
        if goes_on != (self.decoder is not None):
            verb = "needs" if goes_on else "has no"
            raise ValueError(f"a recipe with target.kind={self.target.kind} {verb} [decoder]")
        if isinstance(self.target, Series) and (self.source or isinstance(self.decoder, CountingSettings)):
            raise ValueError("a series has no [source] and [encoder], and its numbers cannot be counted")
        if not goes_on and self.source is None:
            raise ValueError(f"a recipe with target.kind={self.target.kind} needs [source] and [encoder]")
        if self.source is None or self.encoder is None or self.decoder is None:
            return self
        if isinstance(self.source.frontend, Sentences):
            raise ValueError("frontend.kind=sentences is for models that only read")
        if self.written.vocabulary == "shared":
            assert not isinstance(self.decoder, CountingSettings)
            otherwise = "or set target.vocabulary=separate"
            if self.encoder.width != table_width(self.decoder):
                raise ValueError(f"target.vocabulary=shared needs encoder.width and decoder.width alike, {otherwise}")
            if self.read.tokeniser != self.written.tokeniser:
                raise ValueError(
                    f"target.vocabulary=shared needs source.tokeniser and target.tokeniser alike, {otherwise}"
                )
        return self
