"""What decides a model's shape: the four slots that a model folder needs to be built again."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from seq2see.core.settings import Settings, default_kind
from seq2see.models.convolutional import GatedCNNSettings, TextCNNSettings
from seq2see.models.image_settings import PATCH_STRIDE_SETTING, ImageSource, VideoSource
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.resnet_encoder import ResNetSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenizers import BPE, TokenizerSettings

EncoderSettings = Annotated[
    TransformerSettings | RecurrentEncoderSettings | GatedCNNSettings | TextCNNSettings | ResNetSettings,
    Field(discriminator="kind"),
]
DecoderSettings = Annotated[
    TransformerSettings | RecurrentDecoderSettings | MLPDecoderSettings | NgramSettings,
    Field(discriminator="kind"),
]


class TokenEmbeddingSettings(Settings):
    """Tokens become vectors by a learned table, plus a vector for where they stand."""

    kind: Literal["tokens"] = "tokens"
    positions: Literal["sinusoidal", "learned", "rotary", "alibi", "none"] = "sinusoidal"
    """How a model is told where a token stands; rotary and alibi are for Transformers, recurrent ones need none."""
    max_positions: int = Field(512, ge=1)
    """Learned positions: how many there are; all times beyond share the last."""
    scale: bool = True
    """Whether the table's vectors are taken times √width, as in the paper, or as they are, as in GPT-2."""


class BertEmbeddingSettings(Settings):
    """Tokens become vectors as BERT's do: learned ones for token, place and sentence, added up and normalized."""

    kind: Literal["bert"] = "bert"
    max_positions: int = Field(512, ge=1)
    """How many places have a vector of their own; all places beyond share the last."""

    @property
    def positions(self) -> Literal["learned"]:
        """How a model is told where a token stands."""
        return "learned"


class NgramEmbeddingSettings(Settings):
    """Words become vectors by the n-grams of their letters, each looked up by its hash; for taggers."""

    kind: Literal["ngrams"] = "ngrams"
    max_n: PositiveInt = 3
    """Letters in the longest n-gram; a whole word has a vector of its own besides, whatever its length."""
    buckets: PositiveInt = 16_384
    """Rows of the table; words and n-grams that fall into the same row share a vector."""
    word_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the words that are known by their n-grams alone, drawn anew at every step of training."""

    @property
    def positions(self) -> Literal["none"]:
        """How a model is told where a word stands."""
        return "none"


class Text(Settings):
    """Text that is read."""

    kind: Literal["text"] = "text"
    tokenizer: TokenizerSettings = BPE()
    """How text is cut into tokens."""
    embedding: Annotated[
        TokenEmbeddingSettings | BertEmbeddingSettings | NgramEmbeddingSettings,
        Field(discriminator="kind"),
        default_kind("tokens"),
    ] = TokenEmbeddingSettings()
    """How tokens become vectors."""
    max_tokens: int = Field(256, ge=2)
    """Tokens kept of one text; what lies beyond is cut off, and that is reported."""


class TextTarget(Text):
    """Text that is written."""

    embedding: TokenEmbeddingSettings = TokenEmbeddingSettings()
    """How tokens become vectors."""
    vocabulary: Literal["separate", "shared"] = "separate"
    """Whether source and target have one vocabulary and one table of vectors, or one each."""
    head: Literal["tied", "untied", "untied-no-bias"] = "tied"
    """What scores tokens: the table of their input vectors, a matrix of its own with a bias, or one without."""
    suppress_tokens: tuple[int, ...] = ()
    """Numbers that name no token and are never probable: real weights may have no <pad>, say."""


class MaskedTokensTarget(Settings):
    """The tokens that were hidden in what is read."""

    kind: Literal["masked-tokens"] = "masked-tokens"


class MaskedTokensNSPTarget(Settings):
    """The tokens that were hidden in two texts, and whether the second follows the first."""

    kind: Literal["masked-tokens-nsp"] = "masked-tokens-nsp"


class Label(Settings):
    """One of a few labels for the whole text; which there are, the training examples say."""

    kind: Literal["label"] = "label"
    pooling: Literal["encoder", "cls"] = "encoder"
    """What the label is told from: the encoder's own summary of the text, or what it made of <bos>, as in BERT."""


