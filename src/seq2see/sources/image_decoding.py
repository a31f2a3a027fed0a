"""Image files to pixels, by one strict rule for each of the many ways in which images are stored.

Whatever a file holds, red, green and blue of 8 bits come out, or an error that names the file and the reason:

| in the file | what is done |
|---|---|
| gray, black and white (1 bit) | three equal channels |
| palette | the colors it stands for |
| transparent, however that is written | laid over white |
| 16-bit gray | rounded to 8 bits |
| 16-bit colors, 16-bit gray with transparency | the upper 8 bits: Pillow gives no more |
| CMYK | turned into red, green and blue without a color profile |
| turned by EXIF | turned as its camera says |
| several frames (GIF, WebP, PNG) | the first |

The size is read from the header and refused before anything is decoded: a file of a few kilobytes can claim a
image that fills the memory. What a file is follows from its first bytes, never from its name.
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
from seq2see.sources.data_report import ISSUE_KINDS

if TYPE_CHECKING:
    from PIL.Image import Image, Transpose

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
"""What is decoded. Pillow knows some forty more (TIFF, PSD, EPS, ...), and most of what attackers found was in them."""

MAX_PIXELS = 50_000_000
"""An image may have as many; Pillow by itself refuses from 179 million on."""

MAX_BYTES = 1 << 28
"""A file may have as many (256 MiB): more than MOST_PIXELS take without any packing."""

LARGE_PIXELS = 8_000_000
LARGE_IMAGE_SLOTS = BoundedSemaphore(4)
"""Images of more than LARGE pixels are decoded four at a time, so that threads do not fill the memory with them."""

OTHER_FORMATS: dict[bytes, str] = {
    b"II*\0": "a TIFF image",
    b"MM\0*": "a TIFF image",
    b"8BPS": "a Photoshop image",
    b"\0\0\1\0": "an icon",
    b"\0\0\0\x0cjP": "a JPEG 2000 image",
    b"\xff\x0a": "a JPEG XL image",
    b"%PDF": "a PDF document",
    b"%!PS": "a PostScript document",
    b"PK\3\4": "a zip archive",
    b"\x1f\x8b": "packed by gzip",
    b"version https://git-lfs": "a pointer of Git LFS",
}
"""First bytes of what is often called .png or .jpg and is neither."""

FORMAT_MAGIC_BYTES: dict[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"BM": "BMP", b"RIFF": "WEBP",
}  # fmt: skip
"""First bytes of what is decoded."""

SUFFIX_FORMATS: dict[str, str] = {
    ".png": "PNG", ".apng": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".jpe": "JPEG", ".jfif": "JPEG", ".gif": "GIF",
    ".bmp": "BMP", ".webp": "WEBP",
}  # fmt: skip
"""What a name promises, in small letters."""

EXIF_ORIENTATION = 0x0112
"""The number of EXIF's field that says how the camera was held."""


class ImageError(UserError):
    """An image that cannot be used; `kind` is the kind of the finding."""

    def __init__(self, kind: str, message: str, location: str):
        super().__init__(message, location=location, hint=ISSUE_KINDS[kind].hint)
        self.kind = kind


@dataclass(frozen=True)
class DecodedImage:
    """An image, and what was done to make it one."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    issues: tuple[str, ...]
    """Kinds of findings."""
    size: tuple[int, int]
    """Width and height as stored."""
    format: str

    @property
    def small_message(self) -> str:
        """What there is to say of an image with less than half of the wanted pixels on its shorter side, if it is."""
        width, height = self.size
        return f"It has {width:,} x {height:,} pixels." if 2 * min(self.size) < self.pixels.shape[-2] else ""

    @property
    def told(self) -> tuple[str, ...]:
        """What whoever asks about this image should know; that cameras are turned is nothing new to anybody."""
        kinds = [kind for kind in self.issues if kind != "EXIF rotation"]
        told = [f"{kind}: {ISSUE_KINDS[kind].hint.removeprefix('Nothing to do: ').rstrip('.')}" for kind in kinds]
        return (*told, *([f"{self.small_message.rstrip('.')}, and was enlarged"] if self.small_message else []))


def decode_image(
    source: Path | bytes, location: str = "", image_size: int | None = None, channels: int = 3
) -> NDArray[np.uint8]:
    """The pixels of an image file, as [height, width, channel]; with a `side`, its middle square in that size."""
    return decode_with_issues(source, location, image_size, channels).pixels


def decode_with_issues(
    source: Path | bytes, location: str = "", image_size: int | None = None, channels: int = 3
) -> DecodedImage:
    """The same, with what was done to make it an image."""
    location = location or (str(source) if isinstance(source, Path) else "this image")
    with strict_warnings():
        return decode_bytes(
            read_bytes(source, location) if isinstance(source, Path) else source, location, image_size, channels
        )


@contextmanager
def strict_warnings() -> Iterator[None]:
    """What Pillow only warns of is an error, but for EXIF that cannot be read: that says nothing of the pixels.

    Whoever decodes in several threads wraps this around all of them, because filters belong to the whole process.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="PIL")
        warnings.filterwarnings("ignore", ".*orrupt EXIF", module="PIL")
        yield


