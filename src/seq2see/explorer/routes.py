"""What the page can request: the description of each run, and the table of routes with their HTTP endpoints.

The description of a run has its model family, its task, its capabilities and its views. A route has a name, a request
model and a handler.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException

from seq2see.core.errors import UserError
from seq2see.explorer import inputs
from seq2see.explorer.inputs import TraceRequest, first_example
from seq2see.explorer.job_queue import JobQueue, QueueFull
from seq2see.explorer.schemas import MAX_IMAGE_BYTES, ApiRequest, ArrayResponse, RunRequest
from seq2see.explorer.security import Credentials, internal_error
from seq2see.explorer.views import (
    adapter,
    architecture,
    attention,
    embeddings,
    next_token,
    positions,
    predict,
    recurrent,
    runs,
    speech,
    tokenize,
    vit,
)
from seq2see.explorer.workspace import OpenRun, RunNotFound, Workspace
from seq2see.models.settings import ModelSettings

VIEWS_OF_ALL_TASKS = ("adapter",)
"""Views that do not depend on the task; those of a task are in `Task.views`."""


def list_runs(workspace: Workspace) -> dict[str, Any]:
    """The descriptions of all runs, in the order in which they were opened."""
    return {"runs": [describe_run(run) for run in workspace.runs.values()]}


def describe_run(run: OpenRun) -> dict[str, Any]:
    """The description of one run."""
    settings = run.settings
    return {
        "id": run.id,
        "name": run.name,
        "load_name": run.load_name or run.name,
        "recipe": run.recipe.name if run.folder else run.config.name,
        "family": run.task.family(settings),
        "task": run.task.name,
        "encoder": settings.encoder.kind if settings.encoder else None,
        "decoder": settings.decoder.kind if settings.decoder else None,
        "ready": run.ready,
        "capabilities": capabilities_of(run),
        "views": views_of(run),
        "settings": run.task.shown_settings(run.model) if run.ready else {},
        "languages": languages_of(run),
        "example": first_example(run),
    }


def capabilities_of(run: OpenRun) -> list[str]:
    """What the views can show of a run; of an unfinished run only the training curves."""
    if not run.ready:
        return ["curves"]
    settings, is_single = run.settings, not run.config.members  # the members of an ensemble differ
    kinds = {part.kind for part in (settings.encoder, settings.decoder) if part}
    has_attention = getattr(settings.decoder, "attention", "") not in ("", "none", "context-vector")
    capabilities = {
        "curves": run.folder is not None,
        "text": run.task.input_kind == "text",
        "images": run.task.input_kind == "image",
        "videos": run.task.input_kind == "video",
        "series": run.task.input_kind == "series",
        "sounds": run.task.input_kind == "sound",
        "embeddings": is_single and "embeddings" in run.task.views and _has_table(settings),
        "attention": is_single and ("transformer" in kinds or has_attention),
        "recurrent": is_single and "recurrent" in kinds,
        "target": run.task.generates and settings.source is not None,
        "masks": run.task.fills_masks,
        "decode": "decode" in run.task.views,
        "evaluation": run.folder is not None and run.folder.evaluation.is_dir(),
    }
    return [name for name, holds in capabilities.items() if holds]


def _has_table(settings: ModelSettings) -> bool:
    """Whether the source is embedded by a table of tokens; of models without a source text, the target."""
    sides = [getattr(side, "embedding", None) for side in (settings.source, settings.target)]
    return any(getattr(embedding, "kind", "") in ("tokens", "bert") for embedding in sides)


def views_of(run: OpenRun) -> list[str]:
    """The views that support a run: the menu of the page, and the views of a saved page."""
    capabilities, is_single = {*capabilities_of(run)}, run.ready and not run.config.members
    kinds = {part.kind for part in (run.settings.encoder, run.settings.decoder) if part}
    has_positions = "transformer" in kinds and capabilities & {"text", "images"}
    supported = {
        "runs": "curves" in capabilities,
        "tokenize": run.ready,
        "attention": "attention" in capabilities,
        "single-head": "attention" in capabilities,
        "next-token": run.ready,
        "decode": run.ready,
        "recurrent": "recurrent" in capabilities,
        "vit": is_single,
        "speech": is_single,
        "positions": is_single and (has_positions or not run.task.fixed_order),
        "compare": run.ready,
        "mistakes": run.ready and "curves" in capabilities,
        "architecture": run.ready,
        "adapter": run.ready and run.model.stored.expert is not None,
        "embeddings": "embeddings" in capabilities,
    }
    return [view for view, holds in supported.items() if holds and view in (*run.task.views, *VIEWS_OF_ALL_TASKS)]


def languages_of(run: OpenRun) -> list[str]:
    """The source and target language of the corpus, if it has languages."""
    if run.folder is None:
        return []
    corpus = run.recipe.slot("corpus")
    languages = [getattr(corpus, side, None) for side in ("source", "target")]
    return [each for each in languages if isinstance(each, str)]


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
    "adapter/matrices": Route(RunRequest, adapter.matrices),
    "adapter/factors": Route(RunRequest, adapter.factors),
    "adapter/matrix": Route(adapter.MatrixRequest, adapter.matrix),
    "architecture/blocks": Route(architecture.BlocksRequest, architecture.blocks),
    "architecture/source": Route(architecture.SourceCodeRequest, architecture.source, uses_model=False),
    "compare/sides": Route(predict.CompareRequest, predict.compare),
    "embeddings/analogy": Route(embeddings.AnalogyRequest, embeddings.analogy),
    "embeddings/contexts": Route(embeddings.ContextsRequest, embeddings.contexts),
    "embeddings/map": Route(embeddings.EmbeddingMapRequest, embeddings.map_points),
    "embeddings/neighbors": Route(embeddings.NeighborsRequest, embeddings.neighbors),
    "embeddings/tokens": Route(embeddings.EmbeddingMapRequest, embeddings.map_tokens),
    "mistakes/confusion": Route(runs.SplitRequest, runs.confusion_matrix, uses_model=False),
    "mistakes/forecasts": Route(runs.SplitRequest, runs.forecasts, uses_model=False),
    "mistakes/rows": Route(runs.RowsRequest, runs.rows, uses_model=False),
    "mistakes/splits": Route(runs.SplitsRequest, runs.list_splits, uses_model=False),
    "decode/exposure-bias": Route(
        next_token.ExposureBiasRequest, next_token.exposure_bias, max_body_bytes=MAX_MEDIA_BYTES
    ),
    "decode/search-tree": Route(next_token.SearchTreeRequest, next_token.search_tree, max_body_bytes=MAX_MEDIA_BYTES),
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
    "series/forecast": Route(predict.ForecastRequest, predict.forecast_series),
    "speech/transcript": Route(speech.SoundRequest, speech.transcript, max_body_bytes=MAX_MEDIA_BYTES),
    "speech/part": Route(speech.SoundPartRequest, speech.part, max_body_bytes=MAX_MEDIA_BYTES),
    "speech/live": Route(speech.LiveRequest, speech.live),
    "vit/info": Route(inputs.ImageRequest, vit.model_info, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/image-info": Route(inputs.ImageRequest, inputs.image_info, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/image": Route(inputs.ImageRequest, inputs.image, max_body_bytes=MAX_MEDIA_BYTES),
    "vit/upload": Route(inputs.UploadRequest, inputs.upload, max_body_bytes=MAX_MEDIA_BYTES),
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


NO_PATHS: Mapping[str, str] = {}
Endpoint = Callable[[Request], Awaitable[Response]]

LOCAL_PATH = re.compile(r"(?<![\w.~<])(?:~/|/(?=[^\s/]+/)|[A-Za-z]:[\\/])[^\s'\"`<>]+")
"""A text that looks like an absolute path."""


class LoginRequest(ApiRequest):
    """The token of the printed link."""

    token: str = Field(max_length=200)


def login_endpoint(credentials: Credentials) -> Endpoint:
    """Exchanges the token for a cookie that scripts cannot read and other pages cannot send."""

    async def endpoint(request: Request) -> Response:
        try:
            payload = LoginRequest.model_validate_json(await request.body())
        except ValidationError as error:
            return error_response(422, _validation_error(error))
        if not credentials.verify(payload.token):
            return error_response(401, UserError("The token is wrong.", hint="Open the printed link."))
        response = to_response({"logged_in": True})
        response.set_cookie(credentials.cookie_name, credentials.token, httponly=True, samesite="strict", path="/")
        return response

    return endpoint


def route_endpoint(route: Route, workspace: Workspace, queue: JobQueue) -> Endpoint:
    """The endpoint of one route."""

    async def endpoint(request: Request) -> Response:
        try:
            payload = route.request_model.model_validate_json(await request.body())
        except ValidationError as error:
            return error_response(422, _validation_error(error))
        job = queue.submit(lambda: to_response(route.handler(workspace, payload)))
        return await _cancel_on_disconnect(request, job)

    return endpoint


def error_handlers(workspace: Workspace) -> dict[type[Exception], Callable[[Request, Any], Response]]:
    """The responses to exceptions; any other exception is an internal error."""

    def queue_full(request: Request, error: QueueFull) -> Response:
        response = error_response(429, UserError("The queue of requests is full.", hint="Try again in a moment."))
        response.headers["Retry-After"] = str(error.retry_after)
        return response

    def file_missing(request: Request, error: FileNotFoundError) -> Response:
        return error_response(
            422, UserError("A file of this run is missing.", hint="Check whether its folder was moved or deleted.")
        )

    def http_error(request: Request, error: HTTPException) -> Response:
        return error_response(error.status_code, UserError(f"{error.detail}."))

    return {
        QueueFull: queue_full,
        FileNotFoundError: file_missing,
        HTTPException: http_error,
        RunNotFound: lambda request, error: error_response(404, error),
        UserError: lambda request, error: error_response(422, error, workspace.path_names),
        Exception: lambda request, error: Response(
            json.dumps(internal_error(error)), 500, media_type="application/json"
        ),
    }


def to_response(result: dict[str, Any] | BaseModel | ArrayResponse) -> Response:
    """The HTTP response of a handler's result: JSON, or the bytes of an array."""
    if isinstance(result, ArrayResponse):
        values = np.asarray(result.array, dtype="<f4")
        shape = ",".join(map(str, values.shape))
        return Response(values.tobytes(), media_type="application/octet-stream", headers={"X-Shape": shape})
    content = result.model_dump() if isinstance(result, BaseModel) else result
    return Response(_json(content), media_type="application/json")