class ImageLabel(Settings):
    """One of a few labels for the whole image; which there are, the training examples say."""

    kind: Literal["image-label"] = "image-label"
    pooling: Literal["cls", "mean", "map", "pre-logits", "distilled"] = "cls"
    """What the label is told from: a class token, the mean, what a question finds; or as real weights have it."""

    @property
    def prefix_tokens(self) -> int:
        """How many learned vectors stand in front of the patches."""
        return {"mean": 0, "map": 0, "distilled": 2}.get(self.pooling, 1)


class Tags(Settings):
    """One of a few tags for each word; which there are, the training examples say."""

    kind: Literal["tags"] = "tags"
    word_pooling: Literal["mean", "first"] = "mean"
    """What a word is told from: the mean of its pieces, or its first piece, as in BERT."""


class EmbeddingTarget(Settings):
    """A vector for the whole text: real weights without a head give no more."""

    kind: Literal["embedding"] = "embedding"
    pooling: Literal["mean", "cls"] = "mean"
    """What the vector is: the mean of all places, or what the encoder made of <bos>."""


class Series(Settings):
    """The next number of a series."""

    kind: Literal["series"] = "series"
    context_length: int = Field(64, ge=1)
    """Numbers asked for in one window of training; a model without a window of its own sees so many back."""


def embedding_width_of(decoder: TransformerSettings | RecurrentDecoderSettings | MLPDecoderSettings) -> int:
    """Numbers in a token's vector, on the way into a decoder and at its head."""
    return (isinstance(decoder, RecurrentDecoderSettings) and decoder.embedding_width) or decoder.width


TargetSettings = (
    TextTarget | MaskedTokensTarget | MaskedTokensNSPTarget | Label | ImageLabel | Tags | Series | EmbeddingTarget
)


