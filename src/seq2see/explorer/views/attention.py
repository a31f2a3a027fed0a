"""The views "Attention" and "Single head": attention weights, and the arrays that they are computed from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.explorer.inputs import TraceRequest, attention_layers, attention_weights, example_of, named_batch, record
from seq2see.explorer.schemas import ArrayResponse, Index, RunRequest
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.attention_measures import (
    HEAD_FUSIONS,
    alignment_error,
    distance,
    entropy,
    max_pooled_maps,
    patch_distance,
    similarity,
)
from seq2see.inspection.record import ActivationRecord, Signal
from seq2see.inspection.trace import ATTENTION_INPUTS
from seq2see.metrics.alignment import GoldAlignment

THUMBNAIL_SIZE = 40
"""The maximum number of rows and columns of the thumbnail of a head."""
MAX_EXAMPLES = 64
"""The number of test examples among which short ones are selected."""
MAX_EXAMPLE_CHARACTERS = 60
"""The maximum length of a short example."""


class LayerRequest(TraceRequest):
    """A request about one attention layer of a model."""

    layer: Index
    """The index of the layer in `attention/layers`."""


class HeadRequest(LayerRequest):
    """A request about one head, or about all heads of a layer fused into one map."""

    head: Index = 0
    heads: Literal["one", "mean", "max", "min"] = "one"


class AttentionRowRequest(LayerRequest):
    """A request about one row of the map: the attention weights of one query token in each head."""

    row: Index


class HeadPartRequest(LayerRequest):
    """A request about one of the arrays that the weights of a head are computed from."""

    head: Index = 0
    part: Literal["query", "key", "value", "attention_mask", "attention_bias", "score_vector", "attention"]


class ExamplesRequest(RunRequest):
    """A request for examples of a run."""

    max_examples: Annotated[int, Field(ge=1, le=32)] = 12


def list_layers(workspace: Workspace, request: TraceRequest) -> dict[str, Any]:
    """Every attention layer of the model, the tokens of each side, and the gold alignment if it is known."""
    batch = named_batch(workspace, request)
    tokens = {**batch.tokens, "pooled": ["Σ"]}
    special = {side: batch.special.get(side, [False] * len(names)) for side, names in tokens.items()}
    gold = _gold_alignment(workspace, request)
    return {
        "layers": [_layer_fields(each, tokens) for each in attention_layers(workspace, request)],
        "tokens": tokens,
        "special": special,
        "grid": batch.grid,
        "gold": gold
        and {"links": gold.sure_links, "possible": gold.possible_links, **_word_indices(workspace, request, gold)},
    }


def head(workspace: Workspace, request: HeadRequest) -> ArrayResponse:
    """(query, key): the weights of one head, or of all heads fused."""
    _, signal = attention_weights(workspace, request, request.layer)
    if request.heads == "one":
        return ArrayResponse(signal.values[_checked_index(request.head, signal.values)])
    return ArrayResponse(HEAD_FUSIONS[request.heads](signal.values))


def row(workspace: Workspace, request: AttentionRowRequest) -> ArrayResponse:
    """(head, key): the weights of one query token in each head."""
    _, signal = attention_weights(workspace, request, request.layer)
    if request.row >= signal.values.shape[1]:
        raise UserError(f"There are {signal.values.shape[1]} tokens, and no token {request.row}.")
    return ArrayResponse(signal.values[:, request.row])


def thumbnails(workspace: Workspace, request: LayerRequest) -> ArrayResponse:
    """(head, row, column): the downsampled map of every head of one attention layer."""
    _, signal = attention_weights(workspace, request, request.layer)
    return ArrayResponse(max_pooled_maps(signal.values, THUMBNAIL_SIZE))


def measures(workspace: Workspace, request: LayerRequest) -> dict[str, Any]:
    """The entropy, mean distance and alignment error of each head of one layer, and the similarity of the heads."""
    traced, signal = attention_weights(workspace, request, request.layer)
    return {
        "entropy": entropy(signal.values).mean(-1).tolist(),
        "distance": None if signal.is_cross_attention else _mean_distance(traced, signal).mean(-1).tolist(),
        "similarity": similarity(signal.values).tolist(),
        "alignment_error": _alignment_errors(workspace, request, traced, signal),
    }


def _mean_distance(traced: ActivationRecord, signal: Signal) -> NDArray[Any]:
    """The mean attention distance of each token: in positions of a text, or in patches of an image."""
    if traced.grid is None or signal.side != "source":
        return distance(signal.values)
    return patch_distance(signal.values, traced.grid)


def part(workspace: Workspace, request: HeadPartRequest) -> ArrayResponse:
    """One of the arrays that a head's weights are computed from, or the weights; (0,) if the layer has none."""
    layers = attention_layers(workspace, request)
    name = layers[_checked_index(request.layer, np.empty(len(layers)))].name
    traced = record(workspace, request, ATTENTION_INPUTS, (name,))
    _checked_index(request.head, traced.find(name, "attention").values)
    if not any(each.kind == request.part for each in traced.signals):
        return ArrayResponse(np.zeros(0, dtype=np.float32))
    values = traced.find(name, request.part).values
    if request.part == "score_vector":
        return ArrayResponse(values)
    return ArrayResponse(values[request.head if len(values) > 1 else 0])


