"""The picture that a question is about: one of the run's own test pictures, or one that the page has; then changed.

A picture's patches can be put in another order and covered, so that one sees what the answer hangs on. A film is a
picture here as well: its frames side by side, each of them one patch.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.examples import example_of
from seq2see.explorer.inputs import pixels_of
from seq2see.explorer.messages import AboutRun, Numbers, PictureText, Pixels, Place
from seq2see.inspection.patches import covered, moved
from seq2see.models.picture_settings import Film, Picture
from seq2see.sources.picture_examples import PictureExamples

CELLS = 8
"""Where pixels are not cut into patches, a picture is covered and shuffled in so many parts from side to side."""
MOST_PATCHES = 4096
MOST_FILES = 256
"""Pictures that a film is put together from."""
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


class FilesAsked(AboutRun):
    """A picture of the user's own, or a film."""

    files: Annotated[tuple[PictureText, ...], Field(min_length=1, max_length=MOST_FILES)]
    """One file; of a film an animated picture, or a picture for each frame, in their order."""


@dataclass(frozen=True)
class Shown:
    """A picture as it is looked at, and what is known of it."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    size: int
    """Pixels on each side of a patch."""
    name: str = ""
    truth: str = ""
    film: bool = False
    """Whether its patches are the frames of a film."""

    @property
    def grid(self) -> tuple[int, int]:
        """Patches from top to bottom, and from left to right."""
        return self.pixels.shape[0] // self.size, self.pixels.shape[1] // self.size

    @property
    def given(self) -> NDArray[np.uint8]:
        """(height, width, channel), or (frame, height, width, channel): as the model is given it."""
        if not self.film:
            return self.pixels
        height, width, channels = self.pixels.shape
        return self.pixels.reshape(height, width // self.size, self.size, channels).swapaxes(0, 1)


def shown(bench: Bench, asked: PictureAsked) -> Shown:
    """The picture, with its patches moved and covered as asked."""
    run = bench.run(asked.run)
    picture, usual = settings_of(run), side_by_side(example_of(run))
    found = Shown(usual, _patch(picture), film=isinstance(picture, Film))
    if asked.pixels:
        found = replace(found, pixels=_pixels(asked.pixels, usual.shape))
    elif asked.number or len(test_pictures(run)):  # where there is none, a grey one stands in
        examples = test_pictures(run)
        if asked.number >= len(examples):
            raise UserError(
                f"There are {len(examples):,} test pictures, so there is no number {asked.number:,}.",
                remedy="Choose a smaller number, or give a picture of your own.",
            )
        example = examples[asked.number]
        pixels = side_by_side(examples.pixels[asked.number])
        found = replace(found, pixels=pixels, name=example.source, truth=example.target)
    return replace(found, pixels=covered(moved(found.pixels, asked.order, found.size), asked.cover, found.size))


def side_by_side(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(height, width, channel) of a picture as it is, and of a film with its frames from left to right."""
    return pixels if pixels.ndim == 3 else np.concatenate(list(pixels), axis=1)


def _patch(picture: Picture) -> int:
    """Pixels on each side of what is covered and moved."""
    if isinstance(picture, Film):
        return picture.side
    return picture.frontend.size if picture.frontend.size > 1 else max(1, picture.side // CELLS)


def settings_of(run: OpenRun) -> Picture:
    """How a run sees pictures."""
    source = run.settings.source
    if not isinstance(source, Picture):
        raise UserError("This model does not look at pictures.", where=run.name, remedy="Choose a run that does.")
    return source


def test_pictures(run: OpenRun) -> PictureExamples:
    """The run's own test split; real weights have none, nor has a run whose data are no longer there."""
    try:
        found = run.tested_on
    except UserError:
        found = ()
    return found if isinstance(found, PictureExamples) else PictureExamples(np.zeros((0, 1, 1, 1), np.uint8), (), ())


def _pixels(text: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
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


def upload(bench: Bench, asked: FilesAsked) -> Numbers:
    """(height, width, channel): files as the model sees them, frames side by side; what is wrong with one is told."""
    run = bench.run(asked.run)
    settings_of(run)
    return Numbers(side_by_side(pixels_of(run, *asked.files)))


def about(bench: Bench, asked: PictureAsked) -> dict[str, Any]:
    """What is known of a picture or a film, and how many there are to choose from."""
    found = shown(bench, asked)
    told = {"grid": list(found.grid), "patch": found.size, "film": found.film, "name": found.name, "truth": found.truth}
    return told | {"count": len(test_pictures(bench.run(asked.run)))}
