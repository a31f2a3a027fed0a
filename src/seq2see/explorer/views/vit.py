"""Inside a model that looks at images: where its patches look, what reached the answer, and what it says."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS, ArrayResponse, InputText, RunRequest
from seq2see.explorer.views.image_input import ImageRequest, PreparedImage, image_info, image_settings_of, prepare_image
from seq2see.explorer.views.positions import without_position_encoding
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.position_encodings import find_position_encoding, position_similarity
from seq2see.inspection.rollout import rollout
from seq2see.inspection.trace import trace
from seq2see.models.settings import EmbeddingTarget
from seq2see.runs.captioner import Captioner

AttentionMaps = list[NDArray[np.float32]]
TOP_K = 10
"""Answers that are told."""


class ImagePredictRequest(ImageRequest):
    """What does the model make of an image?"""

    positions: Literal["on", "off"] = "on"
    """Whether it is told where patches stand, as it has learned to be, or not."""


class ImageAttentionRequest(ImagePredictRequest):
    """Where do patches look, in one layer?"""

    layer: Annotated[int, Field(ge=-1, le=100_000)] = -1
    """-1: the last."""
    head: Annotated[int, Field(ge=-1, le=100_000)] = -1
    """-1: the mean of all heads."""


class RolloutRequest(ImagePredictRequest):
    """What of the patches has reached the end, through all layers?"""

    fusion: Literal["mean", "min", "max"] = "mean"
    """How the heads of a layer become one."""
    discard: Annotated[float, Field(ge=0, le=0.99)] = 0.0
    """The share of each layer's weights that is left out, the smallest."""


class RegionsRequest(ImageAttentionRequest):
    """Where did the model look when it wrote each piece of a caption?"""

    target: InputText
    """The caption."""


def model_info(workspace: Workspace, request: ImageRequest) -> dict[str, Any]:
    """What there is to look at: the grid of patches, layers and heads, and how many test images there are."""
    run = workspace.run(request.run)
    layers = _attention_maps(workspace, request)
    image = image_settings_of(run)
    return {
        **image_info(workspace, request),
        "image_size": image.image_size,
        "channels": image.channels,
        "prefix_tokens": ["class", "distillation"][: run.settings.prefix_tokens] if layers else [],
        "layers": len(layers),
        "heads": len(layers[0]) if layers else 0,
        "generates": run.settings.generates,
        "positions": find_position_encoding(run.model.module.source, run.model.module.encoder).kind,  # type: ignore[arg-type]
    }


def predict_image(workspace: Workspace, request: ImagePredictRequest) -> dict[str, Any]:
    """The likeliest labels, or a caption and its pieces."""
    run, found, model = workspace.run(request.run), prepare_image(workspace, request), _model(workspace, request)
    if isinstance(model, Captioner):
        prediction = model.predict([found.model_input])[0]
        tokens = [{"text": each.text, "probability": each.probability} for each in prediction.outputs[0].tokens]
        return {"text": prediction.text, "tokens": tokens, "candidates": []}
    if isinstance(run.settings.target, EmbeddingTarget):  # real weights without a head say nothing
        return {"text": "", "tokens": [], "candidates": []}
    prediction = model.predict([found.model_input], top_k=TOP_K)[0]
    candidates = [{"text": each.text, "probability": each.probability} for each in prediction.candidates[0]]
    return {"text": prediction.text, "tokens": [], "candidates": candidates}


def attention_map(workspace: Workspace, request: ImageAttentionRequest) -> ArrayResponse:
    """(place, place): how much each place takes from each, those in front of the patches first."""
    return ArrayResponse(_select_head(_attention_maps(workspace, request), request))


def attention_rollout(workspace: Workspace, request: RolloutRequest) -> ArrayResponse:
    """(place, place): how much of each place has reached each, after all layers."""
    layers = _attention_maps(workspace, request)
    if not layers:
        raise UserError("This model has no attention.", location=workspace.run(request.run).name)
    return ArrayResponse(rollout(layers, request.fusion, request.discard))


def patch_similarity(workspace: Workspace, request: RunRequest) -> ArrayResponse:
    """(patch, patch): how alike two places look to the model by their position vectors alone."""
    run = workspace.run(request.run)
    image = image_settings_of(run)
    encoding = find_position_encoding(run.model.module.source, run.model.module.encoder)  # type: ignore[arg-type]
    if encoding.kind == "none":
        raise UserError("This model is not told where patches stand.", location=run.name)
    return ArrayResponse(position_similarity(encoding, image.image_size // image.embedding.size))


def regions(workspace: Workspace, request: RegionsRequest) -> ArrayResponse:
    """(piece, place): how much the model took from each place when it wrote each piece."""
    model = _model(workspace, request)
    if not isinstance(model, Captioner):
        raise UserError("This model writes no captions.", location=workspace.run(request.run).name)
    found = prepare_image(workspace, request)
    record = model.trace(found.model_input, request.target)
    return ArrayResponse(
        _select_head([each.values for each in record.of("attention") if each.is_cross_attention], request)
    )


def _select_head(layers: AttentionMaps, request: ImageAttentionRequest) -> NDArray[np.float32]:
    """The weights of one head of one layer, or the mean of its heads."""
    if not layers or request.layer >= len(layers) or request.head >= len(layers[0]):
        heads = len(layers[0]) if layers else 0
        raise UserError(f"This model has {len(layers)} layers of attention with {heads} heads each.", location="layer")
    weights = layers[request.layer]
    return weights.mean(axis=0) if request.head < 0 else weights[request.head]


def _model(workspace: Workspace, request: ImageRequest) -> Any:
    """The model that is asked: as it is, or told nothing of where patches stand."""
    run = workspace.run(request.run)
    return (
        without_position_encoding(workspace, run)
        if isinstance(request, ImagePredictRequest) and request.positions == "off"
        else run.model
    )


def _attention_maps(workspace: Workspace, request: ImageRequest) -> AttentionMaps:
    """Of each layer (head, place, place): where the encoder looked while it read this image."""
    fields = request.model_dump(include=set(ImagePredictRequest.model_fields))
    image_info = ("looks", ImagePredictRequest(**fields).model_dump_json())
    return workspace.cached(
        image_info, lambda: attention_maps_of(_model(workspace, request), prepare_image(workspace, request))
    )


@torch.inference_mode()
def attention_maps_of(model: Any, image: PreparedImage) -> AttentionMaps:
    """The same, of an image; a model without attention has none."""
    module, read = model.module, model.named_batch(image.model_input, "").batch
    with trace(module) as seen:
        places = module.encode(read.source).values.size(1)
    if places > MAX_SHOWN_TOKENS:
        raise UserError(
            f"An image of {places:,} patches is more than can be shown: {MAX_SHOWN_TOKENS:,}.", location="image"
        )
    return [each.values[0].float().cpu().numpy() for each in seen.of("attention")]
