"""One tiny model with random weights of every family there is: what the explorer must be able to look into."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from benches import forecaster, looker, made, opened_run, teller, watcher
from writers import PLACED, SHAPES, SOURCE, STACK, UNPLACED, WRITE, writer

from seq2see.decoding.ensemble import Ensemble
from seq2see.explorer.bench import Bench
from seq2see.models.convolutional import ConvolutionalEncoderSettings, WindowEncoderSettings
from seq2see.models.picture_settings import Picture
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.resnet import Pixels as EveryPixel
from seq2see.models.resnet import ResNetSettings
from seq2see.models.settings import (
    BlanksAndPairs,
    Label,
    ModelSettings,
    Ngrams,
    PictureLabel,
    Sentences,
    Series,
    Tags,
    Text,
    TextTarget,
    Vector,
)
from seq2see.models.window import WindowDecoderSettings
from seq2see.sequences.pixels import Pixels
from seq2see.sequences.series import Scale
from seq2see.workbench.model_folder import ModelConfig, StoredModel
from seq2see.workbench.predict import Model, opened
from seq2see.workbench.tokenisers import Tokenisers

CELLS = RecurrentEncoderSettings(width=16, cell="lstm", direction="both", dropout=0.0)
WINDOW = WindowDecoderSettings(width=8, tau=4, hidden=8, dropout=0.0)
NUMBERS = "0.1 0.3 0.2 0.5 0.4 0.6"
LABELS = ("a", "红")


def _reader(target: object, encoder: object, frontend: object = PLACED) -> Callable[[], Model]:
    """A model that only reads texts."""
    settings = ModelSettings(source=Text(frontend=frontend), encoder=encoder, target=target)  # type: ignore[arg-type]
    letters = writer("bert" if isinstance(target, BlanksAndPairs) else "gpt").tokenisers.source
    labels = LABELS if isinstance(target, Label | Tags) else ()
    return lambda: made(settings.target.kind, settings, Tokenisers(letters, letters, labels))


def _of_numbers(decoder: object) -> Callable[[], Model]:
    scale = Scale(0.2, 0.5)
    settings = ModelSettings(target=Series(longest=6), decoder=decoder)  # type: ignore[arg-type]
    return lambda: made("numbers", settings, Tokenisers(scale, scale))


def _convolutional() -> Model:
    shape = SHAPES["transformer"].with_(encoder=ConvolutionalEncoderSettings(width=16, depth=2, dropout=0.0))
    return made("convolutional", shape, writer("transformer").tokenisers)


def _windowed() -> Model:
    settings = ModelSettings(target=TextTarget(frontend=UNPLACED), decoder=WINDOW)
    return made("window", settings, writer("gpt").tokenisers)


def _headless() -> Model:
    settings = ModelSettings(source=looker().config.model.source, target=Vector(summary="first"), encoder=STACK)
    return made("headless", settings, looker().tokenisers)


def _resnet() -> Model:
    seen = Picture(side=8, frontend=EveryPixel())
    body = ResNetSettings(width=16, depth=1, stages=2, norm="group")
    settings = ModelSettings(source=seen, target=PictureLabel(summary="mean"), encoder=body)
    eyes = Pixels(8, 3)
    return made("resnet", settings, Tokenisers(eyes, eyes, LABELS))


def _together(name: str) -> Callable[[], Model]:
    """An ensemble of one model and itself."""

    def found() -> Model:
        model = writer(name) if name in SHAPES else {"caption": teller, "film": watcher}[name]()
        config = ModelConfig(**{**dict(model.config), "members": (model.config.model,)})
        return opened(StoredModel(config, Ensemble([model.module, model.module]), model.tokenisers))  # type: ignore[list-item]

    return found


FAMILIES: dict[str, Callable[[], Model]] = {
    **{name: (lambda name=name: writer(name)) for name in (*WRITE, "bert")},
    "convolutional": _convolutional,
    "window": _windowed,
    "pairs": _reader(BlanksAndPairs(), STACK, Sentences()),
    "classifier": _reader(Label(), STACK),
    "classifier, recurrent": _reader(Label(), CELLS, UNPLACED),
    "classifier, windows": _reader(Label(), WindowEncoderSettings(width=16, dropout=0.0), UNPLACED),
    "tagger": _reader(Tags(), CELLS, UNPLACED),
    "tagger, n-grams": _reader(Tags(), CELLS, Ngrams(rows=64)),
    "tagger, transformer": _reader(Tags(), STACK),
    "embedder": _reader(Vector(), STACK),
    "vit": looker,
    "vit, headless": _headless,
    "resnet": _resnet,
    "caption": teller,
    "film": watcher,
    "series": forecaster,
    "series, window": _of_numbers(WINDOW),
    "series, transformer": _of_numbers(STACK),
    "ensemble": _together("transformer"),
    "ensemble, caption": _together("caption"),
}


@cache
def bench(name: str) -> Bench:
    """One of them, opened under the id r1."""
    return Bench({"r1": opened_run("r1", name, FAMILIES[name]())})


def text_for(name: str) -> str:
    """Something that it can read."""
    if name.startswith("series"):
        return NUMBERS
    return "我有[MASK]本书" if name in ("bert", "pairs") else SOURCE
