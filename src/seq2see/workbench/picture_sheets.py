"""The sheets of pictures that a run leaves behind: what the model saw, what it mistook, and where it looked."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Films, Pictures
from seq2see.core.devices import device_of
from seq2see.inspection.rollout import rollout
from seq2see.inspection.trace import trace
from seq2see.sources.picture_examples import PictureExamples
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.questions import Said, batch_of
from seq2see.workbench.run_folder import RunFolder

if TYPE_CHECKING:
    from seq2see.inspection.picture_tiles import Tile, TileRow
    from seq2see.sources.examples import Example
    from seq2see.workbench.caption import Captioner

ACROSS = 10
"""Pictures in a row."""
MISTAKES, PAIRS, LOOKED_AT = 40, 6, 8
"""Most mistakes that are drawn, pairs of labels, and pictures whose attention is drawn."""
DESCRIBED, WORDS = 6, 12
"""Pictures of which it is drawn where the model looked while it wrote, and the most words of each."""


def draw_batch(run: RunFolder, batch: Batch, stored: PictureExamples) -> None:
    """`samples/batch.png`: pictures of the first step, as they are stored and as the model sees them."""
    from seq2see.inspection.picture_tiles import Tile, TileRow, draw_tiles  # matplotlib only where it is used

    assert isinstance(batch.source, Pictures)
    indices = batch.indices[: 2 * ACROSS].tolist()
    if isinstance(batch.source, Films):
        films = [TileRow(stored.labels[each], [Tile(frame) for frame in stored.pixels[each]]) for each in indices]
        draw_tiles(films[:DESCRIBED], run.samples / "batch.png")
        return
    seen = batch.source.values[: 2 * ACROSS].permute(0, 2, 3, 1).cpu().numpy()
    rows = []
    for start in range(0, len(indices), ACROSS):
        some = slice(start, start + ACROSS)
        rows.append(TileRow("as_stored", [Tile(stored.pixels[index], stored.labels[index]) for index in indices[some]]))
        rows.append(TileRow("as_seen", [Tile(each) for each in seen[some]]))
    draw_tiles(rows, run.samples / "batch.png")


def draw_mistakes(run: RunFolder, examples: PictureExamples, said: Sequence[Said]) -> None:
    """`eval/mistakes.png` and `eval/confused.png`; without a mistake there are none."""
    from seq2see.inspection.picture_tiles import TileRow, draw_tiles  # matplotlib only where it is used

    for name in ("mistakes.png", "confused.png"):
        (run.evaluation / name).unlink(missing_ok=True)  # those of an evaluation before this one
    answers = zip(examples.labels, said, strict=True)
    wrong = [place for place, (truth, each) in enumerate(answers) if truth != each.text]
    wrong.sort(key=lambda place: -said[place].log_probability)
    if not wrong:
        return
    tiles = [_mistake(examples, said, place) for place in wrong[:MISTAKES]]
    rows = [TileRow("" if start else "surest_mistakes", tiles[start : start + ACROSS]) for start in _starts(tiles)]
    draw_tiles(rows, run.evaluation / "mistakes.png")
    draw_tiles(_confused(examples, said, wrong), run.evaluation / "confused.png")


def _starts(tiles: Sequence[Tile]) -> range:
    return range(0, len(tiles), ACROSS)


def _mistake(examples: PictureExamples, said: Sequence[Said], place: int) -> Tile:
    from seq2see.inspection.picture_tiles import Tile

    chance = math.exp(said[place].log_probability)
    return Tile(examples.pixels[place], f"{examples.labels[place]} → {said[place].text}\n{chance:.2f}")


def _confused(examples: PictureExamples, said: Sequence[Said], wrong: Sequence[int]) -> list[TileRow]:
    """A row for each of the commonest confusions."""
    from seq2see.inspection.picture_tiles import Tile, TileRow

    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place in wrong:
        places[examples.labels[place], said[place].text].append(place)
    counts = Counter({pair: len(found) for pair, found in places.items()})
    rows = []
    for (truth, answer), count in counts.most_common(PAIRS):
        shown = places[truth, answer][:ACROSS]
        tiles = [Tile(examples.pixels[place], f"{math.exp(said[place].log_probability):.2f}") for place in shown]
        rows.append(TileRow(f"{truth} → {answer}: {count}", tiles))
    return rows


def draw_looks(run: RunFolder, stored: StoredModel, examples: PictureExamples, said: Sequence[Said]) -> None:
    """`attention/patches.png`: a few pictures, where each layer looks, and what reached the answer through all."""
    from seq2see.inspection.picture_tiles import Tile, TileRow, draw_tiles  # matplotlib only where it is used

    looks = looks_at(stored, said[:LOOKED_AT])
    if not looks:
        return
    shown = list(zip(examples.pixels, examples.labels, said[:LOOKED_AT], strict=False))
    rows = [TileRow("pictures", [Tile(pixels, f"{label} → {each.text}") for pixels, label, each in shown])]
    for name, maps in looks.items():
        rows.append(TileRow(name, [Tile(pixels, heat=heat) for (pixels, _, _), heat in zip(shown, maps, strict=True)]))
    draw_tiles(rows, run.path / "attention" / "patches.png")


@torch.inference_mode()
def looks_at(stored: StoredModel, said: Sequence[Said]) -> dict[str, NDArray[Any]]:
    """For each layer, and for all of them together, how much each patch counts in the summary: (picture, down, across).

    A layer is asked where the class token looks, or both tokens on average; without any, where all patches look on
    average. Nothing if the model has no attention.
    """
    with trace(stored.module) as seen:
        stored.module(batch_of([each.seen for each in said]).to(device_of(stored.module)))
    layers = [each.values.float().cpu().numpy() for each in seen.of("attention") if not each.across]
    if not layers:
        return {}
    in_front = stored.config.model.in_front
    through = np.stack([rollout([weights[row] for weights in layers]) for row in range(len(said))])
    found = {f"layer {number}": weights.mean(1) for number, weights in enumerate(layers, 1)} | {"rollout": through}
    return {name: _grid(weights, in_front) for name, weights in found.items()}


def _grid(weights: NDArray[Any], in_front: int) -> NDArray[Any]:
    """(picture, query, key) as (picture, down, across): what the summary takes from each patch of a square picture."""
    taken = weights[:, : in_front or None, in_front:].mean(1)
    side = math.isqrt(taken.shape[1])
    return taken.reshape(len(taken), side, side)


def draw_words(run: RunFolder, model: Captioner, examples: Sequence[Example]) -> None:
    """`attention/regions.png`: a few pictures, and where the model looked while it wrote each word about them."""
    from seq2see.inspection.picture_tiles import Tile, TileRow, draw_tiles  # matplotlib only where it is used
    from seq2see.workbench.caption import region  # here, because it reads pictures as classifiers do

    assert isinstance(examples, PictureExamples)
    rows = []
    for pixels, said in zip(examples.pixels[:DESCRIBED], model.predict(list(examples.pixels[:DESCRIBED])), strict=True):
        words = said.attention.target[:WORDS]
        tiles = [Tile(pixels, word, region(said.attention, place)) for place, word in enumerate(words)]
        rows.append(TileRow(said.text, [Tile(pixels), *tiles]))
    draw_tiles(rows, run.path / "attention" / "regions.png")


def draw_frames(run: RunFolder, model: Captioner, examples: Sequence[Example]) -> None:
    """`attention/frames.png`: a few films, and below each frame the words for which the model looked at it the most."""
    from seq2see.inspection.picture_tiles import Tile, TileRow, draw_tiles  # matplotlib only where it is used

    assert isinstance(examples, PictureExamples)
    rows = []
    for film, said in zip(examples.pixels[:DESCRIBED], model.predict(list(examples.pixels[:DESCRIBED])), strict=True):
        looked, words = said.attention, [""] * len(film)
        if not looked.weights:  # whoever writes from the last state alone looks at no frame
            return
        for word, weights in zip(looked.target, looked.matrix, strict=True):
            words[int(weights.argmax())] += f"{word} "
        rows.append(TileRow(said.text, [Tile(*each) for each in zip(film, words, strict=True)]))
    draw_tiles(rows, run.path / "attention" / "frames.png")
