"""The settings of a model: source, target, encoder and decoder, from which a model folder is rebuilt."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, model_validator
from torch import nn

from seq2see.core.settings import OpenKinds, Settings, default_kind
from seq2see.data.tokenizers.tokenizer import BPE, TokenizerSettings
from seq2see.models.bag_of_words import BagOfWordsSettings
from seq2see.models.convolutional import DilatedCNNSettings, GatedCNNSettings, TextCNNSettings
from seq2see.models.image_settings import PATCH_STRIDE_SETTING, ImageSource, VideoSource
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.resnet_encoder import ResNetSettings
from seq2see.models.transformer import TransformerSettings

OWN_ENCODERS: dict[type[Settings], Callable[[Any], nn.Module]] = {}
"""The encoders of `register_encoder`: from settings to module."""
EncoderSettings = Annotated[
    TransformerSettings
    | RecurrentEncoderSettings
    | GatedCNNSettings
    | DilatedCNNSettings
    | TextCNNSettings
    | BagOfWordsSettings
    | ResNetSettings,
    Field(discriminator="kind"),
    OpenKinds(OWN_ENCODERS),
]
DecoderSettings = Annotated[
    TransformerSettings | RecurrentDecoderSettings | MLPDecoderSettings | NgramSettings,
    Field(discriminator="kind"),
]


class TokenEmbeddingSettings(Settings):
    """Token embeddings from a learned table, plus position encodings."""

    kind: Literal["tokens"] = "tokens"
    positions: Literal["sinusoidal", "learned", "rotary", "alibi", "none"] = "sinusoidal"
    """Position encoding; rotary and alibi act in self-attention (Transformers only), recurrent models need none."""
    max_positions: int = Field(512, ge=1)
    """The number of learned positions; all positions beyond share the last."""
    scale: bool = True
    """Multiply the embeddings by √width, as in the paper; false leaves them unscaled, as in GPT-2."""


class BertEmbeddingSettings(Settings):
    """BERT's embeddings: the normalized sum of learned token, position and token type embeddings."""

    kind: Literal["bert"] = "bert"
    max_positions: int = Field(512, ge=1)
    """The number of learned positions; all positions beyond share the last."""

    @property
    def positions(self) -> Literal["learned"]:
        """The position encoding."""
        return "learned"


