"""Picture files to pixels, by one strict rule for each of the many ways in which pictures are stored.

Whatever a file holds, red, green and blue of 8 bits come out, or an error that names the file and the reason:

| in the file | what is done |
|---|---|
| grey, black and white (1 bit) | three equal channels |
| palette | the colours it stands for |
| transparent, however that is written | laid over white |
| 16-bit grey | rounded to 8 bits |
| 16-bit colours, 16-bit grey with transparency | the upper 8 bits: Pillow gives no more |
| CMYK | turned into red, green and blue without a colour profile |
| turned by EXIF | turned as its camera says |
| several frames (GIF, WebP, PNG) | the first |

The size is read from the header and refused before anything is decoded: a file of a few kilobytes can claim a
picture that fills the memory. What a file is follows from its first bytes, never from its name.
"""

from __future__ import annotations

import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.sources.complaints import KINDS

if TYPE_CHECKING:
    from PIL.Image import Image, Transpose

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
"""What is decoded. Pillow knows some forty more (TIFF, PSD, EPS, ...), and most of what attackers found was in them."""

MOST_PIXELS = 50_000_000
"""A picture may have as many; Pillow by itself refuses from 179 million on."""

MOST_BYTES = 1 << 28
"""A file may have as many (256 MiB): more than MOST_PIXELS take without any packing."""

LARGE = 8_000_000
SOME = BoundedSemaphore(4)
"""Pictures of more than LARGE pixels are decoded four at a time, so that threads do not fill the memory with them."""

KNOWN: dict[bytes, str] = {
    b"II*\0": "a TIFF picture",
    b"MM\0*": "a TIFF picture",
    b"8BPS": "a Photoshop picture",
    b"\0\0\1\0": "an icon",
    b"\0\0\0\x0cjP": "a JPEG 2000 picture",
    b"\xff\x0a": "a JPEG XL picture",
    b"%PDF": "a PDF document",
    b"%!PS": "a PostScript document",
    b"PK\3\4": "a zip archive",
    b"\x1f\x8b": "packed by gzip",
    b"version https://git-lfs": "a pointer of Git LFS",
}
"""First bytes of what is often called .png or .jpg and is neither."""

OURS: dict[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"BM": "BMP", b"RIFF": "WEBP",
}  # fmt: skip
"""First bytes of what is decoded."""

ENDINGS: dict[str, str] = {
    ".png": "PNG", ".apng": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".jpe": "JPEG", ".jfif": "JPEG", ".gif": "GIF",
    ".bmp": "BMP", ".webp": "WEBP",
}  # fmt: skip
"""What a name promises, in small letters."""

ORIENTATION = 0x0112
"""The number of EXIF's field that says how the camera was held."""


class BadPicture(UserError):
    """A picture that cannot be used; `kind` is the kind of the finding."""

    def __init__(self, kind: str, what: str, where: str):
        super().__init__(what, where=where, remedy=KINDS[kind].remedy)
        self.kind = kind


@dataclass(frozen=True)
class Decoded:
    """A picture, and what was done to make it one."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    remarks: tuple[str, ...]
    """Kinds of findings."""
    size: tuple[int, int]
    """Width and height as stored."""
    format: str

    @property
    def small(self) -> str:
        """What there is to say of a picture with less than half of the wanted pixels on its shorter side, if it is."""
        width, height = self.size
        return f"It has {width:,} x {height:,} pixels." if 2 * min(self.size) < self.pixels.shape[-2] else ""

    @property
    def told(self) -> tuple[str, ...]:
        """What whoever asks about this picture should know; that cameras are turned is nothing new to anybody."""
        kinds = [kind for kind in self.remarks if kind != "turned by EXIF"]
        told = [f"{kind}: {KINDS[kind].remedy.removeprefix('Nothing to do: ').rstrip('.')}" for kind in kinds]
        return (*told, *([f"{self.small.rstrip('.')}, and was enlarged"] if self.small else []))


def decode_picture(
    source: Path | bytes, where: str = "", side: int | None = None, channels: int = 3
) -> NDArray[np.uint8]:
    """The pixels of a picture file, as [height, width, channel]; with a `side`, its middle square in that size."""
    return see_picture(source, where, side, channels).pixels


def see_picture(source: Path | bytes, where: str = "", side: int | None = None, channels: int = 3) -> Decoded:
    """The same, with what was done to make it a picture."""
    where = where or (str(source) if isinstance(source, Path) else "this picture")
    with strict_warnings():
        return look_at(read_bytes(source, where) if isinstance(source, Path) else source, where, side, channels)


@contextmanager
def strict_warnings() -> Iterator[None]:
    """What Pillow only warns of is an error, but for EXIF that cannot be read: that says nothing of the pixels.

    Whoever decodes in several threads wraps this around all of them, because filters belong to the whole process.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="PIL")
        warnings.filterwarnings("ignore", ".*orrupt EXIF", module="PIL")
        yield


