"""The views "Attention" and "One head by hand": where a model looks, one head at a time, and what that is made of."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench
from seq2see.explorer.examples import example_of
from seq2see.explorer.messages import AboutRun, Numbers, Place
from seq2see.explorer.records import AboutInput, attention, layers, reading, record
from seq2see.explorer.views.series import stretches
from seq2see.inspection.measures import alignment_error, distance, entropy, patch_distance, pooled, similarity
from seq2see.inspection.record import Record, Signal
from seq2see.inspection.rollout import FUSIONS
from seq2see.inspection.trace import BY_HAND
from seq2see.metrics.alignment import Gold
from seq2see.models.settings import Series
from seq2see.sources.examples import Example

THUMBNAIL = 40
"""Rows and columns of a small picture of a head, at most."""
MOST_EXAMPLES = 64
"""Examples that are looked through for short ones."""
LONGEST = 60
"""Characters of a sentence that is offered as an example."""


class LayerAsked(AboutInput):
    """A question about one attention of a model."""

    layer: Place
    """Its number in `attention/layers`."""


class HeadAsked(LayerAsked):
    """A question about one head, or about all heads of an attention fused into one."""

    head: Place = 0
    heads: Literal["one", "mean", "max", "min"] = "one"


class RowAsked(LayerAsked):
    """A question about one token: where it looks, by each head."""

    row: Place


class PartAsked(LayerAsked):
    """A question about what one head's weights are made of."""

    head: Place = 0
    part: Literal["query", "key", "value", "allowed", "lean", "vector", "attention"]


class ExamplesAsked(AboutRun):
    """What a run has to be tried on."""

    most: Annotated[int, Field(ge=1, le=32)] = 12


def listed(bench: Bench, asked: AboutInput) -> dict[str, Any]:
    """Every attention of the model, the tokens of each side, and the true alignment where it is known."""
    read = reading(bench, asked)
    tokens = {**read.tokens, "summary": ["Σ"]}
    special = {side: read.special.get(side, [False] * len(names)) for side, names in tokens.items()}
    gold = _gold(bench, asked)
    return {
        "layers": [_told(each, tokens) for each in layers(bench, asked)],
        "tokens": tokens,
        "special": special,
        "grid": read.grid,
        "gold": gold and {"links": gold.links, "possible": gold.possible, **_words(bench, asked, gold)},
    }


def head(bench: Bench, asked: HeadAsked) -> Numbers:
    """(query, key): the weights of one head, or of all fused."""
    _, found = attention(bench, asked, asked.layer)
    if asked.heads == "one":
        return Numbers(found.values[_inside(asked.head, found.values)])
    return Numbers(FUSIONS[asked.heads](found.values))


def row(bench: Bench, asked: RowAsked) -> Numbers:
    """(head, key): where one token looks, by each head."""
    _, found = attention(bench, asked, asked.layer)
    if asked.row >= found.values.shape[1]:
        raise UserError(f"There are {found.values.shape[1]} tokens, and none has the number {asked.row}.")
    return Numbers(found.values[:, asked.row])


def thumbnails(bench: Bench, asked: LayerAsked) -> Numbers:
    """(head, row, column): every head of one attention, small."""
    _, found = attention(bench, asked, asked.layer)
    return Numbers(pooled(found.values, THUMBNAIL))


def measures(bench: Bench, asked: LayerAsked) -> dict[str, Any]:
    """How sharp each head of one attention looks, how far, how alike the heads are, and how well they align words."""
    seen, found = attention(bench, asked, asked.layer)
    return {
        "entropy": entropy(found.values).mean(-1).tolist(),
        "distance": None if found.across else _far(seen, found).mean(-1).tolist(),
        "similarity": similarity(found.values).tolist(),
        "alignment_error": _errors(bench, asked, seen, found),
    }


def _far(seen: Record, found: Signal) -> NDArray[Any]:
    """How far each token looks: in places of a text, or in patches of a picture."""
    if seen.grid is None or found.side != "source":
        return distance(found.values)
    return patch_distance(found.values, seen.grid)


