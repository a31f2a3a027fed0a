"""The view "Vision Transformer": the attention of patches, attention rollout, and predictions for images."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import ImageRequest, PreparedImage, image_info, image_settings_of, prepare_image
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS, ArrayResponse, InputText, RunRequest
from seq2see.explorer.views.positions import without_position_encoding
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.attention_measures import rollout
from seq2see.inspection.position_encodings import find_position_encoding, position_similarity
from seq2see.inspection.trace import trace

AttentionMaps = list[NDArray[np.float32]]
TOP_K = 10
"""The number of candidates."""


class ImagePredictRequest(ImageRequest):
    """A request for the prediction of a model for an image."""

    positions: Literal["on", "off"] = "on"
    """Whether the model uses its position encodings."""


class ImageAttentionRequest(ImagePredictRequest):
    """A request for the attention weights of one layer."""

    layer: Annotated[int, Field(ge=-1, le=100_000)] = -1
    """-1: the last layer."""
    head: Annotated[int, Field(ge=-1, le=100_000)] = -1
    """-1: the mean of all heads."""


class RolloutRequest(ImagePredictRequest):
    """A request for attention rollout through all layers."""

    fusion: Literal["mean", "min", "max"] = "mean"
    """The function that fuses the heads of a layer."""
    discard: Annotated[float, Field(ge=0, le=0.99)] = 0.0
    """The share of each layer's weights that is set to zero, the smallest first."""


class RegionsRequest(ImageAttentionRequest):
    """A request for the cross-attention of each token of a caption."""

    target: InputText
    """The caption."""


def model_info(workspace: Workspace, request: ImageRequest) -> dict[str, Any]:
    """The grid of patches, the number of layers and heads, and the number of test images."""
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
        "generates": run.task.generates,
        "positions": find_position_encoding(run.model.module.source, run.model.module.encoder).kind,  # type: ignore[arg-type]
    }


def predict_image(workspace: Workspace, request: ImagePredictRequest) -> dict[str, Any]:
    """The most probable labels, or a caption and its tokens."""
    run, image, model = workspace.run(request.run), prepare_image(workspace, request), _model(workspace, request)
    if run.task.generates:
        prediction = model.predict([image.model_input])[0]
        tokens = [{"text": each.text, "probability": each.probability} for each in prediction.outputs[0].tokens]
        return {"text": prediction.text, "tokens": tokens, "candidates": []}
    if not run.task.predicts:  # pretrained weights without a head
        return {"text": "", "tokens": [], "candidates": []}
    prediction = model.predict([image.model_input], top_k=TOP_K)[0]
    candidates = [{"text": each.text, "probability": each.probability} for each in prediction.candidates[0]]
    return {"text": prediction.text, "tokens": [], "candidates": candidates}


def attention_map(workspace: Workspace, request: ImageAttentionRequest) -> ArrayResponse:
    """(query, key): the attention weights of prefix tokens and patches; prefix tokens come first."""
    return ArrayResponse(_select_head(_attention_maps(workspace, request), request))


def attention_rollout(workspace: Workspace, request: RolloutRequest) -> ArrayResponse:
    """(output position, input position): attention rollout after all layers."""
    layers = _attention_maps(workspace, request)
    if not layers:
        raise UserError("This model has no attention.", location=workspace.run(request.run).name)
    return ArrayResponse(rollout(layers, request.fusion, request.discard))


def patch_similarity(workspace: Workspace, request: RunRequest) -> ArrayResponse:
    """(patch, patch): the similarity of the position encodings of each pair of patches."""
    run = workspace.run(request.run)
    image = image_settings_of(run)
    encoding = find_position_encoding(run.model.module.source, run.model.module.encoder)  # type: ignore[arg-type]
    if encoding.kind == "none":
        raise UserError("This model has no position encoding.", location=run.name)
    return ArrayResponse(position_similarity(encoding, image.image_size // image.embedding.size))


def regions(workspace: Workspace, request: RegionsRequest) -> ArrayResponse:
    """(token, position): the cross-attention weights of each token of a caption."""
    model = _model(workspace, request)
    if not model.task.generates:
        raise UserError("This model generates no captions.", location=workspace.run(request.run).name)
    image = prepare_image(workspace, request)
    record = model.trace(image.model_input, request.target)
    return ArrayResponse(
        _select_head([each.values for each in record.of("attention") if each.is_cross_attention], request)
    )


def _select_head(layers: AttentionMaps, request: ImageAttentionRequest) -> NDArray[np.float32]:
    """The weights of one head of one layer, or the mean of its heads."""
    if not layers or request.layer >= len(layers) or request.head >= len(layers[0]):
        heads = len(layers[0]) if layers else 0
        raise UserError(f"This model has {len(layers)} attention layers with {heads} heads each.", location="layer")
    weights = layers[request.layer]
    return weights.mean(axis=0) if request.head < 0 else weights[request.head]


def _model(workspace: Workspace, request: ImageRequest) -> Any:
    """The model of the run, or its copy without position encodings."""
    run = workspace.run(request.run)
    return (
        without_position_encoding(workspace, run)
        if isinstance(request, ImagePredictRequest) and request.positions == "off"
        else run.model
    )


def _attention_maps(workspace: Workspace, request: ImageRequest) -> AttentionMaps:
    """The cached attention weights (head, query, key) of each layer of the encoder for this image."""
    fields = request.model_dump(include=set(ImagePredictRequest.model_fields))
    key = ("attention_maps", ImagePredictRequest(**fields).model_dump_json())
    return workspace.cached(
        key, lambda: attention_maps_of(_model(workspace, request), prepare_image(workspace, request))
    )


@torch.inference_mode()
def attention_maps_of(model: Any, image: PreparedImage) -> AttentionMaps:
    """The attention weights (head, query, key) of each layer for an image; empty for models without attention."""
    module, batch = model.module, model.named_batch(image.model_input, "").batch
    with trace(module) as activations:
        length = module.encode(batch.source).values.size(1)
    if length > MAX_SHOWN_TOKENS:
        raise UserError(f"The image has {length:,} patches, and the maximum is {MAX_SHOWN_TOKENS:,}.", location="image")
    return [each.values[0].float().cpu().numpy() for each in activations.of("attention")]
