"""From settings to a model: which class goes with which settings, in a few tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from seq2see.core.seeds import seed_torch
from seq2see.layers.feed_forward import CURVES, THINKS
from seq2see.layers.initialise import initialise
from seq2see.layers.norms import EPSILON
from seq2see.layers.patches import Patches
from seq2see.layers.pooling import (
    AttentionPooling,
    FirstPooling,
    FirstTwoPooling,
    LearnedTokens,
    MeanPooling,
    Pooling,
    RethoughtPooling,
)
from seq2see.layers.positions import GRIDS, POSITIONS, LearnedGrid, LearnedPositions
from seq2see.layers.resnet import Features, Stem, window
from seq2see.models.bert import BERT, PairBERT, Rethink
from seq2see.models.classifier import CLASSIFIERS
from seq2see.models.convolutional import (
    ConvolutionalEncoder,
    ConvolutionalEncoderSettings,
    WindowEncoder,
    WindowEncoderSettings,
)
from seq2see.models.counting import AsTheyAre, CountingDecoder, CountingSettings
from seq2see.models.embedder import EMBEDDERS
from seq2see.models.film import FilmFrontend
from seq2see.models.frontends import FRONTENDS, SentenceFrontend, TokenFrontend
from seq2see.models.gpt import GPTDecoder
from seq2see.models.heads import HEADS, PartialHead
from seq2see.models.language_model import LanguageModel
from seq2see.models.picture_settings import Film, Picture
from seq2see.models.reader import Reader
from seq2see.models.recurrent import (
    RecurrentDecoder,
    RecurrentDecoderSettings,
    RecurrentEncoder,
    RecurrentEncoderSettings,
)
from seq2see.models.resnet import ResNetEncoder, ResNetSettings
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.series import NumberFrontend, NumberHead
from seq2see.models.settings import (
    Blanks,
    BlanksAndPairs,
    Encoder,
    Label,
    ModelSettings,
    Ngrams,
    PictureLabel,
    Sentences,
    Series,
    Tags,
    Text,
    TextTarget,
    Tokens,
    Vector,
    table_width,
)
from seq2see.models.spelling import NgramFrontend
from seq2see.models.tagger import TAGGERS, Tagger, WholeTagger
from seq2see.models.transformer import TransformerDecoder, TransformerEncoder, TransformerSettings
from seq2see.models.vit import PictureFrontend, ViT
from seq2see.models.window import WindowDecoder, WindowDecoderSettings

# A Transformer must be told where tokens stand, by attention if not by what is added to the vectors.
ENCODERS: dict[type, Callable[[Any, str], nn.Module]] = {
    TransformerSettings: TransformerEncoder,
    RecurrentEncoderSettings: lambda settings, positions: RecurrentEncoder.of(settings),
    ConvolutionalEncoderSettings: lambda settings, positions: ConvolutionalEncoder.of(settings),
    WindowEncoderSettings: lambda settings, positions: WindowEncoder.of(settings),
    ResNetSettings: lambda settings, positions: ResNetEncoder(settings),
}
CUTS: dict[str, Callable[[Any, int, int], nn.Module]] = {  # from pixels to a map of vectors
    "patches": lambda look, channels, width: Patches(channels, look.size, width),
    "stem": lambda look, channels, width: Stem(channels, width, look.depth),
    "features": lambda look, channels, width: Features(channels, width, look.depth, look.stages),
    "pixels": lambda look, channels, width: window(channels, width, 3),
}
DECODERS: dict[type, Callable[[Any, int, str], nn.Module]] = {
    TransformerSettings: TransformerDecoder,
    RecurrentDecoderSettings: lambda settings, memory_width, positions: RecurrentDecoder.of(settings, memory_width),
}
WRITERS: dict[type, Callable[[Any, str], nn.Module]] = {  # decoders that have nothing to look across at
    TransformerSettings: GPTDecoder,
    RecurrentDecoderSettings: lambda settings, positions: RecurrentDecoder.of(settings, memory_width=None),
    WindowDecoderSettings: lambda settings, positions: WindowDecoder(settings),
}
READERS: dict[type, Callable[[Any, nn.Module, Any, int], Reader]] = {
    Blanks: lambda source, body, settings, answers: BERT(source, body, _rethink(settings.encoder)),
    BlanksAndPairs: lambda source, body, settings, answers: PairBERT(source, body, _rethink(settings.encoder)),
    Label: lambda source, body, settings, answers: CLASSIFIERS[settings.target.summary](
        source, body, settings.encoder, answers
    ),
    PictureLabel: lambda source, body, settings, answers: ViT(source, body, settings.encoder, answers, _pool(settings)),
    Tags: lambda source, body, settings, answers: _tagger(settings)(source, body, settings.encoder, answers),
    Vector: lambda source, body, settings, answers: EMBEDDERS[settings.target.summary](source, body),
}


def build_model(settings: ModelSettings, source_size: int, target_size: int) -> LanguageModel | Reader:
    """The model these settings describe, for vocabularies of these sizes; a language model has only the second."""
    if isinstance(settings.target, Series):
        return _series(settings)
    build = build_writer if settings.writes else _reader
    return build(settings, source_size, target_size)


def _series(settings: ModelSettings) -> LanguageModel:
    """A model that writes numbers; blocks tell by rotation how far apart two of them are."""
    decoder: Any = settings.decoder
    body = WRITERS[type(decoder)](decoder, "rotary")
    return LanguageModel(NumberFrontend(decoder.width), body, NumberHead(decoder.width))


def _reader(settings: ModelSettings, source_size: int, answers: int) -> Reader:
    """A model that reads a text, or looks at a picture, and gives one of so many answers."""
    text, encoder = settings.source, settings.encoder
    assert text is not None
    assert encoder is not None
    source: nn.Module
    if isinstance(text, Picture):
        source = _picture_frontend(settings, text, encoder)
    elif isinstance(text.frontend, Ngrams):
        look = text.frontend
        source = NgramFrontend(look.rows, encoder.width, look.letters, look.left_out, encoder.dropout)
    else:
        source = _frontend(text, nn.Embedding(source_size, encoder.width), encoder.dropout, _epsilon(encoder))
    body = ENCODERS[type(encoder)](encoder, text.frontend.positions)
    return READERS[type(settings.target)](source, body, settings, answers)


def build_writer(settings: ModelSettings, source_size: int, target_size: int) -> LanguageModel:
    """A model that writes a text."""
    encoder, decoder, text = settings.encoder, settings.decoder, settings.written
    assert decoder is not None
    if isinstance(decoder, CountingSettings):  # it needs no vectors of tokens, and gives none
        return LanguageModel(AsTheyAre(), CountingDecoder(decoder, target_size), nn.Identity())
    target_table = nn.Embedding(target_size, table_width(decoder))
    target, head = _frontend(text, target_table, decoder.dropout), _head(text, target_table)
    if isinstance(decoder, RecurrentDecoderSettings) and decoder.locked:
        target.lock(decoder.locked.words, decoder.locked.inputs)
    if encoder is None or settings.source is None:
        return LanguageModel(target, WRITERS[type(decoder)](decoder, text.frontend.positions), head)
    source: nn.Module
    if isinstance(settings.source, Picture):
        source = _picture_frontend(settings, settings.source, encoder)
    else:
        shared = text.vocabulary == "shared"
        source_table = target_table if shared else nn.Embedding(source_size, encoder.width)
        source = _frontend(settings.read, source_table, encoder.dropout)
    return Seq2Seq(
        source=source,
        encoder=ENCODERS[type(encoder)](encoder, settings.source.frontend.positions),
        target=target,
        decoder=DECODERS[type(decoder)](decoder, encoder.width, text.frontend.positions),
        head=head,
    )


def fresh_model(settings: ModelSettings, sizes: tuple[int, int], start: str, seed: int) -> LanguageModel | Reader:
    """A model with its first weights drawn; they depend on the seed alone."""
    seed_torch(seed, "weights")
    model = build_model(settings, *sizes)
    initialise(model, start)
    return model


def _rethink(encoder: Encoder) -> Rethink:
    """BERT's part before the head, with the curve and the epsilon of the blocks, where these have any."""
    curve = encoder.think if isinstance(encoder, TransformerSettings) else ""
    return Rethink(encoder.width, curve if curve in CURVES else "gelu-tanh", _epsilon(encoder))