def _json(content: Any) -> str:
    """JSON without NaN and infinity, which become null: a loss may have such a value."""
    try:
        return json.dumps(content, allow_nan=False)
    except ValueError:
        return json.dumps(_nan_to_none(content), allow_nan=False)


def _nan_to_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _nan_to_none(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_nan_to_none(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


async def _cancel_on_disconnect(request: Request, job: Any) -> Response:
    """The response of the job; if the client disconnects first, the job is cancelled."""
    result = asyncio.ensure_future(job)
    disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({result, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        return await result if result.done() else Response(status_code=499)
    finally:
        result.cancel()
        disconnect.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _validation_error(error: ValidationError) -> UserError:
    """The first validation error of a request; the message does not repeat the content of the request."""
    first = error.errors()[0]
    location = ".".join(map(str, first["loc"]))
    return UserError(
        f"The request is not valid: {first['msg']}.", location=location, hint="See openapi.json for the schema."
    )


def error_response(status: int, error: UserError, path_names: Mapping[str, str] = NO_PATHS) -> Response:
    """The JSON response of an error. Paths of runs become the names of the runs; all other local paths are removed."""
    fields = {"message": error.message, "location": error.location, "hint": error.hint}
    for path, name in path_names.items():
        fields = {key: text.replace(path, name) for key, text in fields.items()}
    body = {key: LOCAL_PATH.sub("…", text) for key, text in fields.items()}
    return Response(json.dumps(body), status, media_type="application/json")
