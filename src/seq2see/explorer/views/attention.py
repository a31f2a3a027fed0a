"""The views "Attention" and "One head by hand": where a model looks, one head at a time, and what that is made of."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.default_inputs import example_of
from seq2see.explorer.schemas import ArrayResponse, Index, RunRequest
from seq2see.explorer.traces import TraceRequest, attention_layers, attention_weights, reading, record
from seq2see.explorer.views.series import test_windows
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.attention_measures import (
    alignment_error,
    distance,
    entropy,
    max_pooled_maps,
    patch_distance,
    similarity,
)
from seq2see.inspection.record import ActivationRecord, Signal
from seq2see.inspection.rollout import HEAD_FUSIONS
from seq2see.inspection.trace import ATTENTION_INPUTS
from seq2see.metrics.alignment import GoldAlignment
from seq2see.models.settings import Series
from seq2see.sources.examples import Example

THUMBNAIL_SIZE = 40
"""Rows and columns of a small image of a head, at most."""
MAX_EXAMPLES = 64
"""Examples that are looked through for short ones."""
MAX_EXAMPLE_CHARACTERS = 60
"""Characters of a sentence that is offered as an example."""


class LayerRequest(TraceRequest):
    """A question about one attention of a model."""

    layer: Index
    """Its number in `attention_weights/attention_layers`."""


class HeadRequest(LayerRequest):
    """A question about one head, or about all heads of an attention fused into one."""

    head: Index = 0
    heads: Literal["one", "mean", "max", "min"] = "one"


class AttentionRowRequest(LayerRequest):
    """A question about one token: where it looks, by each head."""

    row: Index


class HeadPartRequest(LayerRequest):
    """A question about what one head's weights are made of."""

    head: Index = 0
    part: Literal["query", "key", "value", "attention_mask", "attention_bias", "score_vector", "attention"]


class ExamplesRequest(RunRequest):
    """What a run has to be tried on."""

    max_examples: Annotated[int, Field(ge=1, le=32)] = 12


def list_layers(workspace: Workspace, request: TraceRequest) -> dict[str, Any]:
    """Every attention of the model, the tokens of each side, and the true alignment where it is known."""
    read = reading(workspace, request)
    tokens = {**read.tokens, "pooled": ["Σ"]}
    special = {side: read.special.get(side, [False] * len(names)) for side, names in tokens.items()}
    gold = _gold_alignment(workspace, request)
    return {
        "layers": [_layer_fields(each, tokens) for each in attention_layers(workspace, request)],
        "tokens": tokens,
        "special": special,
        "grid": read.grid,
        "gold": gold
        and {"links": gold.sure_links, "possible": gold.possible_links, **_word_indices(workspace, request, gold)},
    }


def head(workspace: Workspace, request: HeadRequest) -> ArrayResponse:
    """(query, key): the weights of one head, or of all fused."""
    _, found = attention_weights(workspace, request, request.layer)
    if request.heads == "one":
        return ArrayResponse(found.values[_checked_index(request.head, found.values)])
    return ArrayResponse(HEAD_FUSIONS[request.heads](found.values))


def row(workspace: Workspace, request: AttentionRowRequest) -> ArrayResponse:
    """(head, key): where one token looks, by each head."""
    _, found = attention_weights(workspace, request, request.layer)
    if request.row >= found.values.shape[1]:
        raise UserError(f"There are {found.values.shape[1]} tokens, and none has the number {request.row}.")
    return ArrayResponse(found.values[:, request.row])


def thumbnails(workspace: Workspace, request: LayerRequest) -> ArrayResponse:
    """(head, row, column): every head of one attention, small."""
    _, found = attention_weights(workspace, request, request.layer)
    return ArrayResponse(max_pooled_maps(found.values, THUMBNAIL_SIZE))


def measures(workspace: Workspace, request: LayerRequest) -> dict[str, Any]:
    """How sharp each head of one attention looks, how far, how alike the heads are, and how well they align words."""
    seen, found = attention_weights(workspace, request, request.layer)
    return {
        "entropy": entropy(found.values).mean(-1).tolist(),
        "distance": None if found.is_cross_attention else _mean_distance(seen, found).mean(-1).tolist(),
        "similarity": similarity(found.values).tolist(),
        "alignment_error": _alignment_errors(workspace, request, seen, found),
    }


