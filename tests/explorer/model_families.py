"""One tiny model with random weights of every family there is: what the explorer must be able to look into."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from text_models import GENERATIVE, SHAPES, SOURCE, STACK, WITH_POSITIONS, WITHOUT_POSITIONS, text_model
from tiny_workspace import image_captioner, image_classifier, opened_run, random_model, series_model, video_captioner

from seq2see.decoding.ensemble import Ensemble
from seq2see.explorer.workspace import Workspace
from seq2see.models.convolutional import GatedCNNSettings, TextCNNSettings
from seq2see.models.image_settings import ImageSource
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.resnet_encoder import PixelEmbeddingSettings
from seq2see.models.resnet_encoder import ResNetSettings
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
from seq2see.runs.model import Model, open_model
from seq2see.runs.model_folder import ModelConfig, StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.sequences.image_dataset import ImageProcessor
from seq2see.sequences.series_dataset import StandardScaler

CELLS = RecurrentEncoderSettings(width=16, cell="lstm", bidirectional=True, dropout=0.0)
WINDOW = MLPDecoderSettings(width=8, context=4, hidden=8, dropout=0.0)
NUMBERS = "0.1 0.3 0.2 0.5 0.4 0.6"
LABELS = ("a", "红")


def _reader(target: object, encoder: object, embedding: object = WITH_POSITIONS) -> Callable[[], Model]:
    """A model that only reads texts."""
    settings = ModelSettings(source=Text(embedding=embedding), encoder=encoder, target=target)  # type: ignore[arg-type]
    letters = text_model("bert" if isinstance(target, MaskedTokensNSPTarget) else "gpt").tokenizers.source
    labels = LABELS if isinstance(target, Label | Tags) else ()
    return lambda: random_model(settings.target.kind, settings, Tokenizers(letters, letters, labels))


def _of_numbers(decoder: object) -> Callable[[], Model]:
    scale = StandardScaler(0.2, 0.5)
    settings = ModelSettings(target=Series(context_length=6), decoder=decoder)  # type: ignore[arg-type]
    return lambda: random_model("numbers", settings, Tokenizers(scale, scale))


def _convolutional() -> Model:
    shape = SHAPES["transformer"].with_(encoder=GatedCNNSettings(width=16, depth=2, dropout=0.0))
    return random_model("convolutional", shape, text_model("transformer").tokenizers)


def _windowed() -> Model:
    settings = ModelSettings(target=TextTarget(embedding=WITHOUT_POSITIONS), decoder=WINDOW)
    return random_model("window", settings, text_model("gpt").tokenizers)


def _headless() -> Model:
    settings = ModelSettings(
        source=image_classifier().config.model.source, target=EmbeddingTarget(pooling="cls"), encoder=STACK
    )
    return random_model("headless", settings, image_classifier().tokenizers)


def _resnet() -> Model:
    seen = ImageSource(image_size=8, embedding=PixelEmbeddingSettings())
    body = ResNetSettings(width=16, depth=1, stages=2, norm="group")
    settings = ModelSettings(source=seen, target=ImageLabel(pooling="mean"), encoder=body)
    eyes = ImageProcessor(8, 3)
    return random_model("resnet", settings, Tokenizers(eyes, eyes, LABELS))


def _together(name: str) -> Callable[[], Model]:
    """An ensemble of one model and itself."""

    def found() -> Model:
        model = text_model(name) if name in SHAPES else {"caption": image_captioner, "video": video_captioner}[name]()
        config = ModelConfig(**{**dict(model.config), "members": (model.config.model,)})
        return open_model(StoredModel(config, Ensemble([model.module, model.module]), model.tokenizers))  # type: ignore[list-item]

    return found


FAMILIES: dict[str, Callable[[], Model]] = {
    **{name: (lambda name=name: text_model(name)) for name in (*GENERATIVE, "bert")},
    "convolutional": _convolutional,
    "window": _windowed,
    "pairs": _reader(MaskedTokensNSPTarget(), STACK, BertEmbeddingSettings()),
    "classifier": _reader(Label(), STACK),
    "classifier, recurrent": _reader(Label(), CELLS, WITHOUT_POSITIONS),
    "classifier, windows": _reader(Label(), TextCNNSettings(width=16, dropout=0.0), WITHOUT_POSITIONS),
    "tagger": _reader(Tags(), CELLS, WITHOUT_POSITIONS),
    "tagger, n-grams": _reader(Tags(), CELLS, NgramEmbeddingSettings(buckets=64)),
    "tagger, transformer": _reader(Tags(), STACK),
    "embedder": _reader(EmbeddingTarget(), STACK),
    "vit": image_classifier,
    "vit, headless": _headless,
    "resnet": _resnet,
    "caption": image_captioner,
    "video": video_captioner,
    "series": series_model,
    "series, window": _of_numbers(WINDOW),
    "series, transformer": _of_numbers(STACK),
    "ensemble": _together("transformer"),
    "ensemble, caption": _together("caption"),
}


@cache
def workspace(name: str) -> Workspace:
    """One of them, opened under the id r1."""
    return Workspace({"r1": opened_run("r1", name, FAMILIES[name]())})


def input_text(name: str) -> str:
    """Something that it can read."""
    if name.startswith("series"):
        return NUMBERS
    return "我有[MASK]本书" if name in ("bert", "pairs") else SOURCE
