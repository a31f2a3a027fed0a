"""The image of a request: a test image of the run or an image of the page, with reordered and masked patches.

Reordered and masked patches show what a prediction depends on. A video is also treated as an image: its frames are side
by side, and each frame is one patch.
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
from seq2see.data.examples import ImageExamples
from seq2see.explorer.inputs import example_of, pixels_of
from seq2see.explorer.schemas import ArrayResponse, ImageBase64, Index, PixelsBase64, RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.patch_editing import mask_patches, reorder_patches
from seq2see.models.image_settings import ImageSource

DEFAULT_GRID = 8
"""For models without patches, the number of masked or reordered squares in each row and column of an image."""
MAX_PATCHES = 4096
MAX_FILES = 256
"""The maximum number of image files of a video."""
PatchIndices = Annotated[tuple[Index, ...], Field(max_length=MAX_PATCHES)]


class ImageRequest(RunRequest):
    """A request about an image: one of the test split by its index, or preprocessed pixels."""

    number: Index = 0
    pixels: PixelsBase64 = ""
    """Bytes in base64 (height, width, channel); if there are any, `number` is ignored."""
    order: PatchIndices = ()
    """The patch at each position; empty for the original order."""
    cover: PatchIndices = ()
    """The positions of masked patches, after the reordering."""


class UploadRequest(RunRequest):
    """An image file or a video of the user."""

    files: Annotated[tuple[ImageBase64, ...], Field(min_length=1, max_length=MAX_FILES)]
    """One file; for a video, an animated image or one image for each frame in order."""


@dataclass(frozen=True)
class PreparedImage:
    """An image with the requested changes, and its metadata."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    patch_size: int
    """The width and height of a patch in pixels."""
    name: str = ""
    truth: str = ""
    video: bool = False
    """Whether its patches are the frames of a video."""

    @property
    def grid(self) -> tuple[int, int]:
        """The number of rows and columns of patches."""
        return self.pixels.shape[0] // self.patch_size, self.pixels.shape[1] // self.patch_size

    @property
    def model_input(self) -> NDArray[np.uint8]:
        """(height, width, channel), or (frame, height, width, channel) for a video: the input of the model."""
        if not self.video:
            return self.pixels
        height, width, channels = self.pixels.shape
        return self.pixels.reshape(height, width // self.patch_size, self.patch_size, channels).swapaxes(0, 1)


def prepare_image(workspace: Workspace, request: ImageRequest) -> PreparedImage:
    """The image of a request, with its patches reordered and masked."""
    run = workspace.run(request.run)
    image, default = image_settings_of(run), side_by_side(example_of(run))
    result = PreparedImage(default, _patch_size(run, image), video=run.task.input_kind == "video")
    if request.pixels:
        result = replace(result, pixels=_pixels(request.pixels, default.shape))
    elif request.number or len(test_images(run)):  # without test images, the default is a gray image
        examples = test_images(run)
        if request.number >= len(examples):
            raise UserError(
                f"There are {len(examples):,} test images, and no image {request.number:,}.",
                hint="Choose a smaller number, or upload an image.",
            )
        example = examples[request.number]
        pixels = side_by_side(examples.pixels[request.number])
        result = replace(result, pixels=pixels, name=example.source, truth=example.target)
    reordered = reorder_patches(result.pixels, request.order, result.patch_size)
    return replace(result, pixels=mask_patches(reordered, request.cover, result.patch_size))


def side_by_side(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(height, width, channel): an image unchanged, or the frames of a video from left to right."""
    return pixels if pixels.ndim == 3 else np.concatenate(list(pixels), axis=1)


def _patch_size(run: OpenRun, image: ImageSource) -> int:
    """The width and height of the squares that can be masked and reordered, in pixels."""
    if run.task.input_kind == "video":
        return image.image_size
    return image.embedding.size if image.embedding.size > 1 else max(1, image.image_size // DEFAULT_GRID)


def image_settings_of(run: OpenRun) -> ImageSource:
    """The settings of the image source of a run."""
    if run.task.input_kind not in ("image", "video"):
        raise UserError("This model does not accept images.", location=run.name, hint="Choose a run with images.")
    source: Any = run.settings.source
    return source


def test_images(run: OpenRun) -> ImageExamples:
    """The test split of a run; empty for pretrained weights and for runs whose data are missing."""
    try:
        examples = run.test_examples
    except UserError:
        examples = ()
    if isinstance(examples, ImageExamples):
        return examples
    return ImageExamples(np.zeros((0, 1, 1, 1), np.uint8), (), ())


def _pixels(text: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UserError("This is not base64.", location="pixels", hint="Send the bytes of all pixels.") from None
    height, width, channels = shape
    if len(content) != height * width * channels:
        raise UserError(
            f"There are {len(content):,} bytes, and {height} x {width} pixels with {channels} channels need "
            f"{height * width * channels:,}.",
            location="pixels",
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def image(workspace: Workspace, request: ImageRequest) -> ArrayResponse:
    """(height, width, channel): the pixels of the image, from 0 to 255."""
    return ArrayResponse(prepare_image(workspace, request).pixels)


def upload(workspace: Workspace, request: UploadRequest) -> ArrayResponse:
    """(height, width, channel): the preprocessed pixels of uploaded files, with frames side by side."""
    run = workspace.run(request.run)
    image_settings_of(run)
    return ArrayResponse(side_by_side(pixels_of(run, *request.files)))


def image_info(workspace: Workspace, request: ImageRequest) -> dict[str, Any]:
    """The metadata of an image or a video, and the number of test images."""
    prepared = prepare_image(workspace, request)
    return {
        "grid": list(prepared.grid),
        "patch_size": prepared.patch_size,
        "video": prepared.video,
        "name": prepared.name,
        "truth": prepared.truth,
        "count": len(test_images(workspace.run(request.run))),
    }