def read_bytes(path: Path, where: str) -> bytes:
    """The content of a picture file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading from a pipe would wait without end
            what = "This is a folder: name the pictures in it." if path.is_dir() else "This is no plain file."
            raise BadPicture("unreadable picture", what, where)
        if status.st_size > MOST_BYTES:
            what = f"The file has {status.st_size:,} bytes, more than {MOST_BYTES:,}."
            raise BadPicture("too many pixels", what, where)
        return path.read_bytes()
    except OSError as error:
        what = f"The picture cannot be read: {error.strerror or error}."
        raise BadPicture("unreadable picture", what, where) from None


def look_at(content: bytes, where: str, side: int | None = None, channels: int = 3) -> Decoded:
    """Decode one picture."""
    with opened_picture(content, where) as image:
        return decode_frame(image, where, side, channels)


@contextmanager
def opened_picture(content: bytes, where: str) -> Iterator[Image]:
    """A picture file whose frames are decoded inside; whatever is wrong with them is told as a `BadPicture`."""
    from PIL import Image as pillow  # takes a while, and most commands need no pictures

    if not content:
        raise BadPicture("broken picture", "The file is empty.", where)
    try:
        with pillow.open(BytesIO(content), formats=FORMATS) as image:
            yield image
    except (UserError, MemoryError):
        raise
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        raise BadPicture("too many pixels", f"It has more than {MOST_PIXELS:,} pixels.", where) from None
    except pillow.UnidentifiedImageError:
        raise _not_ours(content, where) from None
    except Exception as error:  # what a decoder stumbles over in damaged data has a dozen types
        raise BadPicture(
            "broken picture", f"The picture is damaged or cut off: {error or type(error)}.", where
        ) from None


def _not_ours(content: bytes, where: str) -> BadPicture:
    """What a file is that is no picture we decode."""
    for magic, name in OURS.items():
        if content.startswith(magic):
            return BadPicture(
                "broken picture", f"It begins like {name}, but what follows is damaged or cut off.", where
            )
    found = next((name for magic, name in KNOWN.items() if content.startswith(magic)), "")
    if content[4:8] == b"ftyp":
        found = f"a {content[8:12].decode('ascii', 'replace').strip()} file (HEIC, AVIF or a film)"
    start = content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if b"<svg" in start:
        found = "an SVG drawing"
    elif start.startswith((b"<!doctype html", b"<html")):
        found = "a web page"
    if not found:
        printable = b"\0" not in content[:1000] and not any(byte < 9 for byte in content[:1000])
        found = "text" if printable else "nothing that is known"
    what = (
        f"This is no picture but {found}." if "picture" not in found else f"This is {found}, which is not decoded here."
    )
    return BadPicture("no picture", what, where)


def decode_frame(image: Image, where: str, side: int | None, channels: int) -> Decoded:
    """The frame at which an open picture stands."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        what = f"It has {width:,} x {height:,} pixels, more than {MOST_PIXELS:,}."
        raise BadPicture("too many pixels", what, where)
    remarks: list[str] = []
    stored, kept = str(image.format), (width, height)
    # Photos with a preview are one picture; and frames are not counted, because there can be a million.
    if stored in ("GIF", "PNG", "WEBP") and getattr(image, "is_animated", False):
        remarks.append("several frames")
    if side:
        image.draft(None, (2 * side, 2 * side))  # JPEG can leave out what is shrunk away
    with SOME if image.size[0] * image.size[1] > LARGE else nullcontext():
        image.load()
        turn = _turn(image)
        image = _plain(image, where, remarks)
        if side:
            image = fit(image, side)
    image = _over_white(image)
    if turn is not None:
        remarks.append("turned by EXIF")
        image = image.transpose(turn)
    pixels = np.array(image.convert("L") if channels == 1 else image)
    return Decoded(pixels.reshape(*pixels.shape[:2], channels), tuple(remarks), kept, stored.replace("MPO", "JPEG"))


def _turn(image: Image) -> Transpose | None:
    """How a picture must be turned to stand upright, by the field Orientation of EXIF (CIPA DC-008, 4.6.4)."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT, 3: Transpose.ROTATE_180, 4: Transpose.FLIP_TOP_BOTTOM, 5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270, 7: Transpose.TRANSVERSE, 8: Transpose.ROTATE_90,
    }  # fmt: skip
    try:
        found = image.getexif().get(ORIENTATION)
    except Exception:  # broken EXIF says nothing, and the pixels are sound
        return None
    return turns.get(found) if isinstance(found, int) else None


def _plain(image: Image, where: str, remarks: list[str]) -> Image:
    """The picture in grey, in red, green and blue, or in these with transparency that is used."""
    from PIL import Image as pillow

    if image.mode.startswith("I;16") or image.mode == "I":
        remarks.append("16-bit picture")
        values = np.array(image).clip(0, 65535).astype(np.uint32)
        solid = values != image.info.get("transparency", -1)  # the one grey that stands for transparent, if any does
        image = pillow.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
        image.putalpha(pillow.fromarray(solid.astype(np.uint8) * 255))
    if image.mode == "CMYK":
        remarks.append("CMYK colours")
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema()[0] != 255:  # many programs write transparency that nothing uses
            remarks.append("transparent picture")
            return image
    elif image.mode not in ("1", "L", "P", "RGB", "RGBX", "YCbCr"):
        raise BadPicture("no picture", f"Pictures of the mode {image.mode} are not read.", where)
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _over_white(image: Image) -> Image:
    """Red, green and blue; what is transparent lets a white ground through."""
    from PIL import Image as pillow

    if image.mode == "RGBA":
        image = pillow.alpha_composite(pillow.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def fit(image: Image, side: int) -> Image:
    """The square in the middle of a picture, in the wanted size."""
    from PIL.Image import Resampling

    if image.size == (side, side):
        return image
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) / 2, (height - short) / 2
    # Cutting and shrinking in one step: a strip of 1 x 50,000 pixels is never blown up to its full length.
    return image.resize((side, side), Resampling.BICUBIC, (left, top, left + short, top + short), reducing_gap=2.0)