def _epsilon(encoder: Encoder) -> float:
    return encoder.epsilon if isinstance(encoder, TransformerSettings) else EPSILON


def _frontend(text: Text, table: nn.Embedding, dropout: float, epsilon: float = EPSILON) -> TokenFrontend:
    frontend, width = text.frontend, table.embedding_dim
    if isinstance(frontend, Sentences):
        return SentenceFrontend(table, LearnedPositions(width, frontend.longest), dropout, epsilon)
    assert isinstance(frontend, Tokens)
    learned = frontend.positions == "learned"
    positions = LearnedPositions(width, frontend.longest) if learned else POSITIONS[frontend.positions](width)
    return FRONTENDS[frontend.vectors](table, positions, dropout)


def _picture_frontend(settings: ModelSettings, picture: Picture, encoder: Encoder) -> PictureFrontend | FilmFrontend:
    """What makes a sequence of a picture; whoever reads a class token needs one in front."""
    look, width = picture.frontend, encoder.enters if isinstance(encoder, ResNetSettings) else encoder.width
    grid = (picture.side // look.size, picture.side // look.size)
    positions = LearnedGrid(width, grid) if look.positions == "learned" else GRIDS[look.positions](width)
    patches = CUTS[look.kind](look, picture.channels, width)
    count = settings.in_front
    tokens = LearnedTokens(width, count) if count else nn.Identity()
    frontend = PictureFrontend(patches, positions, tokens, encoder.dropout)
    return FilmFrontend(frontend, grid[0] * grid[1], width) if isinstance(picture, Film) else frontend


def _pool(settings: ModelSettings) -> Pooling:
    """What sums up the patches of a picture."""
    assert isinstance(settings.target, PictureLabel)
    body: Any = settings.encoder
    pools: dict[str, Callable[[], Pooling]] = {
        "class-token": FirstPooling,
        "distilled": FirstTwoPooling,
        "mean": MeanPooling,
        "pre-logits": lambda: RethoughtPooling(body.width),
        "attention": lambda: AttentionPooling(
            body.width, body.heads, THINKS[body.think](body.width, body.hidden), body.epsilon
        ),
    }
    return pools[settings.target.summary]()


def _tagger(settings: ModelSettings) -> type[Tagger]:
    """What a word is told from: from what was read of it as a whole, or from its pieces."""
    assert isinstance(settings.target, Tags)
    return WholeTagger if isinstance(settings.read.frontend, Ngrams) else TAGGERS[settings.target.word]


def _head(target: TextTarget, table: nn.Embedding) -> nn.Module:
    head = HEADS[target.head](table)
    return PartialHead(head, table.num_embeddings, target.missing) if target.missing else head