def _mean_distance(seen: ActivationRecord, found: Signal) -> NDArray[Any]:
    """How far each token looks: in places of a text, or in patches of an image."""
    if seen.grid is None or found.side != "source":
        return distance(found.values)
    return patch_distance(found.values, seen.grid)


def part(workspace: Workspace, request: HeadPartRequest) -> ArrayResponse:
    """One of the arrays that a head's weights are made of, or the weights; (0,) if this attention has no such thing."""
    found = attention_layers(workspace, request)
    name = found[_checked_index(request.layer, np.empty(len(found)))].name
    seen = record(workspace, request, ATTENTION_INPUTS, (name,))
    _checked_index(request.head, seen.find(name, "attention").values)
    if not any(each.kind == request.part for each in seen.signals):
        return ArrayResponse(np.zeros(0, dtype=np.float32))
    values = seen.find(name, request.part).values
    if request.part == "score_vector":
        return ArrayResponse(values)
    return ArrayResponse(values[request.head if len(values) > 1 else 0])


def examples(workspace: Workspace, request: ExamplesRequest) -> dict[str, Any]:
    """Test examples of a run, to try it on; where its data are no longer there, what its samples show."""
    run = workspace.run(request.run)
    numbers = isinstance(run.settings.target, Series)
    try:
        found = test_windows(run) if numbers else run.test_examples[:MAX_EXAMPLES]
    except UserError:  # the data are no longer there
        found = []
    has_source = run.model.has_source or numbers
    if not found and isinstance(usual := example_of(run), str):
        found = [Example(usual, "") if has_source else Example("", usual)]
    short = [each for each in found if len(each.source) <= MAX_EXAMPLE_CHARACTERS] or list(found)
    return {"examples": [_example_fields(each, has_source) for each in short[: request.max_examples]]}


def _example_fields(example: Example, has_source: bool) -> dict[str, Any]:
    """What is read and written; running text is the beginning of its first line."""
    if has_source:
        return {"source": example.source, "target": example.target, "gold": bool(example.sure_links)}
    text = next((line for line in example.target.splitlines() if line.strip()), "")[:MAX_EXAMPLE_CHARACTERS]
    return {"source": text, "target": "", "gold": False}


def _layer_fields(layer: Signal, tokens: dict[str, list[str]]) -> dict[str, Any]:
    """One attention, as the page knows it: which part of the model it is, and whose tokens are its rows and columns."""
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


def _checked_index(number: int, values: NDArray[Any]) -> int:
    if number >= len(values):
        raise UserError(f"There are {len(values)}, and none has the number {number}.", hint="They count from 0.")
    return number


def _gold_alignment(workspace: Workspace, request: TraceRequest) -> Example | None:
    """The test example that was asked about, if its true alignment is known and what is written is its reference."""
    run = workspace.run(request.run)
    if run.folder is None or not request.text or request.target is None or not run.model.has_source:
        return None
    if not getattr(run.recipe.corpus, "kind", "").startswith("pocket"):
        return None
    same = (
        each
        for each in run.test_examples[:MAX_EXAMPLES]
        if (each.source, each.target) == (request.text, request.target)
    )
    return next((each for each in same if each.sure_links), None)


def _word_indices(workspace: Workspace, request: TraceRequest, example: Example) -> dict[str, list[int | None]]:
    """Which word each piece of both sides belongs to; <eos> to none."""
    tokenizers = workspace.run(request.run).model.tokenizers
    return {
        "source_words": [*tokenizers.source.word_ids(example.source, example.source_words), None],
        "target_words": [*tokenizers.target.word_ids(example.target, example.target_words), None],
    }


def _alignment_errors(
    workspace: Workspace, request: TraceRequest, seen: ActivationRecord, found: Signal
) -> list[float] | None:
    gold = _gold_alignment(workspace, request)
    if gold is None or not found.is_cross_attention or seen.query_tokens(found) is not seen.tokens["labels"]:
        return None
    words, truth = _word_indices(workspace, request, gold), GoldAlignment.of(gold.sure_links, gold.possible_links)
    return [alignment_error(each, words["source_words"], words["target_words"], truth) for each in found.values]
