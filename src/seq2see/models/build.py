"""From settings to a model: a few tables map each settings class to its module; and from a file to its weights.

A safetensors file holds only names and tensors, and no two tensors may share memory. So a weight with two names (a tied
embedding) is stored once. Loading copies values into the existing tensors, so tied weights stay tied, and it is strict:
a name or a shape that differs is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.core.errors import UserError
from seq2see.core.seeds import seed_torch
from seq2see.core.settings import Settings
from seq2see.layers.feed_forward import ACTIVATIONS, FEED_FORWARDS
from seq2see.layers.initialization import initialize
from seq2see.layers.norms_and_dropout import EPSILON
from seq2see.layers.pooling import (
    AttentionPooling,
    ClsDistillationPooling,
    ClsPooling,
    MeanPooling,
    Pooling,
    PrefixTokens,
    TanhClsPooling,
)
from seq2see.layers.positions import POSITIONS, POSITIONS_2D, LearnedPositions, LearnedPositions2d
from seq2see.models.bag_of_words import BagOfWords, BagOfWordsSettings
from seq2see.models.bert import BERT, BERTForPreTraining, PredictionHeadTransform
from seq2see.models.convolutional import (
    DilatedCNN,
    DilatedCNNSettings,
    GatedCNN,
    GatedCNNSettings,
    TextCNN,
    TextCNNSettings,
)
from seq2see.models.embeddings_and_heads import (
    HEADS,
    TOKEN_EMBEDDINGS,
    BertEmbedding,
    RegressionHead,
    SuppressTokensHead,
    TokenEmbedding,
    ValueEmbedding,
)
from seq2see.models.encoder_model import CLASSIFIERS, EMBEDDING_MODELS, TAGGERS, EncoderModel, Tagger, WordTagger
from seq2see.models.gpt import GPTDecoder
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.language_model import LanguageModel
from seq2see.models.mlp_lm import MLPDecoder, MLPDecoderSettings
from seq2see.models.ngram_lm import IdentityEmbedding, NgramDecoder, NgramSettings, NgramTable
from seq2see.models.recurrent import (
    RecurrentDecoder,
    RecurrentDecoderSettings,
    RecurrentEncoder,
    RecurrentEncoderSettings,
)
from seq2see.models.resnet_encoder import ConvolutionalStem, ResNetEncoder, ResNetSettings, ResNetStem, conv2d
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import (
    OWN_ENCODERS,
    BertEmbeddingSettings,
    EmbeddingTarget,
    ImageLabel,
    Label,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    ModelSettings,
    NgramEmbeddingSettings,
    Series,
    Tags,
    Text,
    TextTarget,
    TokenEmbeddingSettings,
    embedding_width_of,
)
from seq2see.models.subword_ngrams import NgramEmbedding
from seq2see.models.transformer import TransformerDecoder, TransformerEncoder, TransformerSettings
from seq2see.models.video import VideoEmbedding
from seq2see.models.vit import ImageEmbedding, PatchEmbedding, ViT

# Self-attention of a Transformer applies those position encodings that are not added to the embeddings.
ENCODERS: dict[type[Settings], Callable[[Any, str], nn.Module]] = {
    TransformerSettings: TransformerEncoder,
    RecurrentEncoderSettings: lambda settings, positions: RecurrentEncoder.from_settings(settings),
    GatedCNNSettings: lambda settings, positions: GatedCNN.from_settings(settings),
    DilatedCNNSettings: lambda settings, positions: DilatedCNN.from_settings(settings),
    TextCNNSettings: lambda settings, positions: TextCNN.from_settings(settings),
    BagOfWordsSettings: lambda settings, positions: BagOfWords(),
    ResNetSettings: lambda settings, positions: ResNetEncoder(settings),
}
PATCH_EMBEDDINGS: dict[str, Callable[[Any, int, int], nn.Module]] = {  # from pixels to a feature map
    "patches": lambda options, channels, width: PatchEmbedding(channels, options.size, width),
    "conv-stem": lambda options, channels, width: ConvolutionalStem(channels, width, options.depth),
    "resnet-stem": lambda options, channels, width: ResNetStem(channels, width, options.depth, options.stages),
    "pixels": lambda options, channels, width: conv2d(channels, width, 3),
}
DECODERS: dict[type, Callable[[Any, int, str], nn.Module]] = {
    TransformerSettings: TransformerDecoder,
    RecurrentDecoderSettings: lambda settings, memory_width, positions: RecurrentDecoder.from_settings(
        settings, memory_width
    ),
}
DECODERS_WITHOUT_MEMORY: dict[type, Callable[[Any, str], nn.Module]] = {  # decoders of language models
    TransformerSettings: GPTDecoder,
    RecurrentDecoderSettings: lambda settings, positions: RecurrentDecoder.from_settings(settings, memory_width=None),
    MLPDecoderSettings: lambda settings, positions: MLPDecoder(settings),
}
ENCODER_MODELS: dict[type, Callable[[Any, nn.Module, Any, int], EncoderModel]] = {
    MaskedTokensTarget: lambda source, body, settings, classes: BERT(source, body, _head_transform(settings.encoder)),
    MaskedTokensNSPTarget: lambda source, body, settings, classes: BERTForPreTraining(
        source, body, _head_transform(settings.encoder)
    ),
    Label: lambda source, body, settings, classes: CLASSIFIERS[settings.target.pooling](
        source, body, settings.encoder, classes
    ),
    ImageLabel: lambda source, body, settings, classes: ViT(
        source, body, settings.encoder, classes, _pooling(settings)
    ),
    Tags: lambda source, body, settings, classes: _tagger(settings)(source, body, settings.encoder, classes),
    EmbeddingTarget: lambda source, body, settings, classes: EMBEDDING_MODELS[settings.target.pooling](source, body),
}


def build_model(settings: ModelSettings, source_size: int, target_size: int) -> LanguageModel | EncoderModel:
    """The model these settings describe, for vocabularies of these sizes; a language model has only the second."""
    if isinstance(settings.target, Series):
        return _series(settings)
    build = build_generative_model if settings.generates else _encoder_model
    return build(settings, source_size, target_size)


def register_encoder(settings: type[Settings], build: Callable[[Any], nn.Module]) -> None:
    """Add an encoder: the class of its settings, and a function that builds it from them.

    Recipes select it by the `kind` of its settings, which also have the fields `width` and `dropout`. The module maps
    the embedded input, `Sequences` of vectors, to an `EncoderOutput`.
    """
    fields = settings.model_fields
    missing = [name for name in ("kind", "width", "dropout") if name not in fields]
    if missing:
        raise UserError(f"The settings of an encoder need the field '{missing[0]}'.", location=settings.__name__)
    kind = fields["kind"].default
    if any(kind == cls.model_fields["kind"].default for cls in (*ENCODERS, *OWN_ENCODERS) if cls is not settings):
        raise UserError(f"There is already an encoder '{kind}'.", hint="Give your encoder another kind.")
    OWN_ENCODERS[settings] = build


def build_stack(settings: Any, positions: str) -> nn.Module:
    """The encoder of these settings; `positions` is the position encoding of its input."""
    if type(settings) in OWN_ENCODERS:
        return OWN_ENCODERS[type(settings)](settings)
    return ENCODERS[type(settings)](settings, positions)


def _series(settings: ModelSettings) -> LanguageModel:
    """An autoregressive model of values; Transformer blocks have rotary positions."""
    decoder: Any = settings.decoder
    body = DECODERS_WITHOUT_MEMORY[type(decoder)](decoder, "rotary")
    return LanguageModel(ValueEmbedding(decoder.width), body, RegressionHead(decoder.width))


def _encoder_model(settings: ModelSettings, source_size: int, classes: int) -> EncoderModel:
    """A model of a text or an image with an encoder and a head for this number of classes."""
    source, body = build_encoder(settings, source_size)
    return ENCODER_MODELS[type(settings.target)](source, body, settings, classes)


def build_encoder(settings: ModelSettings, source_size: int) -> tuple[nn.Module, nn.Module]:
    """The embedding of a text or an image, and the encoder."""
    side, encoder = settings.source, settings.encoder
    assert side is not None
    assert encoder is not None
    source: nn.Module
    if isinstance(side, ImageSource):
        source = _image_embedding(settings, side, encoder)
    elif isinstance(side.embedding, NgramEmbeddingSettings):
        options = side.embedding
        source = NgramEmbedding(options.buckets, encoder.width, options.max_n, options.word_dropout, encoder.dropout)
    else:
        source = build_token_embedding(
            side, nn.Embedding(source_size, encoder.width), encoder.dropout, _norm_eps(encoder)
        )
    return source, build_stack(encoder, side.embedding.positions)


def build_generative_model(settings: ModelSettings, source_size: int, target_size: int) -> LanguageModel:
    """A model that generates a text: a language model, or an encoder-decoder."""
    encoder, decoder, text = settings.encoder, settings.decoder, settings.target_text
    assert decoder is not None
    if isinstance(decoder, NgramSettings):  # it has neither embeddings nor a head
        return LanguageModel(IdentityEmbedding(), NgramDecoder(decoder, target_size), nn.Identity())
    target_table = nn.Embedding(target_size, embedding_width_of(decoder))
    target, head = build_token_embedding(text, target_table, decoder.dropout), language_model_head(text, target_table)
    if isinstance(decoder, RecurrentDecoderSettings) and decoder.awd:
        target.set_awd_dropout(decoder.awd.embedding_dropout, decoder.awd.input_dropout)
    if encoder is None or settings.source is None:
        return LanguageModel(target, DECODERS_WITHOUT_MEMORY[type(decoder)](decoder, text.embedding.positions), head)
    source: nn.Module
    if isinstance(settings.source, ImageSource):
        source = _image_embedding(settings, settings.source, encoder)
    else:
        shared = text.vocabulary == "shared"
        source_table = target_table if shared else nn.Embedding(source_size, encoder.width)
        source = build_token_embedding(settings.source_text, source_table, encoder.dropout)
    return Seq2Seq(
        source=source,
        encoder=build_stack(encoder, settings.source.embedding.positions),
        target=target,
        decoder=DECODERS[type(decoder)](decoder, encoder.width, text.embedding.positions),
        head=head,
    )


def fresh_model(settings: ModelSettings, sizes: tuple[int, int], init: str, seed: int) -> LanguageModel | EncoderModel:
    """A model with initial weights, which depend on the seed alone."""
    seed_torch(seed, "weights")
    model = build_model(settings, *sizes)
    initialize(model, init)
    return model


def _head_transform(encoder: Any) -> PredictionHeadTransform:
    """BERT's prediction head transform, with the activation and the epsilon of the blocks, if they have any."""
    activation = encoder.activation if isinstance(encoder, TransformerSettings) else ""
    return PredictionHeadTransform(
        encoder.width, activation if activation in ACTIVATIONS else "gelu-tanh", _norm_eps(encoder)
    )


