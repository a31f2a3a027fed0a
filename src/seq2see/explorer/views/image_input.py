"""The image that a question is about: one of the run's own test images, or one that the page has; then changed.

An image's patches can be put in another order and covered, so that one sees what the answer hangs on. A video is a
image here as well: its frames side by side, each of them one patch.
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
from seq2see.explorer.default_inputs import example_of
from seq2see.explorer.inputs import pixels_of
from seq2see.explorer.schemas import ArrayResponse, ImageBase64, Index, PixelsBase64, RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.patch_editing import mask_patches, reorder_patches
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.sources.image_examples import ImageExamples

DEFAULT_GRID = 8
"""Where pixels are not cut into patches, an image is covered and shuffled in so many parts from side to side."""
MAX_PATCHES = 4096
MAX_FILES = 256
"""Images that a video is put together from."""
PatchIndices = Annotated[tuple[Index, ...], Field(max_length=MAX_PATCHES)]


class ImageRequest(RunRequest):
    """A question about an image: one of the test split by its number, or pixels as the model sees them."""

    number: Index = 0
    pixels: PixelsBase64 = ""
    """Bytes in base64, from the top left, all channels of a pixel together; where there are some, `number` is not."""
    order: PatchIndices = ()
    """Which patch stands at each place; none: all where they are."""
    cover: PatchIndices = ()
    """The places that are covered, after patches have been moved."""


class UploadRequest(RunRequest):
    """An image of the user's own, or a video."""

    files: Annotated[tuple[ImageBase64, ...], Field(min_length=1, max_length=MAX_FILES)]
    """One file; of a video an animated image, or an image for each frame, in their order."""


@dataclass(frozen=True)
class PreparedImage:
    """An image as it is looked at, and what is known of it."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    patch_size: int
    """Pixels on each side of a patch."""
    name: str = ""
    truth: str = ""
    video: bool = False
    """Whether its patches are the frames of a video."""

    @property
    def grid(self) -> tuple[int, int]:
        """Patches from top to bottom, and from left to right."""
        return self.pixels.shape[0] // self.patch_size, self.pixels.shape[1] // self.patch_size

    @property
    def model_input(self) -> NDArray[np.uint8]:
        """(height, width, channel), or (frame, height, width, channel): as the model is given it."""
        if not self.video:
            return self.pixels
        height, width, channels = self.pixels.shape
        return self.pixels.reshape(height, width // self.patch_size, self.patch_size, channels).swapaxes(0, 1)


def prepare_image(workspace: Workspace, request: ImageRequest) -> PreparedImage:
    """The image, with its patches moved and covered as asked."""
    run = workspace.run(request.run)
    image, usual = image_settings_of(run), side_by_side(example_of(run))
    found = PreparedImage(usual, _patch_size(image), video=isinstance(image, VideoSource))
    if request.pixels:
        found = replace(found, pixels=_pixels(request.pixels, usual.shape))
    elif request.number or len(test_images(run)):  # where there is none, a gray one stands in
        examples = test_images(run)
        if request.number >= len(examples):
            raise UserError(
                f"There are {len(examples):,} test images, so there is no number {request.number:,}.",
                hint="Choose a smaller number, or give an image of your own.",
            )
        example = examples[request.number]
        pixels = side_by_side(examples.pixels[request.number])
        found = replace(found, pixels=pixels, name=example.source, truth=example.target)
    return replace(
        found,
        pixels=mask_patches(
            reorder_patches(found.pixels, request.order, found.patch_size), request.cover, found.patch_size
        ),
    )


def side_by_side(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(height, width, channel) of an image as it is, and of a video with its frames from left to right."""
    return pixels if pixels.ndim == 3 else np.concatenate(list(pixels), axis=1)


def _patch_size(image: ImageSource) -> int:
    """Pixels on each side of what is covered and moved."""
    if isinstance(image, VideoSource):
        return image.image_size
    return image.embedding.size if image.embedding.size > 1 else max(1, image.image_size // DEFAULT_GRID)


def image_settings_of(run: OpenRun) -> ImageSource:
    """How a run sees images."""
    source = run.settings.source
    if not isinstance(source, ImageSource):
        raise UserError("This model does not look at images.", location=run.name, hint="Choose a run that does.")
    return source


def test_images(run: OpenRun) -> ImageExamples:
    """The run's own test split; real weights have none, nor has a run whose data are no longer there."""
    try:
        found = run.test_examples
    except UserError:
        found = ()
    return found if isinstance(found, ImageExamples) else ImageExamples(np.zeros((0, 1, 1, 1), np.uint8), (), ())


def _pixels(text: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UserError("This is not base64.", location="pixels", hint="Send the bytes of all pixels.") from None
    height, width, channels = shape
    if len(content) != height * width * channels:
        raise UserError(
            f"These are {len(content):,} bytes, and {height} x {width} pixels of {channels} have "
            f"{height * width * channels:,}.",
            location="pixels",
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def image(workspace: Workspace, request: ImageRequest) -> ArrayResponse:
    """(height, width, channel): the image itself, from 0 to 255."""
    return ArrayResponse(prepare_image(workspace, request).pixels)


def upload(workspace: Workspace, request: UploadRequest) -> ArrayResponse:
    """(height, width, channel): files as the model sees them, frames side by side; what is wrong with one is told."""
    run = workspace.run(request.run)
    image_settings_of(run)
    return ArrayResponse(side_by_side(pixels_of(run, *request.files)))


def image_info(workspace: Workspace, request: ImageRequest) -> dict[str, Any]:
    """What is known of an image or a video, and how many there are to choose from."""
    found = prepare_image(workspace, request)
    told = {
        "grid": list(found.grid),
        "patch_size": found.patch_size,
        "video": found.video,
        "name": found.name,
        "truth": found.truth,
    }
    return told | {"count": len(test_images(workspace.run(request.run)))}
