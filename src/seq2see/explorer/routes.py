"""The table of routes: the name, the request model and the handler of every request of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from seq2see.explorer.schemas import MAX_IMAGE_BYTES, ApiRequest, ArrayResponse, RunRequest
from seq2see.explorer.traces import TraceRequest
from seq2see.explorer.views import (
    architecture,
    attention,
    compare,
    decode,
    embeddings,
    image_input,
    mistakes,
    next_token,
    positions,
    predict,
    recurrent,
    runs,
    series,
    tokenize,
    vit,
)
from seq2see.explorer.workspace import Workspace

MAX_TEXT_BYTES, MAX_MEDIA_BYTES = 1 << 20, 2 * MAX_IMAGE_BYTES
"""The maximum size of a request with texts, and of one with images, in bytes."""

HandlerResult = dict[str, Any] | BaseModel | ArrayResponse


@dataclass(frozen=True)
class Route:
    """The request model and the handler of one route."""

    request_model: type[ApiRequest]
    handler: Callable[[Workspace, Any], HandlerResult]
    max_body_bytes: int = MAX_TEXT_BYTES
    """The maximum size of a request in bytes."""
    uses_model: bool = True
    """Whether it runs in the job queue of the models; handlers that only read files have a queue of their own."""


ROUTES: dict[str, Route] = {
    "tokenize": Route(tokenize.TokenizeRequest, tokenize.tokenize),
    "architecture/blocks": Route(architecture.BlocksRequest, architecture.blocks),
    "architecture/source": Route(architecture.SourceCodeRequest, architecture.source, uses_model=False),
    "compare/sides": Route(compare.CompareRequest, compare.compare),
    "embeddings/analogy": Route(embeddings.AnalogyRequest, embeddings.analogy),
    "embeddings/contexts": Route(embeddings.ContextsRequest, embeddings.contexts),
    "embeddings/map": Route(embeddings.EmbeddingMapRequest, embeddings.map_points),
    "embeddings/neighbors": Route(embeddings.NeighborsRequest, embeddings.neighbors),
    "embeddings/tokens": Route(embeddings.EmbeddingMapRequest, embeddings.map_tokens),
    "mistakes/confusion": Route(mistakes.SplitRequest, mistakes.confusion_matrix, uses_model=False),
    "mistakes/forecasts": Route(mistakes.SplitRequest, mistakes.forecasts, uses_model=False),
    "mistakes/rows": Route(mistakes.RowsRequest, mistakes.rows, uses_model=False),
    "mistakes/splits": Route(mistakes.SplitsRequest, mistakes.list_splits, uses_model=False),
    "decode/exposure-bias": Route(decode.ExposureBiasRequest, decode.exposure_bias, max_body_bytes=MAX_MEDIA_BYTES),
    "decode/search-tree": Route(decode.SearchTreeRequest, decode.search_tree, max_body_bytes=MAX_MEDIA_BYTES),
    "next-token/detokenize": Route(next_token.DetokenizeRequest, next_token.detokenize),
    "next-token/analysis": Route(next_token.NextTokenRequest, next_token.analyze, max_body_bytes=MAX_MEDIA_BYTES),
    "predict": Route(predict.PredictRequest, predict.predict, max_body_bytes=MAX_MEDIA_BYTES),
    "runs/metrics": Route(runs.MetricsRequest, runs.metrics, uses_model=False),
    "runs/samples": Route(runs.SamplesRequest, runs.samples, uses_model=False),
    "examples": Route(attention.ExamplesRequest, attention.examples),
    "attention/layers": Route(TraceRequest, attention.list_layers, max_body_bytes=MAX_MEDIA_BYTES),
    "attention/head": Route(attention.HeadRequest, attention.head, max_body_bytes=MAX_MEDIA_BYTES),
    "attention/row": Route(attention.AttentionRowRequest, attention.row, max_body_bytes=MAX_MEDIA_BYTES),
    "attention/thumbnails": Route(attention.LayerRequest, attention.thumbnails, max_body_bytes=MAX_MEDIA_BYTES),
    "attention/measures": Route(attention.LayerRequest, attention.measures, max_body_bytes=MAX_MEDIA_BYTES),
    "attention/part": Route(attention.HeadPartRequest, attention.part, max_body_bytes=MAX_MEDIA_BYTES),
    "recurrent/cells": Route(TraceRequest, recurrent.list_cells, max_body_bytes=MAX_MEDIA_BYTES),
    "recurrent/states": Route(recurrent.StatesRequest, recurrent.states, max_body_bytes=MAX_MEDIA_BYTES),
    "recurrent/influence": Route(recurrent.InfluenceRequest, recurrent.influence, max_body_bytes=MAX_MEDIA_BYTES),
    "recurrent/context-vectors": Route(TraceRequest, recurrent.context_vectors, max_body_bytes=MAX_MEDIA_BYTES),
    "recurrent/attention-ablation": Route(TraceRequest, recurrent.attention_ablation, max_body_bytes=MAX_MEDIA_BYTES),
    "series/forecast": Route(series.ForecastRequest, series.forecast_series),
    "vit/info": Route(image_input.ImageRequest, vit.model_info, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/image-info": Route(image_input.ImageRequest, image_input.image_info, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/image": Route(image_input.ImageRequest, image_input.image, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/upload": Route(image_input.UploadRequest, image_input.upload, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/predict": Route(vit.ImagePredictRequest, vit.predict_image, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/attention": Route(vit.ImageAttentionRequest, vit.attention_map, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/rollout": Route(vit.RolloutRequest, vit.attention_rollout, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/regions": Route(vit.RegionsRequest, vit.regions, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/position-similarity": Route(RunRequest, vit.patch_similarity),
    "positions/encodings": Route(RunRequest, positions.encodings),
    "positions/table": Route(positions.PositionTableRequest, positions.table),
    "positions/similarity": Route(positions.PositionTableRequest, positions.similarity),
    "positions/predict": Route(positions.ReorderRequest, positions.predict_reordered),
    "positions/distances": Route(positions.ReorderRequest, positions.distances),
}
"""`POST /api/<name>`."""