class ModelSettings(Settings):
    """A model: it reads a source and writes a target.

    Without source and encoder it only writes (a language model), without decoder it only reads.
    """

    source: Annotated[Text | ImageSource | VideoSource, Field(discriminator="kind"), default_kind("text")] | None = None
    """What is read or looked at; a language model reads nothing but what it writes."""
    target: Annotated[TargetSettings, Field(discriminator="kind"), default_kind("text")] = TextTarget()
    """What is answered: a text, or something about the text that was read."""
    encoder: EncoderSettings | None = None
    """What reads the source."""
    decoder: DecoderSettings | None = None
    """What writes the target, if it is a text."""

    @property
    def generates(self) -> bool:
        """Whether the answer is a text."""
        return isinstance(self.target, TextTarget)

    @property
    def target_text(self) -> TextTarget:
        """The text that is written."""
        assert isinstance(self.target, TextTarget), "this model does not write"
        return self.target

    @property
    def source_text(self) -> Text:
        """The text that is read."""
        assert isinstance(self.source, Text), "this model does not read a text"
        return self.source

    @property
    def prefix_tokens(self) -> int:
        """Learned vectors in front of an image's patches: whoever writes looks at the patches themselves."""
        return self.target.prefix_tokens if isinstance(self.target, ImageLabel) else int(not self.generates)

    @property
    def max_prompt_tokens(self) -> int:
        """Tokens that a language model goes on from, at most, and so many more it may say: both fit in its window.

        A recurrent one whose tokens have no numbered places has no window: its state takes in any text.
        """
        endless = isinstance(self.decoder, RecurrentDecoderSettings) and self.target_text.embedding.positions == "none"
        return sys.maxsize if endless else self.target_text.max_tokens // 2

    @model_validator(mode="after")
    def check_words(self) -> ModelSettings:
        """N-grams are those of words, and only taggers are told which letters are a word."""
        if (
            isinstance(self.source, Text)
            and isinstance(self.source.embedding, NgramEmbeddingSettings)
            and self.target != Tags()
        ):
            raise ValueError("source.embedding.kind=ngrams needs target.kind=tags and target.word_pooling=mean")
        return self

    @model_validator(mode="after")
    def check_image(self) -> ModelSettings:
        """An image must be whole patches, and what is said of images is not said of texts."""
        looks = isinstance(self.source, ImageSource)
        answered = self.generates or self.target == EmbeddingTarget(
            pooling="cls"
        )  # words, or real weights without a head
        if looks != isinstance(self.target, ImageLabel) and not (looks and answered):
            raise ValueError("source.kind=image and target.kind=image-label go together")
        if looks and self.generates and self.target_text.vocabulary == "shared":
            raise ValueError("images have no vocabulary that could be shared: set target.vocabulary=separate")
        if isinstance(self.source, ImageSource) and self.source.image_size % self.source.embedding.size:
            apart = f"{PATCH_STRIDE_SETTING[self.source.embedding.kind]} {self.source.embedding.size}"
            raise ValueError(f"source.image_size {self.source.image_size} must be a multiple of {apart}")
        if isinstance(self.source, VideoSource) and not (
            self.generates and isinstance(self.encoder, RecurrentEncoderSettings)
        ):
            raise ValueError("source.kind=video needs encoder.kind=recurrent, which knows what came first, and a text")
        if self.target == ImageLabel(pooling="map") and not isinstance(self.encoder, TransformerSettings):
            raise ValueError("target.pooling=map needs encoder.kind=transformer, whose heads it takes")
        if isinstance(self.encoder, ResNetSettings):
            if self.target != ImageLabel(pooling="mean"):
                raise ValueError("encoder.kind=resnet needs target.kind=image-label and target.pooling=mean")
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
        if self.encoder is not None and isinstance(self.decoder, NgramSettings | MLPDecoderSettings):
            raise ValueError(f"a {self.decoder.kind} decoder cannot look at a source: leave out [source] and [encoder]")
        for name, part in (("encoder", self.encoder), ("decoder", self.decoder)):
            if isinstance(part, TransformerSettings) and part.width % (2 * part.heads):
                raise ValueError(f"{name}.width {part.width} must be a multiple of twice its {part.heads} heads")
            if isinstance(part, TransformerSettings) and part.kv_heads and part.heads % part.kv_heads:
                raise ValueError(f"{name}.kv_heads {part.kv_heads} must divide its {part.heads} heads")
        goes_on = self.generates or isinstance(self.target, Series)
        if goes_on != (self.decoder is not None):
            verb = "needs" if goes_on else "has no"
            raise ValueError(f"a recipe with target.kind={self.target.kind} {verb} [decoder]")
        if isinstance(self.target, Series) and (self.source or isinstance(self.decoder, NgramSettings)):
            raise ValueError("a series has no [source] and [encoder], and its numbers cannot be counted")
        if not goes_on and self.source is None:
            raise ValueError(f"a recipe with target.kind={self.target.kind} needs [source] and [encoder]")
        if self.source is None or self.encoder is None or self.decoder is None:
            return self
        if isinstance(self.source.embedding, BertEmbeddingSettings):
            raise ValueError("embedding.kind=bert is for models that only read")
        if self.target_text.vocabulary == "shared":
            assert not isinstance(self.decoder, NgramSettings)
            otherwise = "or set target.vocabulary=separate"
            if self.encoder.width != embedding_width_of(self.decoder):
                raise ValueError(f"target.vocabulary=shared needs encoder.width and decoder.width alike, {otherwise}")
            if self.source_text.tokenizer != self.target_text.tokenizer:
                raise ValueError(
                    f"target.vocabulary=shared needs source.tokenizer and target.tokenizer alike, {otherwise}"
                )
        return self