class NgramEmbeddingSettings(Settings):
    """Word embeddings from character n-grams, looked up by hash (fastText; Bojanowski et al. 2017); for taggers."""

    kind: Literal["ngrams"] = "ngrams"
    max_n: PositiveInt = 3
    """The largest n of the character n-grams; each whole word has an embedding of its own as well."""
    buckets: PositiveInt = 16_384
    """Rows of the embedding table; words and n-grams in the same hash bucket share an embedding."""
    word_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Word dropout: the probability that in training a word is embedded by its n-grams alone."""

    @property
    def positions(self) -> Literal["none"]:
        """The position encoding."""
        return "none"


class Text(Settings):
    """The source text."""

    kind: Literal["text"] = "text"
    tokenizer: TokenizerSettings = BPE()
    """How text is split into tokens."""
    embedding: Annotated[
        TokenEmbeddingSettings | BertEmbeddingSettings | NgramEmbeddingSettings,
        Field(discriminator="kind"),
        default_kind("tokens"),
    ] = TokenEmbeddingSettings()
    """How tokens are embedded."""
    max_tokens: int = Field(256, ge=2)
    """The maximal number of tokens of a text; longer texts are truncated, and that is reported."""


class TextTarget(Text):
    """The target text."""

    embedding: TokenEmbeddingSettings = TokenEmbeddingSettings()
    """How tokens are embedded."""
    vocabulary: Literal["separate", "shared"] = "separate"
    """Whether source and target share one vocabulary and one embedding table, or have separate ones."""
    head: Literal["tied", "untied", "untied-no-bias"] = "tied"
    """The language-model head: tied to the embedding table, untied with a bias, or untied without one."""
    suppress_tokens: tuple[int, ...] = ()
    """Token ids that never get any probability: pretrained weights may have no <pad>, for example."""


class MaskedTokensTarget(Settings):
    """The masked tokens of the source."""

    kind: Literal["masked-tokens"] = "masked-tokens"


class MaskedTokensNSPTarget(Settings):
    """The masked tokens of two texts, and whether the second follows the first (next sentence prediction)."""

    kind: Literal["masked-tokens-nsp"] = "masked-tokens-nsp"


class Label(Settings):
    """A label for the whole text; the set of labels comes from the training examples."""

    kind: Literal["label"] = "label"
    pooling: Literal["encoder", "cls"] = "encoder"
    """What the classifier reads: the encoder's own pooled vector, or the hidden state of <bos> (BERT's [CLS])."""


class ImageLabel(Settings):
    """A label for the whole image; the set of labels comes from the training examples."""

    kind: Literal["image-label"] = "image-label"
    pooling: Literal["cls", "mean", "map", "pre-logits", "distilled"] = "cls"
    """Pooling: class token, mean, attention pooling (map), or as pretrained weights have it (pre-logits, distilled)."""

    @property
    def prefix_tokens(self) -> int:
        """The number of learned vectors before the patches."""
        return {"mean": 0, "map": 0, "distilled": 2}.get(self.pooling, 1)


class Tags(Settings):
    """A tag for each word; the set of tags comes from the training examples."""

    kind: Literal["tags"] = "tags"
    word_pooling: Literal["mean", "first"] = "mean"
    """What represents a word: the mean of its tokens, or its first token, as in BERT."""


class EmbeddingTarget(Settings):
    """A sentence embedding: the only output of pretrained weights without a head."""

    kind: Literal["embedding"] = "embedding"
    pooling: Literal["mean", "cls"] = "mean"
    """Pooling: the mean of all hidden states, or the hidden state of <bos>."""


class Series(Settings):
    """The next value of a series."""

    kind: Literal["series"] = "series"
    context_length: int = Field(64, ge=1)
    """Values in a training window; also the context of a decoder that has no context length of its own."""


def embedding_width_of(decoder: TransformerSettings | RecurrentDecoderSettings | MLPDecoderSettings) -> int:
    """Width of the embeddings of the target, which the head shares if it is tied."""
    return (isinstance(decoder, RecurrentDecoderSettings) and decoder.embedding_width) or decoder.width


TargetSettings = (
    TextTarget | MaskedTokensTarget | MaskedTokensNSPTarget | Label | ImageLabel | Tags | Series | EmbeddingTarget
)


class ModelSettings(Settings):
    """A model: an encoder of the source and a decoder of the target.

    Without source and encoder it is a language model, without decoder an encoder-only model.
    """

    source: Annotated[Text | ImageSource | VideoSource, Field(discriminator="kind"), default_kind("text")] | None = None
    """The input of the encoder: a text, an image or a video; language models have none."""
    target: Annotated[TargetSettings, Field(discriminator="kind"), default_kind("text")] = TextTarget()
    """The output: a text, or a property of the source such as a label."""
    encoder: EncoderSettings | None = None
    """The encoder of the source."""
    decoder: DecoderSettings | None = None
    """The decoder, if the target is a text or a series."""

    @property
    def generates(self) -> bool:
        """Whether the output is a text."""
        return isinstance(self.target, TextTarget)

    @property
    def target_text(self) -> TextTarget:
        """The target text."""
        assert isinstance(self.target, TextTarget), "the target of this model is no text"
        return self.target

    @property
    def source_text(self) -> Text:
        """The source text."""
        assert isinstance(self.source, Text), "the source of this model is no text"
        return self.source

    @property
    def prefix_tokens(self) -> int:
        """The number of learned vectors before an image's patches; models that generate text have none."""
        return self.target.prefix_tokens if isinstance(self.target, ImageLabel) else int(not self.generates)

    @property
    def max_prompt_tokens(self) -> int:
        """The maximal number of prompt tokens of a language model: half its context, the rest is for the continuation.

        A recurrent language model without position encoding has no limit.
        """
        unlimited = (
            isinstance(self.decoder, RecurrentDecoderSettings) and self.target_text.embedding.positions == "none"
        )
        return sys.maxsize if unlimited else self.target_text.max_tokens // 2

    @model_validator(mode="after")
    def check_word_embeddings(self) -> ModelSettings:
        """Embeddings of words by character n-grams need the words of a tagger."""
        if (
            isinstance(self.source, Text)
            and isinstance(self.source.embedding, NgramEmbeddingSettings)
            and self.target != Tags()
        ):
            raise ValueError("source.embedding.kind=ngrams needs target.kind=tags and target.word_pooling=mean")
        return self

    @model_validator(mode="after")
    def check_image(self) -> ModelSettings:
        """The settings of models of images and videos."""
        if not isinstance(self.source, ImageSource):
            if isinstance(self.target, ImageLabel):
                raise ValueError("source.kind=image and target.kind=image-label go together")
            return self
        if not (self.generates or isinstance(self.target, ImageLabel) or self.target == EmbeddingTarget(pooling="cls")):
            raise ValueError("source.kind=image and target.kind=image-label go together")
        if self.generates and self.target_text.vocabulary == "shared":
            raise ValueError("images have no vocabulary that could be shared: set target.vocabulary=separate")
        if self.source.image_size % self.source.embedding.size:
            stride = f"{PATCH_STRIDE_SETTING[self.source.embedding.kind]} {self.source.embedding.size}"
            raise ValueError(f"source.image_size {self.source.image_size} must be a multiple of {stride}")
        if isinstance(self.source, VideoSource) and not (
            self.generates and isinstance(self.encoder, RecurrentEncoderSettings)
        ):
            raise ValueError("source.kind=video needs encoder.kind=recurrent and target.kind=text")
        return self

    @model_validator(mode="after")
    def check_image_encoder(self) -> ModelSettings:
        """The settings of ResNets and of attention pooling."""
        if self.target == ImageLabel(pooling="map") and not isinstance(self.encoder, TransformerSettings):
            raise ValueError("target.pooling=map needs encoder.kind=transformer, whose number of heads it uses")
        if isinstance(self.encoder, ResNetSettings):
            if self.target != ImageLabel(pooling="mean"):
                raise ValueError("encoder.kind=resnet needs target.kind=image-label and target.pooling=mean")
            if self.encoder.width % 2 ** (self.encoder.stages - 1):
                stages = self.encoder.stages
                raise ValueError(f"encoder.width {self.encoder.width} cannot be halved for each of {stages} stages")
        return self

    @model_validator(mode="after")
    def check_tables(self) -> ModelSettings:
        """The tables that a recipe needs or cannot have: source, encoder and decoder."""
        if (self.source is None) != (self.encoder is None):
            present, missing = ("encoder", "source") if self.source is None else ("source", "encoder")
            raise ValueError(f"a recipe with [{present}] needs [{missing}] too; a language model has neither")
        if self.encoder is not None and isinstance(self.decoder, NgramSettings | MLPDecoderSettings):
            kind = self.decoder.kind
            raise ValueError(f"decoder.kind={kind} cannot attend to a source: leave out [source] and [encoder]")
        return self

    @model_validator(mode="after")
    def check_heads(self) -> ModelSettings:
        """The width of a Transformer is a multiple of twice its heads, and its heads of its key and value heads."""
        for name, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            if isinstance(stack, TransformerSettings) and stack.width % (2 * stack.heads):
                raise ValueError(f"{name}.width {stack.width} must be a multiple of twice its {stack.heads} heads")
            if isinstance(stack, TransformerSettings) and stack.kv_heads and stack.heads % stack.kv_heads:
                raise ValueError(f"{name}.kv_heads {stack.kv_heads} must divide its {stack.heads} heads")
        return self

    @model_validator(mode="after")
    def check_target(self) -> ModelSettings:
        """Texts and series need a decoder, all other targets an encoder."""
        needs_decoder = self.generates or isinstance(self.target, Series)
        if needs_decoder != (self.decoder is not None):
            verb = "needs" if needs_decoder else "has no"
            raise ValueError(f"a recipe with target.kind={self.target.kind} {verb} [decoder]")
        if isinstance(self.target, Series) and (self.source or isinstance(self.decoder, NgramSettings)):
            raise ValueError("a series has no [source] and [encoder], and its values cannot be counted")
        if not needs_decoder and self.source is None:
            raise ValueError(f"a recipe with target.kind={self.target.kind} needs [source] and [encoder]")
        return self

    @model_validator(mode="after")
    def check_sequence_to_sequence(self) -> ModelSettings:
        """The settings that an encoder and a decoder share."""
        if self.source is None or self.encoder is None or self.decoder is None:
            return self
        if isinstance(self.source.embedding, BertEmbeddingSettings):
            raise ValueError("source.embedding.kind=bert is for encoder-only models")
        if self.target_text.vocabulary == "shared":
            assert not isinstance(self.decoder, NgramSettings)
            alternative = "or set target.vocabulary=separate"
            if self.encoder.width != embedding_width_of(self.decoder):
                raise ValueError(f"target.vocabulary=shared needs encoder.width and decoder.width alike, {alternative}")
            if self.source_text.tokenizer != self.target_text.tokenizer:
                raise ValueError(
                    f"target.vocabulary=shared needs source.tokenizer and target.tokenizer alike, {alternative}"
                )
        return self
