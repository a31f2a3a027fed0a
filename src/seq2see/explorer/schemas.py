"""The base classes of requests, with strict validation, and array responses.

Every route has a request model, a subclass of `ApiRequest`: unknown fields are errors, and so are values of a wrong
type. Every text and every list has a maximum length, so that the cost of a request is limited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

MAX_CHARACTERS = 20_000
"""The maximum length of a text."""
MAX_SHOWN_TOKENS = 1_000
"""The maximum length of a sequence whose attention maps are displayed."""
MAX_IMAGE_BYTES = 10 << 20
"""The maximum size of an image file."""

MAX_SOUND_BYTES = 10 << 20
"""The maximum size of a sound file."""

RunId = Annotated[str, Field(pattern=r"^r[1-9][0-9]{0,3}$")]
"""The id of a run; never a path."""
InputText = Annotated[str, Field(max_length=MAX_CHARACTERS)]
"""A source text, or a text to continue."""
ImageBase64 = Annotated[str, Field(max_length=-(-MAX_IMAGE_BYTES // 3) * 4)]
"""An image file in base64."""
SoundBase64 = Annotated[str, Field(max_length=-(-MAX_SOUND_BYTES // 3) * 4)]
"""A sound file in base64."""
PixelsBase64 = Annotated[str, Field(max_length=4 * MAX_IMAGE_BYTES // 3 + 4)]
"""The pixels of an image after preprocessing, in base64."""
Index = Annotated[int, Field(ge=0, le=100_000)]
"""The index of a layer, a head, a token or a step, counted from 0."""


class ApiRequest(BaseModel):
    """A request of the page."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class RunRequest(ApiRequest):
    """A request about one run."""

    run: RunId
    """The id of the run, as listed by `runs`."""


class InputRequest(RunRequest):
    """A request about one input of a model: a text, a series, an image or a video."""

    text: InputText = ""
    """The source text, or the text to continue; for forecasting models, the values of a series."""
    number: Index = 0
    """For models of images or videos, the index of one in the test split."""
    pixels: PixelsBase64 = ""
    """For models of images or videos, the pixels of another one; see `vit/image`."""


@dataclass(frozen=True)
class ArrayResponse:
    """An array as response: little-endian float32 in row-major order, with its shape in the header `X-Shape`."""

    array: NDArray[Any]
