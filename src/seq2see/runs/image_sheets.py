"""The image grids of a run: training images, misclassified images, and attention maps."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Images, Videos
from seq2see.core.devices import device_of
from seq2see.data.examples import ImageExamples
from seq2see.inspection.attention_measures import rollout
from seq2see.inspection.trace import trace
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.task_protocols import TaskResult, batch_of

if TYPE_CHECKING:
    from seq2see.data.examples import Example
    from seq2see.inspection.image_grid import Tile, TileRow
    from seq2see.runs.captioner import Captioner

COLUMNS = 10
"""Images per row."""
MISTAKES, PAIRS, ATTENTION_IMAGES = 40, 6, 8
"""Maximum number of misclassified images, of pairs of confused labels, and of images with attention maps."""
CAPTIONED, WORDS = 6, 12
"""The number of captioned images with attention maps, and the maximum number of words of each."""


def draw_batch(run: RunFolder, batch: Batch, stored: ImageExamples) -> None:
    """`samples/batch.png`: images of the first step, as stored and after augmentation."""
    from seq2see.inspection.image_grid import Tile, TileRow, draw_tiles  # matplotlib only where it is used

    assert isinstance(batch.source, Images)
    indices = batch.indices[: 2 * COLUMNS].tolist()
    if isinstance(batch.source, Videos):
        videos = [TileRow(stored.labels[each], [Tile(frame) for frame in stored.pixels[each]]) for each in indices]
        draw_tiles(videos[:CAPTIONED], run.samples / "batch.png")
        return
    inputs = batch.source.values[: 2 * COLUMNS].permute(0, 2, 3, 1).cpu().numpy()
    rows = []
    for start in range(0, len(indices), COLUMNS):
        columns = slice(start, start + COLUMNS)
        rows.append(
            TileRow("original", [Tile(stored.pixels[index], stored.labels[index]) for index in indices[columns]])
        )
        rows.append(TileRow("model_input", [Tile(each) for each in inputs[columns]]))
    draw_tiles(rows, run.samples / "batch.png")


def draw_mistakes(run: RunFolder, examples: ImageExamples, results: Sequence[TaskResult]) -> None:
    """`eval/mistakes.png` and `eval/confused.png`, if there are misclassified images."""
    from seq2see.inspection.image_grid import TileRow, draw_tiles  # matplotlib only where it is used

    for name in ("mistakes.png", "confused.png"):
        (run.evaluation / name).unlink(missing_ok=True)  # from an earlier evaluation
    rows_of_results = zip(examples.labels, results, strict=True)
    wrong = [index for index, (truth, each) in enumerate(rows_of_results) if truth != each.text]
    wrong.sort(key=lambda index: -results[index].log_probability)
    if not wrong:
        return
    tiles = [_mistake(examples, results, index) for index in wrong[:MISTAKES]]
    rows = [TileRow("" if start else "confident_mistakes", tiles[start : start + COLUMNS]) for start in _starts(tiles)]
    draw_tiles(rows, run.evaluation / "mistakes.png")
    draw_tiles(_confused(examples, results, wrong), run.evaluation / "confused.png")


def _starts(tiles: Sequence[Tile]) -> range:
    return range(0, len(tiles), COLUMNS)


def _mistake(examples: ImageExamples, results: Sequence[TaskResult], index: int) -> Tile:
    from seq2see.inspection.image_grid import Tile

    probability = math.exp(results[index].log_probability)
    return Tile(examples.pixels[index], f"{examples.labels[index]} → {results[index].text}\n{probability:.2f}")


def _confused(examples: ImageExamples, results: Sequence[TaskResult], wrong: Sequence[int]) -> list[TileRow]:
    """A row for each of the most common confusions."""
    from seq2see.inspection.image_grid import Tile, TileRow

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


def draw_patch_attention(
    run: RunFolder, stored: StoredModel, examples: ImageExamples, results: Sequence[TaskResult]
) -> None:
    """`attention/patches.png`: a few images with the attention of each layer, and the rollout of all layers."""
    from seq2see.inspection.image_grid import Tile, TileRow, draw_tiles  # matplotlib only where it is used

    layers = patch_attention(stored, results[:ATTENTION_IMAGES])
    if not layers:
        return
    shown = list(zip(examples.pixels, examples.labels, results[:ATTENTION_IMAGES], strict=False))
    rows = [TileRow("images", [Tile(pixels, f"{label} → {each.text}") for pixels, label, each in shown])]
    for name, maps in layers.items():
        rows.append(
            TileRow(name, [Tile(pixels, heatmap=heatmap) for (pixels, _, _), heatmap in zip(shown, maps, strict=True)])
        )
    draw_tiles(rows, run.path / "attention" / "patches.png")


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


def draw_word_attention(run: RunFolder, model: Captioner, examples: Sequence[Example]) -> None:
    """`attention/regions.png`: a few images, with the attention for each word of their captions."""
    from seq2see.inspection.image_grid import Tile, TileRow, draw_tiles  # matplotlib only where it is used
    from seq2see.runs.captioner import region_attention  # imported here to avoid a circular import

    assert isinstance(examples, ImageExamples)
    rows = []
    captions = model.predict(list(examples.pixels[:CAPTIONED]))
    for pixels, caption in zip(examples.pixels[:CAPTIONED], captions, strict=True):
        words = caption.attention.target[:WORDS]
        tiles = [
            Tile(pixels, word, region_attention(caption.attention, position)) for position, word in enumerate(words)
        ]
        rows.append(TileRow(caption.text, [Tile(pixels), *tiles]))
    draw_tiles(rows, run.path / "attention" / "regions.png")


def draw_frame_attention(run: RunFolder, model: Captioner, examples: Sequence[Example]) -> None:
    """`attention/frames.png`: a few videos, and below each frame the words with the most attention to it."""
    from seq2see.inspection.image_grid import Tile, TileRow, draw_tiles  # matplotlib only where it is used

    assert isinstance(examples, ImageExamples)
    rows = []
    captions = model.predict(list(examples.pixels[:CAPTIONED]))
    for video, caption in zip(examples.pixels[:CAPTIONED], captions, strict=True):
        attention, words = caption.attention, [""] * len(video)
        if not attention.weights:  # a decoder without attention
            return
        for word, weights in zip(attention.target, attention.matrix, strict=True):
            words[int(weights.argmax())] += f"{word} "
        rows.append(TileRow(caption.text, [Tile(*each) for each in zip(video, words, strict=True)]))
    draw_tiles(rows, run.path / "attention" / "frames.png")
