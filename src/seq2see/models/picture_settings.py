"""What a model looks at: pictures, and films, which are pictures one after another."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from seq2see.core.settings import Settings, usually
from seq2see.models.resnet import Features, Pixels, Stem


class Patches(Settings):
    """Pictures are cut into square patches, and each becomes a vector, plus one for where it stands."""

    kind: Literal["patches"] = "patches"
    size: PositiveInt = 4
    """Pixels on each side of a patch."""
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    """How a model is told where a patch stands."""


APART = {
    "patches": "source.frontend.size",
    "stem": "2^source.frontend.depth =",
    "features": "2^(source.frontend.stages - 1) =",
}
"""What decides how many pixels stand from one patch to the next, in the words of a recipe; pixels are one apart."""


class Picture(Settings):
    """A picture that is looked at."""

    kind: Literal["picture"] = "picture"
    side: int = Field(32, ge=1, le=4096)
    """Pixels on each side: what a model learns from has this size, or is brought to it."""
    channels: Literal[1, 3] = 3
    """Numbers of a pixel: 3 are red, green and blue, 1 is grey."""
    frontend: Annotated[Patches | Stem | Features | Pixels, Field(discriminator="kind"), usually("patches")] = Patches()
    """How pixels become vectors."""

    def whole(self, side: int) -> int:
        """The number of pixels nearest to this that is whole patches."""
        return max(1, round(side / self.frontend.size)) * self.frontend.size


class Film(Picture):
    """A film that is watched: pictures one after another."""

    kind: Literal["film"] = "film"  # type: ignore[assignment]
    frames: int = Field(8, ge=2, le=1024)
    """Pictures in a film: of one that has more, as many are taken at equal distances."""

    def whole(self, side: int) -> int:
        """The size that was learnt: what stands where in a frame has weights of its own."""
        return self.side