def _norm_eps(encoder: Any) -> float:
    return encoder.norm_eps if isinstance(encoder, TransformerSettings) else EPSILON


def build_token_embedding(text: Text, table: nn.Embedding, dropout: float, eps: float = EPSILON) -> TokenEmbedding:
    """The embedding of a text, with a table of one vector for each token."""
    embedding, width = text.embedding, table.embedding_dim
    if isinstance(embedding, BertEmbeddingSettings):
        return BertEmbedding(table, LearnedPositions(width, embedding.max_positions), dropout, eps)
    assert isinstance(embedding, TokenEmbeddingSettings)
    learned = embedding.positions == "learned"
    positions = LearnedPositions(width, embedding.max_positions) if learned else POSITIONS[embedding.positions](width)
    return TOKEN_EMBEDDINGS[embedding.scale](table, positions, dropout)


def _image_embedding(settings: ModelSettings, image: ImageSource, encoder: Any) -> ImageEmbedding | VideoEmbedding:
    """The embedding of an image or a video as a sequence, with the prefix tokens that the pooling needs."""
    options, width = image.embedding, encoder.input_width if isinstance(encoder, ResNetSettings) else encoder.width
    grid = (image.image_size // options.size, image.image_size // options.size)
    positions = (
        LearnedPositions2d(width, grid) if options.positions == "learned" else POSITIONS_2D[options.positions](width)
    )
    patches = PATCH_EMBEDDINGS[options.kind](options, image.channels, width)
    count = settings.prefix_tokens
    prefix_tokens = PrefixTokens(width, count) if count else nn.Identity()
    embedding = ImageEmbedding(patches, positions, prefix_tokens, encoder.dropout)
    return VideoEmbedding(embedding, grid[0] * grid[1], width) if isinstance(image, VideoSource) else embedding


def _pooling(settings: ModelSettings) -> Pooling:
    """The pooling over the patches of an image."""
    assert isinstance(settings.target, ImageLabel)
    body: Any = settings.encoder
    poolings: dict[str, Callable[[], Pooling]] = {
        "cls": ClsPooling,
        "distilled": ClsDistillationPooling,
        "mean": MeanPooling,
        "pre-logits": lambda: TanhClsPooling(body.width),
        "map": lambda: AttentionPooling(
            body.width, body.heads, FEED_FORWARDS[body.activation](body.width, body.feed_forward_width), body.norm_eps
        ),
    }
    return poolings[settings.target.pooling]()


def _tagger(settings: ModelSettings) -> type[Tagger]:
    """The tagger class: for an encoder over whole words, or for one over subwords."""
    assert isinstance(settings.target, Tags)
    return (
        WordTagger
        if isinstance(settings.source_text.embedding, NgramEmbeddingSettings)
        else TAGGERS[settings.target.word_pooling]
    )


def language_model_head(target: TextTarget, table: nn.Embedding) -> nn.Module:
    """The head of a target text; a tied one shares the embedding table."""
    head = HEADS[target.head](table)
    return SuppressTokensHead(head, table.num_embeddings, target.suppress_tokens) if target.suppress_tokens else head


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The weights and buffers of a model by name; a shared tensor only under its first name."""
    return _named_tensors(module, set())


def trained_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The weights and buffers by name that training changes: all but frozen weights."""
    return _named_tensors(module, {id(weight) for weight in module.parameters() if not weight.requires_grad})


def _named_tensors(module: nn.Module, left_out: set[int]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    ids = set(left_out)
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in ids:
            ids.add(id(tensor))
            tensors[name] = tensor.detach()
    return tensors


def load_named_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy stored values into a model that must have exactly these names, shapes and dtypes."""
    for name, part in module.named_modules():
        if isinstance(part, NgramTable):  # its sizes depend on the training text
            prefix = f"{name}."
            part.resize({key[len(prefix) :]: tensor for key, tensor in tensors.items() if key.startswith(prefix)})
    copy_tensors(named_tensors(module), tensors, "weight")


@torch.no_grad()
def copy_tensors(targets: Mapping[str, Tensor], tensors: Mapping[str, Tensor], kind: str) -> None:
    """Copy stored tensors into the tensors of the same names, if all of them have the same shapes and dtypes."""
    check_names(targets, tensors, kind)
    for name, target in targets.items():
        stored = tensors[name]
        if stored.shape != target.shape or stored.dtype != target.dtype:
            raise UserError(
                f"The stored {kind} '{name}' is {_shape_and_dtype(stored)}, "
                f"and the model's is {_shape_and_dtype(target)}.",
                hint="The weights belong to a model with other settings.",
            )
    for name, target in targets.items():  # after all checks, so that no model is loaded in part
        target.copy_(tensors[name])


def check_names(expected: Collection[str], stored: Collection[str], kind: str) -> None:
    """Raise an error if the stored names are not the expected ones."""
    missing = [name for name in expected if name not in stored]
    if missing:
        raise UserError(f"The {kind} '{missing[0]}' is missing from the stored tensors.", hint=_more(missing))
    unexpected = [name for name in stored if name not in expected]
    if unexpected:
        raise UserError(f"The stored {kind} '{unexpected[0]}' is unexpected.", hint=_more(unexpected))


def _more(names: list[str]) -> str:
    return f"The same holds for {len(names) - 1} more." if len(names) > 1 else ""


def _shape_and_dtype(tensor: Tensor) -> str:
    shape = " x ".join(map(str, tensor.shape)) or "a single number"
    return f"{shape} of {str(tensor.dtype).removeprefix('torch.')}"
