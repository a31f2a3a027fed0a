"""What a question gives a model to read. A text never names a file, also where models look at pictures."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.explorer.bench import OpenRun
from seq2see.explorer.messages import MOST_TOKENS
from seq2see.models.picture_settings import Picture
from seq2see.models.settings import Series
from seq2see.sequences.films import FilmPixels
from seq2see.sequences.pixels import Pixels
from seq2see.sources.films import see_frames
from seq2see.sources.pictures import decode_picture


def refuse_text(run: OpenRun) -> None:
    """In Python a text given to a model of pictures is the name of a file; from the page nothing names a file."""
    if isinstance(run.settings.source, Picture):
        raise UserError("This model looks at pictures.", where=run.name, remedy="Give a picture.")


def refuse_wordless(run: OpenRun) -> None:
    """What is asked about words is asked of models that read or write them, and not of those of numbers."""
    refuse_text(run)
    if isinstance(run.settings.target, Series):
        raise UserError("This model goes on from numbers.", where=run.name, remedy="Choose a run that reads texts.")


def refuse_long(count: int, side: str = "text") -> None:
    """Matrices of more rows and columns than this are no use to anybody."""
    if count > MOST_TOKENS:
        raise UserError(
            f"The {side} has {count:,} tokens, and what happens inside is shown of up to {MOST_TOKENS:,}.",
            remedy="Give a shorter text.",
        )


def pixels_of(run: OpenRun, *files: str) -> NDArray[np.uint8]:
    """(height, width, channel): a picture file in base64, as this run's model looks at it.

    Of a model of films (frame, height, width, channel): an animated picture, or a picture for each frame.
    """
    eyes: Any = run.model.tokenisers.source
    if not isinstance(eyes, Pixels):
        raise UserError("This model does not look at pictures.", where=run.name, remedy="Give it a text.")
    contents = [_content(each) for each in files]
    if isinstance(eyes, FilmPixels):
        return see_frames(contents, eyes.side, eyes.channels, eyes.frames)
    if len(contents) > 1:
        raise UserError(f"These are {len(contents)} files, and a picture is one.", where=run.name, remedy="Choose one.")
    return decode_picture(contents[0], "picture", eyes.side, eyes.channels)


def _content(file: str) -> bytes:
    try:
        return base64.b64decode(file, validate=True)
    except ValueError:
        raise UserError("This is not base64.", where="picture", remedy="Send the bytes of a picture file.") from None
