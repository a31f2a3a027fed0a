"""What travels between page and server: questions that are checked strictly, and answers as JSON or as numbers.

Every route has a question of its own, a subclass of `ApiRequest`: a field that it does not know is refused, and so is a
number in the place of a text. Every text and every list has a greatest length, so that what a question can cost is
known before it is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

MAX_CHARACTERS = 20_000
"""Of one text."""
MAX_SHOWN_TOKENS = 1_000
"""Of a text whose attention is shown: a matrix has as many rows and columns."""
MAX_IMAGE_BYTES = 10 << 20
"""Of one image file."""

RunId = Annotated[str, Field(pattern=r"^r[1-9][0-9]{0,3}$")]
"""What a run is called between page and server; never a path."""
InputText = Annotated[str, Field(max_length=MAX_CHARACTERS)]
"""A text to be read or gone on from."""
ImageBase64 = Annotated[str, Field(max_length=-(-MAX_IMAGE_BYTES // 3) * 4)]
"""An image file in base64."""
PixelsBase64 = Annotated[str, Field(max_length=4 * MAX_IMAGE_BYTES // 3 + 4)]
"""Bytes of an image as a model sees it, in base64."""
Index = Annotated[int, Field(ge=0, le=100_000)]
"""The number of a layer, a head, a token, a step: they are counted from 0."""


class ApiRequest(BaseModel):
    """A question of the page."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class RunRequest(ApiRequest):
    """A question about one run."""

    run: RunId
    """Its id, as `runs` lists it."""


class InputRequest(RunRequest):
    """A question about what a model makes of one thing that it is given: a text, numbers, an image or a video."""

    text: InputText = ""
    """What it reads, or goes on from; of a model of numbers, a series as it is typed."""
    number: Index = 0
    """Of a model of images or videos: one of its own test split."""
    pixels: PixelsBase64 = ""
    """The same: an image as the page has it; see `vit/image`."""


@dataclass(frozen=True)
class ArrayResponse:
    """A matrix as an answer: little-endian float32, row by row, with its shape in the header `X-Shape`."""

    array: NDArray[Any]