def examples(workspace: Workspace, request: ExamplesRequest) -> dict[str, Any]:
    """Test examples of a run; if its data are missing, the first text of its samples."""
    run = workspace.run(request.run)
    try:
        found = run.task.page_examples(run.settings, run.test_examples)[:MAX_EXAMPLES]
    except UserError:  # the data are missing
        found = []
    if not found and isinstance(default := example_of(run), str):
        found = [Example(default, "")]
    short = [each for each in found if len(each.source) <= MAX_EXAMPLE_CHARACTERS] or list(found)
    fields = [(each.source, each.target, bool(each.sure_links)) for each in short[: request.max_examples]]
    return {"examples": [{"source": source, "target": target, "gold": gold} for source, target, gold in fields]}


def _layer_fields(layer: Signal, tokens: dict[str, list[str]]) -> dict[str, Any]:
    """One attention layer for the page: its place in the model, and the sides of its rows and columns."""
    stack, *rest = layer.name.split(".")
    rows = "labels" if layer.is_cross_attention and layer.side == "target" else layer.side
    return {
        "name": layer.name,
        "stack": stack,
        "block": next((int(each) for each in rest if each.isdecimal()), None),
        "is_cross_attention": layer.is_cross_attention,
        "heads": len(layer.values),
        "head_dim": layer.values.shape[-1],
        "score_function": layer.score_function,
        "rows": rows,
        "columns": layer.key_side,
        "map_shape": [len(tokens[rows]), len(tokens[layer.key_side or layer.side])],
    }


def _checked_index(index: int, values: NDArray[Any]) -> int:
    if index >= len(values):
        raise UserError(f"The index {index} is not less than {len(values)}.", hint="Indices start at 0.")
    return index


def _gold_alignment(workspace: Workspace, request: TraceRequest) -> Example | None:
    """The test example with this source and target, if its gold alignment is known."""
    run = workspace.run(request.run)
    if run.folder is None or not request.text or request.target is None or not run.model.has_source:
        return None
    if not getattr(run.recipe.slot("corpus"), "kind", "").startswith("pocket"):
        return None
    matches = (
        each
        for each in run.test_examples[:MAX_EXAMPLES]
        if (each.source, each.target) == (request.text, request.target)
    )
    return next((each for each in matches if each.sure_links), None)


def _word_indices(workspace: Workspace, request: TraceRequest, example: Example) -> dict[str, list[int | None]]:
    """The word index of each token of both sides; None for <eos>."""
    tokenizers = workspace.run(request.run).model.tokenizers
    return {
        "source_words": [*tokenizers.source.word_ids(example.source, example.source_words), None],
        "target_words": [*tokenizers.target.word_ids(example.target, example.target_words), None],
    }


def _alignment_errors(
    workspace: Workspace, request: TraceRequest, traced: ActivationRecord, signal: Signal
) -> list[float] | None:
    example = _gold_alignment(workspace, request)
    if example is None or not signal.is_cross_attention or traced.query_tokens(signal) is not traced.tokens["labels"]:
        return None
    words, gold = (
        _word_indices(workspace, request, example),
        GoldAlignment.of(example.sure_links, example.possible_links),
    )
    return [alignment_error(each, words["source_words"], words["target_words"], gold) for each in signal.values]
