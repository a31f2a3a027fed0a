"""What a question gives a model to read. A text never names a file, also where models look at images."""

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
    """In Python a text given to a model of images is the name of a file; from the page nothing names a file."""
    if isinstance(run.settings.source, ImageSource):
        raise UserError("This model looks at images.", location=run.name, hint="Give an image.")


def require_text_model(run: OpenRun) -> None:
    """What is asked about words is asked of models that read or write them, and not of those of numbers."""
    reject_image_model(run)
    if isinstance(run.settings.target, Series):
        raise UserError("This model goes on from numbers.", location=run.name, hint="Choose a run that reads texts.")


def check_length(count: int, side: str = "text") -> None:
    """Matrices of more rows and columns than this are no use to anybody."""
    if count > MAX_SHOWN_TOKENS:
        raise UserError(
            f"The {side} has {count:,} tokens, and what happens inside is shown of up to {MAX_SHOWN_TOKENS:,}.",
            hint="Give a shorter text.",
        )


def pixels_of(run: OpenRun, *files: str) -> NDArray[np.uint8]:
    """(height, width, channel): an image file in base64, as this run's model looks at it.

    Of a model of videos (frame, height, width, channel): an animated image, or an image for each frame.
    """
    processor: Any = run.model.tokenizers.source
    if not isinstance(processor, ImageProcessor):
        raise UserError("This model does not look at images.", location=run.name, hint="Give it a text.")
    contents = [_content(each) for each in files]
    if isinstance(processor, VideoProcessor):
        return load_frames(contents, processor.image_size, processor.channels, processor.frames)
    if len(contents) > 1:
        raise UserError(f"These are {len(contents)} files, and an image is one.", location=run.name, hint="Choose one.")
    return decode_image(contents[0], "image", processor.image_size, processor.channels)


def _content(file: str) -> bytes:
    try:
        return base64.b64decode(file, validate=True)
    except ValueError:
        raise UserError("This is not base64.", location="image", hint="Send the bytes of an image file.") from None
