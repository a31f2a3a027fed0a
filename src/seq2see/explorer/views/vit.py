"""Inside a model that looks at pictures: where its patches look, what reached the answer, and what it says."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench
from seq2see.explorer.messages import MOST_TOKENS, AboutRun, Numbers, Words
from seq2see.explorer.views.pictures import PictureAsked, Shown, about, settings_of, shown
from seq2see.explorer.views.positions import unplaced
from seq2see.inspection.positions import alike, told_to
from seq2see.inspection.rollout import rollout
from seq2see.inspection.trace import trace
from seq2see.models.settings import Vector
from seq2see.workbench.caption import Captioner

Maps = list[NDArray[np.float32]]
LIKELY = 10
"""Answers that are told."""


class SayAsked(PictureAsked):
    """What does the model make of a picture?"""

    positions: Literal["told", "off"] = "told"
    """Whether it is told where patches stand, as it has learnt to be, or not."""


class LookAsked(SayAsked):
    """Where do patches look, in one layer?"""

    layer: Annotated[int, Field(ge=-1, le=100_000)] = -1
    """-1: the last."""
    head: Annotated[int, Field(ge=-1, le=100_000)] = -1
    """-1: the mean of all heads."""


class RolloutAsked(SayAsked):
    """What of the patches has reached the end, through all layers?"""

    fusion: Literal["mean", "min", "max"] = "mean"
    """How the heads of a layer become one."""
    discard: Annotated[float, Field(ge=0, le=0.99)] = 0.0
    """The share of each layer's weights that is left out, the smallest."""


class RegionAsked(LookAsked):
    """Where did the model look when it wrote each piece of a caption?"""

    target: Words
    """The caption."""


def see(bench: Bench, asked: PictureAsked) -> dict[str, Any]:
    """What there is to look at: the grid of patches, layers and heads, and how many test pictures there are."""
    run = bench.run(asked.run)
    layers = _looks(bench, asked)
    picture = settings_of(run)
    return {
        **about(bench, asked),
        "side": picture.side,
        "channels": picture.channels,
        "front": ["class", "taught"][: run.settings.in_front] if layers else [],
        "layers": len(layers),
        "heads": len(layers[0]) if layers else 0,
        "writes": run.settings.writes,
        "positions": told_to(run.model.module.source, run.model.module.encoder).kind,  # type: ignore[arg-type]
    }


def say(bench: Bench, asked: SayAsked) -> dict[str, Any]:
    """The likeliest labels, or a caption and its pieces."""
    run, found, model = bench.run(asked.run), shown(bench, asked), _model(bench, asked)
    if isinstance(model, Captioner):
        said = model.predict([found.given])[0]
        pieces = [{"text": each.text, "probability": each.probability} for each in said.answers[0].tokens]
        return {"text": said.text, "pieces": pieces, "answers": []}
    if isinstance(run.settings.target, Vector):  # real weights without a head say nothing
        return {"text": "", "pieces": [], "answers": []}
    said = model.predict([found.given], top_k=LIKELY)[0]
    likely = [{"text": each.text, "probability": each.probability} for each in said.guesses[0]]
    return {"text": said.text, "pieces": [], "answers": likely}


def look(bench: Bench, asked: LookAsked) -> Numbers:
    """(place, place): how much each place takes from each, those in front of the patches first."""
    return Numbers(_of_head(_looks(bench, asked), asked))


def reached(bench: Bench, asked: RolloutAsked) -> Numbers:
    """(place, place): how much of each place has reached each, after all layers."""
    layers = _looks(bench, asked)
    if not layers:
        raise UserError("This model has no attention.", where=bench.run(asked.run).name)
    return Numbers(rollout(layers, asked.fusion, asked.discard))


def similar(bench: Bench, asked: AboutRun) -> Numbers:
    """(patch, patch): how alike two places look to the model by their position vectors alone."""
    run = bench.run(asked.run)
    picture = settings_of(run)
    told = told_to(run.model.module.source, run.model.module.encoder)  # type: ignore[arg-type]
    if told.kind == "none":
        raise UserError("This model is not told where patches stand.", where=run.name)
    return Numbers(alike(told, picture.side // picture.frontend.size))


def regions(bench: Bench, asked: RegionAsked) -> Numbers:
    """(piece, place): how much the model took from each place when it wrote each piece."""
    model = _model(bench, asked)
    if not isinstance(model, Captioner):
        raise UserError("This model writes no captions.", where=bench.run(asked.run).name)
    found = shown(bench, asked)
    record = model.trace(found.given, asked.target)
    return Numbers(_of_head([each.values for each in record.of("attention") if each.across], asked))


def _of_head(layers: Maps, asked: LookAsked) -> NDArray[np.float32]:
    """The weights of one head of one layer, or the mean of its heads."""
    if not layers or asked.layer >= len(layers) or asked.head >= len(layers[0]):
        heads = len(layers[0]) if layers else 0
        raise UserError(f"This model has {len(layers)} layers of attention with {heads} heads each.", where="layer")
    weights = layers[asked.layer]
    return weights.mean(axis=0) if asked.head < 0 else weights[asked.head]


def _model(bench: Bench, asked: PictureAsked) -> Any:
    """The model that is asked: as it is, or told nothing of where patches stand."""
    run = bench.run(asked.run)
    return unplaced(bench, run) if isinstance(asked, SayAsked) and asked.positions == "off" else run.model


def _looks(bench: Bench, asked: PictureAsked) -> Maps:
    """Of each layer (head, place, place): where the encoder looked while it read this picture."""
    fields = asked.model_dump(include=set(SayAsked.model_fields))
    about = ("looks", SayAsked(**fields).model_dump_json())
    return bench.kept(about, lambda: looks_at(_model(bench, asked), shown(bench, asked)))


@torch.inference_mode()
def looks_at(model: Any, picture: Shown) -> Maps:
    """The same, of a picture; a model without attention has none."""
    module, read = model.module, model.reading(picture.given, "").batch
    with trace(module) as seen:
        places = module.encode(read.source).values.size(1)
    if places > MOST_TOKENS:
        raise UserError(f"A picture of {places:,} patches is more than can be shown: {MOST_TOKENS:,}.", where="picture")
    return [each.values[0].float().cpu().numpy() for each in seen.of("attention")]
