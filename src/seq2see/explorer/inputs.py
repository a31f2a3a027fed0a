"""Default inputs of the views: an example from the samples of the run, or a fixed text.

Model inputs from requests: texts and image files. A text in a request is never a file name.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.data.image_dataset import ImageProcessor, VideoProcessor
from seq2see.data.readers.image_files import decode_image
from seq2see.data.readers.video_decoding import load_frames
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS
from seq2see.explorer.workspace import OpenRun
from seq2see.runs.run_folder import read_table


def example_of(run: OpenRun, text: str = "") -> Any:
    """The input of a model: the text of the user if there is one, else the first text of the samples.

    For models of images or videos it is a gray image.
    """
    if run.task.reads_files:
        if text:
            reject_image_model(run)
        return run.task.example_input(run.settings)
    return text or next((_unescape(row[0]) for row in _samples(run)), run.task.example_input(run.settings))


def first_example(run: OpenRun) -> dict[str, str] | None:
    """The first sample of the run (a text of the validation split and its reference) or the default; None for images.

    Samples name images by their files, which are no input texts; so an image has only a target, its caption.
    """
    has_images = run.task.reads_files
    if has_images and not run.task.generates:
        return None
    for text, target, *_ in _samples(run):
        return {"text": "" if has_images else _unescape(text), "target": _unescape(target)}
    return None if has_images else {"text": example_of(run), "target": ""}


def _samples(run: OpenRun) -> Iterator[list[str]]:
    """The samples of a run (source, reference, output), the newest file first.

    The files are read lazily; damaged and missing files are skipped.
    """
    for path in sorted(run.folder.samples.glob("step-*.tsv"), reverse=True) if run.folder else ():
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            yield from (row for row in read_table(path, 3) if row[0].strip())


def _unescape(text: str) -> str:
    """The original text of a table cell, with its line breaks and tabs."""
    return text.replace("⏎", "\n").replace("⇥", "\t")


def reject_image_model(run: OpenRun) -> None:
    """Reject image models: in Python, their text input is a file name, and a request must not name files."""
    if run.task.reads_files:
        raise UserError("This model needs an image as input.", location=run.name, hint="Give an image.")


def require_text_model(run: OpenRun) -> None:
    """Reject models of images and of series."""
    reject_image_model(run)
    if run.task.input_kind != "text":
        kind = run.task.input_kind
        raise UserError(
            f"The input of this model is a {kind}.", location=run.name, hint="Choose a run that reads texts."
        )


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