def part(bench: Bench, asked: PartAsked) -> Numbers:
    """One of the arrays that a head's weights are made of, or the weights; (0,) if this attention has no such thing."""
    found = layers(bench, asked)
    name = found[_inside(asked.layer, np.empty(len(found)))].name
    seen = record(bench, asked, BY_HAND, (name,))
    _inside(asked.head, seen.find(name, "attention").values)
    if not any(each.kind == asked.part for each in seen.signals):
        return Numbers(np.zeros(0, dtype=np.float32))
    values = seen.find(name, asked.part).values
    if asked.part == "vector":
        return Numbers(values)
    return Numbers(values[asked.head if len(values) > 1 else 0])


def offered(bench: Bench, asked: ExamplesAsked) -> dict[str, Any]:
    """Test examples of a run, to try it on; where its data are no longer there, what its samples show."""
    run = bench.run(asked.run)
    numbers = isinstance(run.settings.target, Series)
    try:
        found = stretches(run) if numbers else run.tested_on[:MOST_EXAMPLES]
    except UserError:  # the data are no longer there
        found = []
    reads = run.model.reads or numbers
    if not found and isinstance(usual := example_of(run), str):
        found = [Example(usual, "") if reads else Example("", usual)]
    short = [each for each in found if len(each.source) <= LONGEST] or list(found)
    return {"examples": [_offer(each, reads) for each in short[: asked.most]]}


def _offer(example: Example, reads: bool) -> dict[str, Any]:
    """What is read and written; running text is the beginning of its first line."""
    if reads:
        return {"source": example.source, "target": example.target, "gold": bool(example.links)}
    text = next((line for line in example.target.splitlines() if line.strip()), "")[:LONGEST]
    return {"source": text, "target": "", "gold": False}


def _told(layer: Signal, tokens: dict[str, list[str]]) -> dict[str, Any]:
    """One attention, as the page knows it: which part of the model it is, and whose tokens are its rows and columns."""
    stack, *rest = layer.name.split(".")
    rows = "written" if layer.across and layer.side == "target" else layer.side
    return {
        "name": layer.name,
        "stack": stack,
        "block": next((int(each) for each in rest if each.isdecimal()), None),
        "across": layer.across,
        "heads": len(layer.values),
        "size": layer.values.shape[-1],
        "formula": layer.formula,
        "rows": rows,
        "columns": layer.looks_at,
        "cells": [len(tokens[rows]), len(tokens[layer.looks_at or layer.side])],
    }


def _inside(number: int, values: NDArray[Any]) -> int:
    if number >= len(values):
        raise UserError(f"There are {len(values)}, and none has the number {number}.", remedy="They count from 0.")
    return number


def _gold(bench: Bench, asked: AboutInput) -> Example | None:
    """The test example that was asked about, if its true alignment is known and what is written is its reference."""
    run = bench.run(asked.run)
    if run.folder is None or not asked.text or asked.target is None or not run.model.reads:
        return None
    if not getattr(run.recipe.corpus, "kind", "").startswith("pocket"):
        return None
    same = (each for each in run.tested_on[:MOST_EXAMPLES] if (each.source, each.target) == (asked.text, asked.target))
    return next((each for each in same if each.links), None)


def _words(bench: Bench, asked: AboutInput, example: Example) -> dict[str, list[int | None]]:
    """Which word each piece of both sides belongs to; <eos> to none."""
    tokenisers = bench.run(asked.run).model.tokenisers
    return {
        "source_words": [*tokenisers.source.piece_words(example.source, example.source_words), None],
        "target_words": [*tokenisers.target.piece_words(example.target, example.target_words), None],
    }


def _errors(bench: Bench, asked: AboutInput, seen: Record, found: Signal) -> list[float] | None:
    gold = _gold(bench, asked)
    if gold is None or not found.across or seen.written(found) is not seen.tokens["written"]:
        return None
    words, truth = _words(bench, asked, gold), Gold.of(gold.links, gold.possible)
    return [alignment_error(each, words["source_words"], words["target_words"], truth) for each in found.values]
