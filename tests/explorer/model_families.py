"""One tiny model with random weights of every family: the explorer must support all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from sound_models import OUTPUTS, sound_model
from text_models import GENERATIVE, SHAPES, SOURCE, STACK, WITH_POSITIONS, WITHOUT_POSITIONS, text_model
from tiny_workspace import image_captioner, image_classifier, opened_run, random_model, series_model, video_captioner

from seq2see.data.image_dataset import ImageProcessor
from seq2see.data.series_dataset import StandardScaler
from seq2see.decoding.ensemble import Ensemble
from seq2see.explorer.workspace import Workspace
from seq2see.models.convolutional import GatedCNNSettings, TextCNNSettings
from seq2see.models.image_settings import ImageSource
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.resnet_encoder import PixelEmbeddingSettings, ResNetSettings
from seq2see.models.settings import (
    BertEmbeddingSettings,
    EmbeddingTarget,
    ImageLabel,
    Label,
    MaskedTokensNSPTarget,
    ModelSettings,
    NgramEmbeddingSettings,
    Series,
    Tags,
    Text,
    TextTarget,
)
from seq2see.runs.load import open_model
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers

CELLS = RecurrentEncoderSettings(width=16, cell="lstm", bidirectional=True, dropout=0.0)
MLP = MLPDecoderSettings(width=8, context=4, hidden=8, dropout=0.0)
NUMBERS = "0.1 0.3 0.2 0.5 0.4 0.6"
LABELS = ("a", "红")


def _encoder_model(target: object, encoder: object, embedding: object = WITH_POSITIONS) -> Callable[[], Model]:
    """An encoder-only model of texts."""
    settings = ModelSettings(source=Text(embedding=embedding), encoder=encoder, target=target)  # type: ignore[arg-type]
    tokenizer = text_model("bert" if isinstance(target, MaskedTokensNSPTarget) else "gpt").tokenizers.source
    labels = LABELS if isinstance(target, Label | Tags) else ()
    return lambda: random_model(settings.target.kind, settings, Tokenizers(tokenizer, tokenizer, labels))


def _forecaster(decoder: object) -> Callable[[], Model]:
    scale = StandardScaler(0.2, 0.5)
    settings = ModelSettings(target=Series(context_length=6), decoder=decoder)  # type: ignore[arg-type]
    return lambda: random_model("forecaster", settings, Tokenizers(scale, scale))


def _gated_cnn() -> Model:
    settings = SHAPES["transformer"].with_(encoder=GatedCNNSettings(width=16, depth=2, dropout=0.0))
    return random_model("gated cnn", settings, text_model("transformer").tokenizers)


def _mlp() -> Model:
    settings = ModelSettings(target=TextTarget(embedding=WITHOUT_POSITIONS), decoder=MLP)
    return random_model("mlp", settings, text_model("gpt").tokenizers)


def _headless() -> Model:
    settings = ModelSettings(
        source=image_classifier().config.model.source, target=EmbeddingTarget(pooling="cls"), encoder=STACK
    )
    return random_model("headless", settings, image_classifier().tokenizers)


def _resnet() -> Model:
    source = ImageSource(image_size=8, embedding=PixelEmbeddingSettings())
    encoder = ResNetSettings(width=16, depth=1, stages=2, norm="group")
    settings = ModelSettings(source=source, target=ImageLabel(pooling="mean"), encoder=encoder)
    processor = ImageProcessor(8, 3)
    return random_model("resnet", settings, Tokenizers(processor, processor, LABELS))


def _ensemble(name: str) -> Callable[[], Model]:
    """An ensemble of one model and itself."""

    def load() -> Model:
        model = text_model(name) if name in SHAPES else {"caption": image_captioner, "video": video_captioner}[name]()
        config = ModelConfig(**{**dict(model.config), "members": (model.config.model,)})
        return open_model(StoredModel(config, Ensemble([model.module, model.module]), model.tokenizers))  # type: ignore[list-item]

    return load


FAMILIES: dict[str, Callable[[], Model]] = {
    **{name: (lambda name=name: text_model(name)) for name in (*GENERATIVE, "bert")},
    "gated cnn": _gated_cnn,
    "mlp": _mlp,
    "next sentence": _encoder_model(MaskedTokensNSPTarget(), STACK, BertEmbeddingSettings()),
    "classifier": _encoder_model(Label(), STACK),
    "classifier, recurrent": _encoder_model(Label(), CELLS, WITHOUT_POSITIONS),
    "classifier, text-cnn": _encoder_model(Label(), TextCNNSettings(width=16, dropout=0.0), WITHOUT_POSITIONS),
    "tagger": _encoder_model(Tags(), CELLS, WITHOUT_POSITIONS),
    "tagger, n-grams": _encoder_model(Tags(), CELLS, NgramEmbeddingSettings(buckets=64)),
    "tagger, transformer": _encoder_model(Tags(), STACK),
    "embedding": _encoder_model(EmbeddingTarget(), STACK),
    "vit": image_classifier,
    "vit, headless": _headless,
    "resnet": _resnet,
    "caption": image_captioner,
    "video": video_captioner,
    "series": series_model,
    "series, mlp": _forecaster(MLP),
    "series, transformer": _forecaster(STACK),
    **{f"speech, {name}": (lambda name=name: sound_model(name)) for name in OUTPUTS},
    "ensemble": _ensemble("transformer"),
    "ensemble, caption": _ensemble("caption"),
}


@cache
def workspace(name: str) -> Workspace:
    """A workspace with the model of one family as run r1."""
    return Workspace({"r1": opened_run("r1", name, FAMILIES[name]())})


def input_text(name: str) -> str:
    """A valid input for a family."""
    if name.startswith("series"):
        return NUMBERS
    return "我有[MASK]本书" if name in ("bert", "next sentence") else SOURCE
