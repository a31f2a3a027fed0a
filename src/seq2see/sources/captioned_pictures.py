"""Pictures with captions: what is to be seen in each, in several people's words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import overload

from seq2see.sources.examples import Example
from seq2see.sources.picture_examples import PictureExamples


@dataclass(frozen=True, eq=False)
class CaptionedPictures(PictureExamples):
    """A split of pictures with captions. As an `Example` a picture is its name and its captions, the first one first.

    Whoever learns from them takes one caption at a time; whoever is judged by them may say any of them.
    """

    captions: tuple[tuple[str, ...], ...] = ()
    """All captions of each picture; its label is the first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.captions) != len(self.labels) or not all(self.captions):
            raise ValueError("every picture needs captions")

    @overload
    def __getitem__(self, place: int) -> Example: ...
    @overload
    def __getitem__(self, place: slice) -> CaptionedPictures: ...
    def __getitem__(self, place: int | slice) -> Example | CaptionedPictures:
        if isinstance(place, slice):
            return CaptionedPictures(self.pixels[place], self.labels[place], self.names[place], self.captions[place])
        return replace(super().__getitem__(place), answers=self.captions[place])


def with_captions(examples: PictureExamples, captions: dict[str, tuple[str, ...]]) -> CaptionedPictures:
    """The same pictures with the captions that belong to their names."""
    found = tuple(captions[name] for name in examples.names)
    return CaptionedPictures(examples.pixels, tuple(each[0] for each in found), examples.names, found)
