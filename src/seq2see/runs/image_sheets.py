"""The sheets of images that a run leaves behind: what the model saw, what it mistook, and where it looked."""

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
from seq2see.inspection.rollout import rollout
from seq2see.inspection.trace import trace
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.task_protocols import TaskResult, batch_of
from seq2see.sources.image_examples import ImageExamples

if TYPE_CHECKING:
    from seq2see.inspection.image_grid import Tile, TileRow
    from seq2see.runs.captioner import Captioner
    from seq2see.sources.examples import Example

COLUMNS = 10
"""Images in a row."""
MISTAKES, PAIRS, ATTENTION_IMAGES = 40, 6, 8
"""Most mistakes that are drawn, pairs of labels, and images whose attention is drawn."""
CAPTIONED, WORDS = 6, 12
"""Images of which it is drawn where the model looked while it wrote, and the most words of each."""


def draw_batch(run: RunFolder, batch: Batch, stored: ImageExamples) -> None:
    """`samples/batch.png`: images of the first step, as they are stored and as the model sees them."""
    from seq2see.inspection.image_grid import Tile, TileRow, draw_tiles  # matplotlib only where it is used

    assert isinstance(batch.source, Images)
    indices = batch.indices[: 2 * COLUMNS].tolist()
    if isinstance(batch.source, Videos):
        videos = [TileRow(stored.labels[each], [Tile(frame) for frame in stored.pixels[each]]) for each in indices]
        draw_tiles(videos[:CAPTIONED], run.samples / "batch.png")
        return
    seen = batch.source.values[: 2 * COLUMNS].permute(0, 2, 3, 1).cpu().numpy()
    rows = []
    for start in range(0, len(indices), COLUMNS):
        some = slice(start, start + COLUMNS)
        rows.append(TileRow("original", [Tile(stored.pixels[index], stored.labels[index]) for index in indices[some]]))
        rows.append(TileRow("model_input", [Tile(each) for each in seen[some]]))
    draw_tiles(rows, run.samples / "batch.png")


def draw_mistakes(run: RunFolder, examples: ImageExamples, results: Sequence[TaskResult]) -> None:
    """`eval/mistakes.png` and `eval/confused.png`; without a mistake there are none."""
    from seq2see.inspection.image_grid import TileRow, draw_tiles  # matplotlib only where it is used

    for name in ("mistakes.png", "confused.png"):
        (run.evaluation / name).unlink(missing_ok=True)  # those of an evaluation before this one
    answers = zip(examples.labels, results, strict=True)
    wrong = [place for place, (truth, each) in enumerate(answers) if truth != each.text]
    wrong.sort(key=lambda place: -results[place].log_probability)
    if not wrong:
        return
    tiles = [_mistake(examples, results, place) for place in wrong[:MISTAKES]]
    rows = [TileRow("" if start else "confident_mistakes", tiles[start : start + COLUMNS]) for start in _starts(tiles)]
    draw_tiles(rows, run.evaluation / "mistakes.png")
    draw_tiles(_confused(examples, results, wrong), run.evaluation / "confused.png")


def _starts(tiles: Sequence[Tile]) -> range:
    return range(0, len(tiles), COLUMNS)


def _mistake(examples: ImageExamples, results: Sequence[TaskResult], place: int) -> Tile:
    from seq2see.inspection.image_grid import Tile

    chance = math.exp(results[place].log_probability)
    return Tile(examples.pixels[place], f"{examples.labels[place]} → {results[place].text}\n{chance:.2f}")


def _confused(examples: ImageExamples, results: Sequence[TaskResult], wrong: Sequence[int]) -> list[TileRow]:
    """A row for each of the commonest confusions."""
    from seq2see.inspection.image_grid import Tile, TileRow

    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place in wrong:
        places[examples.labels[place], results[place].text].append(place)
    counts = Counter({pair: len(found) for pair, found in places.items()})
    rows = []
    for (truth, answer), count in counts.most_common(PAIRS):
        shown = places[truth, answer][:COLUMNS]
        tiles = [Tile(examples.pixels[place], f"{math.exp(results[place].log_probability):.2f}") for place in shown]
        rows.append(TileRow(f"{truth} → {answer}: {count}", tiles))
    return rows


