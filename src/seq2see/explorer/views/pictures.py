"""The picture that a question is about: one of the run's own test pictures, or one that the page has; then changed.

A picture's patches can be put in another order and covered, so that one sees what the answer hangs on.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.examples import example_of
from seq2see.explorer.inputs import pixels_of
from seq2see.explorer.messages import MOST_PICTURE_BYTES, AboutRun, Numbers, PictureText, Place
from seq2see.inspection.patches import covered, moved
from seq2see.models.picture_settings import Film, Picture
from seq2see.sources.picture_examples import PictureExamples

CELLS = 8
"""Where pixels are not cut into patches, a picture is covered and shuffled in so many parts from side to side."""
MOST_PATCHES = 4096
Pixels = Annotated[str, Field(max_length=4 * MOST_PICTURE_BYTES // 3 + 4)]
"""Bytes of a picture as a model sees it, in base64."""
Patches = Annotated[tuple[Place, ...], Field(max_length=MOST_PATCHES)]


class PictureAsked(AboutRun):
    """A question about a picture: one of the test split by its number, or pixels as the model sees them."""

    number: Place = 0
    pixels: Pixels = ""
    """Bytes in base64, from the top left, all channels of a pixel together; where there are some, `number` is not."""
    order: Patches = ()
    """Which patch stands at each place; none: all where they are."""
    cover: Patches = ()
    """The places that are covered, after patches have been moved."""


class FileAsked(AboutRun):
    """A picture file of the user's own."""

    file: PictureText


@dataclass(frozen=True)
class Shown:
    """A picture as the model gets it, and what is known of it."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    size: int
    """Pixels on each side of a patch."""
    name: str = ""
    truth: str = ""

    @property
    def grid(self) -> tuple[int, int]:
        """Patches from top to bottom, and from left to right."""
        return self.pixels.shape[0] // self.size, self.pixels.shape[1] // self.size


def shown(bench: Bench, asked: PictureAsked) -> Shown:
    """The picture, with its patches moved and covered as asked."""
    run = bench.run(asked.run)
    picture = settings_of(run)
    size = picture.frontend.size if picture.frontend.size > 1 else max(1, picture.side // CELLS)
    if asked.pixels:
        found = Shown(_pixels(asked.pixels, (picture.side, picture.side, picture.channels)), size)
    elif asked.number == 0 and run.folder is None:  # real weights have no test pictures: a grey one stands in
        found = Shown(example_of(run), size)
    else:
        examples = test_pictures(run)
        if asked.number >= len(examples):
            raise UserError(
                f"There are {len(examples):,} test pictures, so there is no number {asked.number:,}.",
                remedy="Choose a smaller number, or give a picture of your own.",
            )
        example = examples[asked.number]
        found = Shown(examples.pixels[asked.number], size, example.source, example.target)
    changed = covered(moved(found.pixels, asked.order, size), asked.cover, size)
    return Shown(changed, size, found.name, found.truth)


def settings_of(run: OpenRun) -> Picture:
    """How a run sees pictures."""
    source = run.settings.source
    if not isinstance(source, Picture) or isinstance(source, Film):
        raise UserError("This model does not look at pictures.", where=run.name, remedy="Choose a run that does.")
    return source


def test_pictures(run: OpenRun) -> PictureExamples:
    """The run's own test split; real weights have none."""
    found = run.tested_on
    return found if isinstance(found, PictureExamples) else PictureExamples(np.zeros((0, 1, 1, 1), np.uint8), (), ())


def _pixels(text: str, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UserError("This is not base64.", where="pixels", remedy="Send the bytes of all pixels.") from None
    height, width, channels = shape
    if len(content) != height * width * channels:
        raise UserError(
            f"These are {len(content):,} bytes, and {height} x {width} pixels of {channels} have "
            f"{height * width * channels:,}.",
            where="pixels",
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def picture(bench: Bench, asked: PictureAsked) -> Numbers:
    """(height, width, channel): the picture itself, from 0 to 255."""
    return Numbers(shown(bench, asked).pixels)


def upload(bench: Bench, asked: FileAsked) -> Numbers:
    """(height, width, channel): a picture file as the model sees it; what is wrong with a file is told."""
    run = bench.run(asked.run)
    settings_of(run)
    return Numbers(pixels_of(run, asked.file))
