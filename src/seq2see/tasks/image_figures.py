"""The image grids of a run as functions that draw to a path: training images, mistakes, and attention maps."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Images, Videos
from seq2see.core.devices import device_of
from seq2see.data.examples import ImageExamples
from seq2see.inspection.attention_measures import rollout
from seq2see.inspection.trace import trace
from seq2see.tasks.encoder_only import TaskResult, batch_of
from seq2see.tasks.model import Model, TextAttention
from seq2see.tasks.model_folder import StoredModel

if TYPE_CHECKING:
    from seq2see.inspection.attention_plots import Tile, TileRow

COLUMNS = 10
"""Images per row."""
MISTAKES, PAIRS, ATTENTION_IMAGES = 40, 6, 8
"""Maximum number of misclassified images, of pairs of confused labels, and of images with attention maps."""
CAPTIONED, WORDS = 6, 12
"""The number of captioned images with attention maps, and the maximum number of words of each."""


Figure = Callable[[Path], Any]
"""Draws to a path."""


def _figure(rows: list[TileRow]) -> Figure:
    from seq2see.inspection.attention_plots import draw_tiles  # matplotlib only where it is used

    return partial(draw_tiles, rows)


def batch_figure(batch: Batch, stored: ImageExamples) -> Figure:
    """Images of the first step, as stored and after augmentation; or videos, frame by frame."""
    from seq2see.inspection.attention_plots import Tile, TileRow  # matplotlib only where it is used

    assert isinstance(batch.source, Images)
    indices = batch.indices[: 2 * COLUMNS].tolist()
    if isinstance(batch.source, Videos):
        videos = [TileRow(stored.labels[each], [Tile(frame) for frame in stored.pixels[each]]) for each in indices]
        return _figure(videos[:CAPTIONED])
    inputs = batch.source.values[: 2 * COLUMNS].permute(0, 2, 3, 1).cpu().numpy()
    rows = []
    for start in range(0, len(indices), COLUMNS):
        columns = slice(start, start + COLUMNS)
        rows.append(
            TileRow("original", [Tile(stored.pixels[index], stored.labels[index]) for index in indices[columns]])
        )
        rows.append(TileRow("model_input", [Tile(each) for each in inputs[columns]]))
    return _figure(rows)


def mistake_figures(examples: ImageExamples, results: Sequence[TaskResult]) -> dict[str, Figure | None]:
    """`eval/mistakes.png` and `eval/confused.png`; None for both if there are no misclassified images."""
    from seq2see.inspection.attention_plots import TileRow  # matplotlib only where it is used

    rows_of_results = zip(examples.labels, results, strict=True)
    wrong = [index for index, (truth, each) in enumerate(rows_of_results) if truth != each.text]
    wrong.sort(key=lambda index: -results[index].log_probability)
    if not wrong:
        return {"eval/mistakes.png": None, "eval/confused.png": None}
    tiles = [_mistake(examples, results, index) for index in wrong[:MISTAKES]]
    rows = [TileRow("" if start else "confident_mistakes", tiles[start : start + COLUMNS]) for start in _starts(tiles)]
    confused = _confused(examples, results, wrong)
    return {"eval/mistakes.png": _figure(rows), "eval/confused.png": _figure(confused)}


def _starts(tiles: Sequence[Tile]) -> range:
    return range(0, len(tiles), COLUMNS)


def _mistake(examples: ImageExamples, results: Sequence[TaskResult], index: int) -> Tile:
    from seq2see.inspection.attention_plots import Tile  # matplotlib only where it is used

    probability = math.exp(results[index].log_probability)
    return Tile(examples.pixels[index], f"{examples.labels[index]} → {results[index].text}\n{probability:.2f}")


def _confused(examples: ImageExamples, results: Sequence[TaskResult], wrong: Sequence[int]) -> list[TileRow]:
    """A row for each of the most common confusions."""
    from seq2see.inspection.attention_plots import Tile, TileRow  # matplotlib only where it is used

    indices: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index in wrong:
        indices[examples.labels[index], results[index].text].append(index)
    counts = Counter({pair: len(group) for pair, group in indices.items()})
    rows = []
    for (truth, predicted), count in counts.most_common(PAIRS):
        shown = indices[truth, predicted][:COLUMNS]
        tiles = [Tile(examples.pixels[index], f"{math.exp(results[index].log_probability):.2f}") for index in shown]
        rows.append(TileRow(f"{truth} → {predicted}: {count}", tiles))
    return rows


def patch_attention_figure(
    stored: StoredModel, examples: ImageExamples, results: Sequence[TaskResult]
) -> Figure | None:
    """A few images with the attention of each layer, and the rollout of all layers; None without attention."""
    from seq2see.inspection.attention_plots import Tile, TileRow  # matplotlib only where it is used

    layers = patch_attention(stored, results[:ATTENTION_IMAGES])
    if not layers:
        return None
    shown = list(zip(examples.pixels, examples.labels, results[:ATTENTION_IMAGES], strict=False))
    rows = [TileRow("images", [Tile(pixels, f"{label} → {each.text}") for pixels, label, each in shown])]
    for name, maps in layers.items():
        rows.append(
            TileRow(name, [Tile(pixels, heatmap=heatmap) for (pixels, _, _), heatmap in zip(shown, maps, strict=True)])
        )
    return _figure(rows)


@torch.inference_mode()
def patch_attention(stored: StoredModel, results: Sequence[TaskResult]) -> dict[str, NDArray[Any]]:
    """For each layer, and for the rollout of all layers, the attention to each patch: (image, row, column).

    The attention is that of the class token, or the mean of class and distillation token; without them, the mean of all
    patches. Empty if the model has no attention.
    """
    with trace(stored.module) as activations:
        stored.module(batch_of([each.inputs for each in results]).to(device_of(stored.module)))
    layers = [each.values.float().cpu().numpy() for each in activations.of("attention") if not each.is_cross_attention]
    if not layers:
        return {}
    prefix_tokens = stored.config.model.prefix_tokens
    rolled_out = np.stack([rollout([weights[row] for weights in layers]) for row in range(len(results))])
    maps = {f"layer {number}": weights.mean(1) for number, weights in enumerate(layers, 1)} | {"rollout": rolled_out}
    return {name: _grid(weights, prefix_tokens) for name, weights in maps.items()}


def _grid(weights: NDArray[Any], prefix_tokens: int) -> NDArray[Any]:
    """(image, query, key) to (image, row, column): the attention of the pooled tokens to square patches."""
    patches = weights[:, : prefix_tokens or None, prefix_tokens:].mean(1)
    side = math.isqrt(patches.shape[1])
    return patches.reshape(len(patches), side, side)


def word_attention_figure(model: Model, examples: ImageExamples) -> Figure:
    """A few images, with the attention for each word of their captions."""
    from seq2see.inspection.attention_plots import Tile, TileRow  # matplotlib only where it is used

    rows = []
    captions = model.predict(list(examples.pixels[:CAPTIONED]))
    for pixels, caption in zip(examples.pixels[:CAPTIONED], captions, strict=True):
        words = caption.attention.target[:WORDS]
        tiles = [
            Tile(pixels, word, region_attention(caption.attention, position)) for position, word in enumerate(words)
        ]
        rows.append(TileRow(caption.text, [Tile(pixels), *tiles]))
    return _figure(rows)


def frame_attention_figure(model: Model, examples: ImageExamples) -> Figure | None:
    """A few videos, and below each frame the words with the most attention to it; None without attention."""
    from seq2see.inspection.attention_plots import Tile, TileRow  # matplotlib only where it is used

    rows = []
    captions = model.predict(list(examples.pixels[:CAPTIONED]))
    for video, caption in zip(examples.pixels[:CAPTIONED], captions, strict=True):
        attention, words = caption.attention, [""] * len(video)
        if not attention.weights:  # a decoder without attention
            return None
        for word, weights in zip(attention.target, attention.matrix, strict=True):
            words[int(weights.argmax())] += f"{word} "
        rows.append(TileRow(caption.text, [Tile(*each) for each in zip(video, words, strict=True)]))
    return _figure(rows)


def region_attention(attention: TextAttention, position: int) -> NDArray[Any]:
    """(row, column): the attention from one token to the patches, in the last layer, mean of its heads."""
    weights = attention.matrix[position][-_patch_count(attention) :]
    rows = int(attention.source[-1].split(",")[0])
    return weights.reshape(rows, -1)


def _patch_count(attention: TextAttention) -> int:
    return sum("," in name for name in attention.source)
