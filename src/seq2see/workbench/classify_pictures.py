"""The question "what is to be seen in this picture?": from pictures in folders to a label.

Compare `classify.py`, which asks the same of texts: only what is read differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2see.core.batch import Batch
from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.metrics.classes import Confusion
from seq2see.models.picture_settings import Film, Picture
from seq2see.models.settings import ModelSettings
from seq2see.sequences.pixels import PictureSet, Pixels
from seq2see.sources.captioned_pictures import CaptionedPictures
from seq2see.sources.examples import Example
from seq2see.sources.picture_examples import PictureExamples
from seq2see.workbench.classify import LEARNT_FROM, Classify, draw, table, told
from seq2see.workbench.look import Reading
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.picture_sheets import draw_looks, draw_mistakes
from seq2see.workbench.questions import Seen, Splits, Watch, say_all
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.tokenisers import Tokenisers

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe


class ClassifyPictures(Classify):
    """Name the label of a picture."""

    def learn(self, recipe: Recipe, train: Sequence[Example]) -> Tokenisers:
        """The labels in the order of the alphabet."""
        assert isinstance(recipe.source, Picture)
        if isinstance(train, CaptionedPictures):
            remedy = "Take pictures with labels: corpus.name=cifar10, or your own."
            raise UserError("These pictures have captions, and no labels.", remedy=remedy)
        labels = sorted({example.target for example in train})
        if len(labels) < 2:
            raise UserError(
                f"All training pictures have the label {labels[0]!r}.",
                remedy="Give pictures of other labels too, each in a folder of its own.",
            )
        pixels = Pixels(recipe.source.side, recipe.source.channels)
        return Tokenisers(pixels, pixels, tuple(labels))

    def encode(self, recipe: Recipe, tokenisers: Tokenisers, examples: Sequence[Example]) -> Any:
        """Pixels and the numbers of labels, where the model is."""
        assert isinstance(examples, PictureExamples)
        return PictureSet(examples, tokenisers.labels, pick_device())

    def shown(self, encoded: Any, count: int) -> Any:
        """The first pictures."""
        return encoded.examples[:count]

    def read(self, stored: StoredModel, text: Any) -> Seen:
        """A picture file, or pixels (height, width, channel)."""
        eyes, picture = stored.tokenisers.source, stored.config.model.source
        assert isinstance(eyes, Pixels)
        assert isinstance(picture, Picture)
        pixels, remarks = eyes.look(text)
        height, width = pixels.shape[-2:]
        down, across = picture.whole(height), picture.whole(width)
        if (down, across) != (height, width):
            pixels = eyes.fit(pixels, down, across)
            why = "the size that was learnt" if isinstance(picture, Film) else "which are whole patches"
            remarks += (f"it is seen in {across} x {down} pixels, {why}, not in {width} x {height}",)
        name = "" if isinstance(text, np.ndarray) else str(text)
        return Seen(name, [], False, remarks=remarks, pixels=pixels)

    def judge(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, watch: Watch
    ) -> dict[str, Any]:
        """Accuracy, and for each label precision, recall and F1; every answer goes into a table.

        The recipe may be that of pictures in another size than the model has learnt from.
        """
        scores: dict[str, Any] = {}
        for name, examples in splits.items():
            if name in LEARNT_FROM or not examples:
                continue
            assert isinstance(examples, PictureExamples)
            said = say_all(self, stored, list(examples.pixels), most=1, watch=watch)
            confusion = Confusion.of(stored.tokenisers.labels, examples.labels, [each.text for each in said])
            scores[name] = told(confusion)
            table(run.evaluation / f"{name}-answers.tsv", examples, said, "file")
            if name == "test":
                draw(confusion, run)
                draw_mistakes(run, examples, said)
                draw_looks(run, stored, examples, said)
        return scores


MOST_PATCHES = 128**2
"""Each is compared with every other: ten times as many take a hundred times as long."""


def checked_side(picture: Picture, side: Any) -> int:
    """A size that pictures can be seen in."""
    side = picture.with_(side=side).side
    apart = picture.frontend.size
    if apart > 1 and side > apart * MOST_PATCHES**0.5:
        what = f"{side} x {side} pixels are more than {MOST_PATCHES:,} patches of {apart} x {apart}."
        raise UserError(what, remedy=f"Take a source.side of at most {int(apart * MOST_PATCHES**0.5):,}.")
    return side


def seeing(stored: StoredModel, side: int | None) -> StoredModel:
    """The model, looking at pictures in another size than it has learnt from; None: in its own."""
    eyes = stored.tokenisers.source
    if side is None:
        return stored
    if not isinstance(eyes, Pixels):
        raise UserError("Only pictures have a side.", remedy="Leave out source.side.")
    picture = stored.config.model.source
    assert isinstance(picture, Picture)
    return replace(stored, tokenisers=replace(stored.tokenisers, source=eyes.in_size(checked_side(picture, side))))


def patch_names(settings: ModelSettings, pixels: NDArray[np.uint8]) -> list[str]:
    """What the places of a picture's sequence are called: tokens of no place, and "row,column" of each patch.

    A film has frames, called by their numbers.
    """
    assert isinstance(settings.source, Picture)
    if isinstance(settings.source, Film):
        return [str(number + 1) for number in range(len(pixels))]
    size = settings.source.frontend.size
    down, across = (side // size for side in pixels.shape[1:])
    return ["class", "taught"][: settings.in_front] + [
        f"{row + 1},{column + 1}" for row in range(down) for column in range(across)
    ]


def reading_of_picture(settings: ModelSettings, pixels: NDArray[np.uint8], batch: Batch) -> Reading:
    """A picture, or a film, as a model reads it; only patches have a place in it, and frames lie in one line."""
    names = patch_names(settings, pixels)
    if isinstance(settings.source, Film):
        return Reading(batch, {"source": names}, {"source": [False] * len(names)}, (1, len(names)))
    patches = [name for name in names if "," in name]
    down = int(patches[-1].split(",")[0]) if patches else 0
    grid = (down, len(patches) // down) if patches else None
    special = [bool(patches) and "," not in name for name in names]
    return Reading(batch, {"source": names}, {"source": special}, grid)