def draw_patch_attention(
    run: RunFolder, stored: StoredModel, examples: ImageExamples, results: Sequence[TaskResult]
) -> None:
    """`attention/patches.png`: a few images, where each layer looks, and what reached the answer through all."""
    from seq2see.inspection.image_grid import Tile, TileRow, draw_tiles  # matplotlib only where it is used

    looks = patch_attention(stored, results[:ATTENTION_IMAGES])
    if not looks:
        return
    shown = list(zip(examples.pixels, examples.labels, results[:ATTENTION_IMAGES], strict=False))
    rows = [TileRow("images", [Tile(pixels, f"{label} → {each.text}") for pixels, label, each in shown])]
    for name, maps in looks.items():
        rows.append(
            TileRow(name, [Tile(pixels, heatmap=heatmap) for (pixels, _, _), heatmap in zip(shown, maps, strict=True)])
        )
    draw_tiles(rows, run.path / "attention" / "patches.png")


@torch.inference_mode()
def patch_attention(stored: StoredModel, results: Sequence[TaskResult]) -> dict[str, NDArray[Any]]:
    """For each layer, and for all of them together, how much each patch counts in the summary: (image, down, across).

    A layer is asked where the class token looks, or both tokens on average; without any, where all patches look on
    average. Nothing if the model has no attention.
    """
    with trace(stored.module) as seen:
        stored.module(batch_of([each.inputs for each in results]).to(device_of(stored.module)))
    layers = [each.values.float().cpu().numpy() for each in seen.of("attention") if not each.is_cross_attention]
    if not layers:
        return {}
    prefix_tokens = stored.config.model.prefix_tokens
    through = np.stack([rollout([weights[row] for weights in layers]) for row in range(len(results))])
    found = {f"layer {number}": weights.mean(1) for number, weights in enumerate(layers, 1)} | {"rollout": through}
    return {name: _grid(weights, prefix_tokens) for name, weights in found.items()}


def _grid(weights: NDArray[Any], prefix_tokens: int) -> NDArray[Any]:
    """(image, query, key) as (image, down, across): what the summary takes from each patch of a square image."""
    taken = weights[:, : prefix_tokens or None, prefix_tokens:].mean(1)
    side = math.isqrt(taken.shape[1])
    return taken.reshape(len(taken), side, side)


def draw_word_attention(run: RunFolder, model: Captioner, examples: Sequence[Example]) -> None:
    """`attention/regions.png`: a few images, and where the model looked while it wrote each word about them."""
    from seq2see.inspection.image_grid import Tile, TileRow, draw_tiles  # matplotlib only where it is used
    from seq2see.runs.captioner import region_attention  # here, because it reads images as classifiers do

    assert isinstance(examples, ImageExamples)
    rows = []
    for pixels, results in zip(
        examples.pixels[:CAPTIONED], model.predict(list(examples.pixels[:CAPTIONED])), strict=True
    ):
        words = results.attention.target[:WORDS]
        tiles = [Tile(pixels, word, region_attention(results.attention, place)) for place, word in enumerate(words)]
        rows.append(TileRow(results.text, [Tile(pixels), *tiles]))
    draw_tiles(rows, run.path / "attention" / "regions.png")


def draw_frame_attention(run: RunFolder, model: Captioner, examples: Sequence[Example]) -> None:
    """`attention/frames.png`: a few videos, and below each frame the words for which the model looked at it the most."""
    from seq2see.inspection.image_grid import Tile, TileRow, draw_tiles  # matplotlib only where it is used

    assert isinstance(examples, ImageExamples)
    rows = []
    for video, results in zip(
        examples.pixels[:CAPTIONED], model.predict(list(examples.pixels[:CAPTIONED])), strict=True
    ):
        looked, words = results.attention, [""] * len(video)
        if not looked.weights:  # whoever writes from the last state alone looks at no frame
            return
        for word, weights in zip(looked.target, looked.matrix, strict=True):
            words[int(weights.argmax())] += f"{word} "
        rows.append(TileRow(results.text, [Tile(*each) for each in zip(video, words, strict=True)]))
    draw_tiles(rows, run.path / "attention" / "frames.png")
