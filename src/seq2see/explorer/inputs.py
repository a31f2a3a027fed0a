"""Model inputs from requests: texts and image files. A text in a request is never a file name."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS
from seq2see.explorer.workspace import OpenRun
from seq2see.models.image_settings import ImageSource
from seq2see.models.settings import Series
from seq2see.sequences.image_dataset import ImageProcessor
from seq2see.sequences.video_processor import VideoProcessor
from seq2see.sources.image_decoding import decode_image
from seq2see.sources.video_decoding import load_frames


def reject_image_model(run: OpenRun) -> None:
    """Reject image models: in Python, their text input is a file name, and a request must not name files."""
    if isinstance(run.settings.source, ImageSource):
        raise UserError("This model needs an image as input.", location=run.name, hint="Give an image.")


def require_text_model(run: OpenRun) -> None:
    """Reject models of images and of series."""
    reject_image_model(run)
    if isinstance(run.settings.target, Series):
        raise UserError("This model forecasts series.", location=run.name, hint="Choose a run that reads texts.")


def check_length(count: int, side: str = "text") -> None:
    """Reject sequences with more than `MAX_SHOWN_TOKENS` tokens."""
    if count > MAX_SHOWN_TOKENS:
        raise UserError(
            f"The {side} has {count:,} tokens, and the maximum of this view is {MAX_SHOWN_TOKENS:,}.",
            hint="Give a shorter text.",
        )


def pixels_of(run: OpenRun, *files: str) -> NDArray[np.uint8]:
    """(height, width, channel): an image file in base64, resized for the model of this run.

    For a video model (frame, height, width, channel): an animated image, or one image for each frame.
    """
    processor: Any = run.model.tokenizers.source
    if not isinstance(processor, ImageProcessor):
        raise UserError("This model does not accept images.", location=run.name, hint="Give a text.")
    contents = [_content(each) for each in files]
    if isinstance(processor, VideoProcessor):
        return load_frames(contents, processor.image_size, processor.channels, processor.frames)
    if len(contents) > 1:
        raise UserError(
            f"There are {len(contents)} files, and this model needs one image.", location=run.name, hint="Choose one."
        )
    return decode_image(contents[0], "image", processor.image_size, processor.channels)


def _content(file: str) -> bytes:
    try:
        return base64.b64decode(file, validate=True)
    except ValueError:
        raise UserError("This is not base64.", location="image", hint="Send the bytes of an image file.") from None