def read_bytes(path: Path, location: str) -> bytes:
    """The content of an image file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading from a pipe would wait without end
            message = "This is a folder: name the images in it." if path.is_dir() else "This is no plain file."
            raise ImageError("unreadable image", message, location)
        if status.st_size > MAX_BYTES:
            message = f"The file has {status.st_size:,} bytes, more than {MAX_BYTES:,}."
            raise ImageError("too many pixels", message, location)
        return path.read_bytes()
    except OSError as error:
        message = f"The image cannot be read: {error.strerror or error}."
        raise ImageError("unreadable image", message, location) from None


def decode_bytes(content: bytes, location: str, image_size: int | None = None, channels: int = 3) -> DecodedImage:
    """Decode one image."""
    with open_image(content, location) as image:
        return decode_frame(image, location, image_size, channels)


@contextmanager
def open_image(content: bytes, location: str) -> Iterator[Image]:
    """An image file whose frames are decoded inside; whatever is wrong with them is told as a `ImageError`."""
    from PIL import Image as pillow  # takes a while, and most commands need no images

    if not content:
        raise ImageError("corrupt image", "The file is empty.", location)
    try:
        with pillow.open(BytesIO(content), formats=FORMATS) as image:
            yield image
    except (UserError, MemoryError):
        raise
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        raise ImageError("too many pixels", f"It has more than {MAX_PIXELS:,} pixels.", location) from None
    except pillow.UnidentifiedImageError:
        raise _unsupported_format(content, location) from None
    except Exception as error:  # what a decoder stumbles over in damaged data has a dozen types
        raise ImageError(
            "corrupt image", f"The image is damaged or cut off: {error or type(error)}.", location
        ) from None


def _unsupported_format(content: bytes, location: str) -> ImageError:
    """What a file is that is no image we decode."""
    for magic, name in FORMAT_MAGIC_BYTES.items():
        if content.startswith(magic):
            return ImageError(
                "corrupt image", f"It begins like {name}, but what follows is damaged or cut off.", location
            )
    found = next((name for magic, name in OTHER_FORMATS.items() if content.startswith(magic)), "")
    if content[4:8] == b"ftyp":
        found = f"a {content[8:12].decode('ascii', 'replace').strip()} file (HEIC, AVIF or a video)"
    start = content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if b"<svg" in start:
        found = "an SVG drawing"
    elif start.startswith((b"<!doctype html", b"<html")):
        found = "a web page"
    if not found:
        printable = b"\0" not in content[:1000] and not any(byte < 9 for byte in content[:1000])
        found = "text" if printable else "nothing that is known"
    message = f"This is no image but {found}." if "image" not in found else f"This is {found}, which is not decoded here."
    return ImageError("not an image", message, location)


def decode_frame(image: Image, location: str, image_size: int | None, channels: int) -> DecodedImage:
    """The frame at which an open image stands."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        message = f"It has {width:,} x {height:,} pixels, more than {MAX_PIXELS:,}."
        raise ImageError("too many pixels", message, location)
    issues: list[str] = []
    stored, kept = str(image.format), (width, height)
    # Photos with a preview are one image; and frames are not counted, because there can be a million.
    if stored in ("GIF", "PNG", "WEBP") and getattr(image, "is_animated", False):
        issues.append("multiple frames")
    if image_size:
        image.draft(None, (2 * image_size, 2 * image_size))  # JPEG can leave out what is shrunk away
    with LARGE_IMAGE_SLOTS if image.size[0] * image.size[1] > LARGE_PIXELS else nullcontext():
        image.load()
        transpose = _exif_transpose(image)
        image = _to_supported_mode(image, location, issues)
        if image_size:
            image = center_crop_resize(image, image_size)
    image = _composite_on_white(image)
    if transpose is not None:
        issues.append("EXIF rotation")
        image = image.transpose(transpose)
    pixels = np.array(image.convert("L") if channels == 1 else image)
    return DecodedImage(pixels.reshape(*pixels.shape[:2], channels), tuple(issues), kept, stored.replace("MPO", "JPEG"))


def _exif_transpose(image: Image) -> Transpose | None:
    """How an image must be turned to stand upright, by the field Orientation of EXIF (CIPA DC-008, 4.6.4)."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT, 3: Transpose.ROTATE_180, 4: Transpose.FLIP_TOP_BOTTOM, 5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270, 7: Transpose.TRANSVERSE, 8: Transpose.ROTATE_90,
    }  # fmt: skip
    try:
        found = image.getexif().get(EXIF_ORIENTATION)
    except Exception:  # broken EXIF says nothing, and the pixels are sound
        return None
    return turns.get(found) if isinstance(found, int) else None


def _to_supported_mode(image: Image, location: str, issues: list[str]) -> Image:
    """The image in gray, in red, green and blue, or in these with transparency that is used."""
    from PIL import Image as pillow

    if image.mode.startswith("I;16") or image.mode == "I":
        issues.append("16-bit image")
        values = np.array(image).clip(0, 65535).astype(np.uint32)
        solid = values != image.info.get("transparency", -1)  # the one gray that stands for transparent, if any does
        image = pillow.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
        image.putalpha(pillow.fromarray(solid.astype(np.uint8) * 255))
    if image.mode == "CMYK":
        issues.append("CMYK colors")
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema()[0] != 255:  # many programs write transparency that nothing uses
            issues.append("transparent image")
            return image
    elif image.mode not in ("1", "L", "P", "RGB", "RGBX", "YCbCr"):
        raise ImageError("not an image", f"Images of the mode {image.mode} are not read.", location)
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _composite_on_white(image: Image) -> Image:
    """Red, green and blue; what is transparent lets a white ground through."""
    from PIL import Image as pillow

    if image.mode == "RGBA":
        image = pillow.alpha_composite(pillow.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def center_crop_resize(image: Image, image_size: int) -> Image:
    """The square in the middle of an image, in the wanted size."""
    from PIL.Image import Resampling

    if image.size == (image_size, image_size):
        return image
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) / 2, (height - short) / 2
    # Cutting and shrinking in one step: a strip of 1 x 50,000 pixels is never blown up to its full length.
    return image.resize((image_size, image_size), Resampling.BICUBIC, (left, top, left + short, top + short), reducing_gap=2.0)
