"""Image files to pixels: decoding one, with one strict rule for each kind of image, and loading many in parallel.

The result is always 8-bit RGB (or gray), or an error with the file and the reason:

| in the file | conversion |
|---|---|
| gray, black and white (1 bit) | three equal channels |
| palette | the colors of the palette |
| transparency of any kind | composited on white |
| 16-bit gray | rounded to 8 bits |
| 16-bit colors, 16-bit gray with transparency | the upper 8 bits, because Pillow decodes no more |
| CMYK | converted to RGB without a color profile |
| orientation in EXIF | rotated or mirrored accordingly |
| several frames (GIF, WebP, PNG) | the first frame |

The size is checked in the header before anything is decoded: a file of a few kilobytes can claim an image that fills
the memory. The format of a file is detected from its first bytes, never from its name.

Many files become one array. Pillow releases the global interpreter lock while it decodes, so files are decoded by
several threads; each image is resized immediately, so that only a few images are in memory in their full size. Issues
are added to the report in the order of the files, independent of the scheduling of the threads.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import BoundedSemaphore
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image as pillow
from PIL.Image import Image, Resampling, Transpose

from seq2see.core.errors import UserError
from seq2see.data.examples import ImageExamples
from seq2see.data.progress import progress_bar
from seq2see.data.readers.data_report import ISSUE_KINDS, DataReport, Location

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
"""The supported formats. Pillow has about forty more (TIFF, PSD, EPS, ...), which had most of its vulnerabilities."""

MAX_PIXELS = 50_000_000
"""The most pixels of an image; the limit of Pillow itself is 179 million."""

MAX_BYTES = 1 << 28
"""The largest size of a file (256 MiB): more than an uncompressed image of MAX_PIXELS has."""

LARGE_PIXELS = 8_000_000
LARGE_IMAGE_SLOTS = BoundedSemaphore(4)
"""Images of more than LARGE_PIXELS are decoded four at a time, so that the threads do not fill the memory."""

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
"""The first bytes of other formats that often have the suffix .png or .jpg."""

FORMAT_MAGIC_BYTES: dict[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"BM": "BMP", b"RIFF": "WEBP",
}  # fmt: skip
"""The first bytes of the supported formats."""

SUFFIX_FORMATS: dict[str, str] = {
    ".png": "PNG", ".apng": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".jpe": "JPEG", ".jfif": "JPEG", ".gif": "GIF",
    ".bmp": "BMP", ".webp": "WEBP",
}  # fmt: skip
"""The format of each suffix, in lower case."""

EXIF_ORIENTATION = 0x0112
"""The EXIF tag of the orientation of the camera."""


class ImageError(UserError):
    """The error for an image that cannot be used; `kind` is the kind of the issue."""

    def __init__(self, kind: str, message: str, location: str):
        super().__init__(message, location=location, hint=ISSUE_KINDS[kind].hint)
        self.kind = kind


@dataclass(frozen=True)
class DecodedImage:
    """A decoded image, and the conversions that were necessary."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    issues: tuple[str, ...]
    """The kinds of the issues."""
    size: tuple[int, int]
    """Width and height in the file."""
    format: str

    @property
    def small_message(self) -> str:
        """The message for an image whose shorter side is less than half of its decoded size; else an empty string."""
        width, height = self.size
        return f"It has {width:,} x {height:,} pixels." if 2 * min(self.size) < self.pixels.shape[-2] else ""

    @property
    def messages(self) -> tuple[str, ...]:
        """The warnings for a user who predicts with this image; a rotation is too common for a warning."""
        kinds = [kind for kind in self.issues if kind != "EXIF rotation"]
        messages = [f"{kind}: {ISSUE_KINDS[kind].hint.removeprefix('Nothing to do: ').rstrip('.')}" for kind in kinds]
        return (*messages, *([f"{self.small_message.rstrip('.')}, and was enlarged"] if self.small_message else []))


def decode_image(
    source: Path | bytes, location: str = "", image_size: int | None = None, channels: int = 3
) -> NDArray[np.uint8]:
    """The pixels of an image file as [height, width, channel]; with an `image_size`, its center square, resized."""
    return decode_with_issues(source, location, image_size, channels).pixels


def decode_with_issues(
    source: Path | bytes, location: str = "", image_size: int | None = None, channels: int = 3
) -> DecodedImage:
    """The decoded image with its issues; parameters as for `decode_image`."""
    location = location or (str(source) if isinstance(source, Path) else "this image")
    with strict_warnings():
        return decode_bytes(
            read_bytes(source, location) if isinstance(source, Path) else source, location, image_size, channels
        )


@contextmanager
def strict_warnings() -> Iterator[None]:
    """Turns the warnings of Pillow into errors, except for corrupt EXIF, which does not affect the pixels.

    With several threads this context encloses all of them, because warning filters belong to the whole process.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="PIL")
        warnings.filterwarnings("ignore", ".*orrupt EXIF", module="PIL")
        yield


def read_bytes(path: Path, location: str) -> bytes:
    """The content of an image file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading from a pipe could block forever
            message = "This is a folder: give the images in it." if path.is_dir() else "This is not a regular file."
            raise ImageError("unreadable image", message, location)
        if status.st_size > MAX_BYTES:
            message = f"The file has {status.st_size:,} bytes, more than {MAX_BYTES:,}."
            raise ImageError("too many pixels", message, location)
        return path.read_bytes()
    except OSError as error:
        message = f"The image cannot be read: {error.strerror or error}."
        raise ImageError("unreadable image", message, location) from None


def decode_bytes(content: bytes, location: str, image_size: int | None = None, channels: int = 3) -> DecodedImage:
    """Decode one image from memory."""
    with open_image(content, location) as image:
        return decode_frame(image, location, image_size, channels)


@contextmanager
def open_image(content: bytes, location: str) -> Iterator[Image]:
    """An open image, whose frames are decoded in this context; every decoding error becomes an `ImageError`."""
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
    except Exception as error:  # decoders raise many types for damaged data
        message = f"The image is damaged or truncated: {error or type(error)}."
        raise ImageError("corrupt image", message, location) from None


OTHER_CONTAINERS = {b"WAVE": "a recording (WAV)", b"AVI ": "a video (AVI)"}
"""What a RIFF file has in place of an image."""


def _unsupported_format(content: bytes, location: str) -> ImageError:
    """The error for a file that is not an image of a supported format."""
    container = content[8:12] if content.startswith(b"RIFF") else b""
    for magic, name in FORMAT_MAGIC_BYTES.items():
        if content.startswith(magic) and container not in OTHER_CONTAINERS:
            message = f"It has the first bytes of {name}, but the rest is damaged or truncated."
            return ImageError("corrupt image", message, location)
    found = next((name for magic, name in OTHER_FORMATS.items() if content.startswith(magic)), "")
    found = OTHER_CONTAINERS.get(container, found)
    if content[4:8] == b"ftyp":
        found = f"a {content[8:12].decode('ascii', 'replace').strip()} file (HEIC, AVIF or a video)"
    start = content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if b"<svg" in start:
        found = "an SVG drawing"
    elif start.startswith((b"<!doctype html", b"<html")):
        found = "a web page"
    if not found:
        printable = b"\0" not in content[:1000] and not any(byte < 9 for byte in content[:1000])
        found = "text" if printable else "an unknown format"
    is_image = "image" in found
    message = f"This is {found}, which is not supported." if is_image else f"This is not an image but {found}."
    return ImageError("not an image", message, location)


def decode_frame(image: Image, location: str, image_size: int | None, channels: int) -> DecodedImage:
    """Decode the current frame of an open image."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        message = f"It has {width:,} x {height:,} pixels, more than {MAX_PIXELS:,}."
        raise ImageError("too many pixels", message, location)
    issues: list[str] = []
    stored_format, stored_size = str(image.format), (width, height)
    # Other formats have several frames for previews; and frames are not counted, because there can be a million.
    if stored_format in ("GIF", "PNG", "WEBP") and getattr(image, "is_animated", False):
        issues.append("multiple frames")
    if image_size:
        image.draft(None, (2 * image_size, 2 * image_size))  # JPEG can be decoded at a reduced size
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
    pixels = pixels.reshape(*pixels.shape[:2], channels)
    return DecodedImage(pixels, tuple(issues), stored_size, stored_format.replace("MPO", "JPEG"))


def _exif_transpose(image: Image) -> Transpose | None:
    """The transposition to the upright orientation, by the EXIF tag Orientation (CIPA DC-008, 4.6.4)."""
    transposes = {
        2: Transpose.FLIP_LEFT_RIGHT, 3: Transpose.ROTATE_180, 4: Transpose.FLIP_TOP_BOTTOM, 5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270, 7: Transpose.TRANSVERSE, 8: Transpose.ROTATE_90,
    }  # fmt: skip
    try:
        orientation = image.getexif().get(EXIF_ORIENTATION)
    except Exception:  # corrupt EXIF does not affect the pixels
        return None
    return transposes.get(orientation) if isinstance(orientation, int) else None


def _to_supported_mode(image: Image, location: str, issues: list[str]) -> Image:
    """The image in the mode L or RGB, or in RGBA if some pixels are transparent."""
    if image.mode.startswith("I;16") or image.mode == "I":
        issues.append("16-bit image")
        values = np.array(image).clip(0, 65535).astype(np.uint32)
        opaque = values != image.info.get("transparency", -1)  # one gray value may mean transparent
        image = pillow.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
        image.putalpha(pillow.fromarray(opaque.astype(np.uint8) * 255))
    if image.mode == "CMYK":
        issues.append("CMYK colors")
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema()[0] != 255:  # many programs write an alpha channel of 255
            issues.append("transparent image")
            return image
    elif image.mode not in ("1", "L", "P", "RGB", "RGBX", "YCbCr"):
        raise ImageError("not an image", f"The image mode {image.mode} is not supported.", location)
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _composite_on_white(image: Image) -> Image:
    """The image in RGB, with transparent pixels composited on a white background."""
    if image.mode == "RGBA":
        image = pillow.alpha_composite(pillow.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def center_crop_resize(image: Image, image_size: int) -> Image:
    """The center square of an image, resized to `image_size`."""
    if image.size == (image_size, image_size):
        return image
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) / 2, (height - short) / 2
    # Crop and resize in one step: a strip of 1 x 50,000 pixels is never enlarged to its full length.
    box = (left, top, left + short, top + short)
    return image.resize((image_size, image_size), Resampling.BICUBIC, box, reducing_gap=2.0)


MAX_WORKERS = 16
MAX_PENDING = 1024
"""The number of decoded images that may be queued in memory."""
ITEMS_PER_TASK = 16
"""The number of images in one task of a thread, if there are many images."""

ISSUE_MESSAGES = {
    "EXIF rotation": "It is rotated or mirrored, according to EXIF.",
    "transparent image": "Parts of it are transparent.",
    "multiple frames": "It has several frames.",
    "16-bit image": "Its gray has 16 bits.",
    "single frame": "It has one frame.",
    "CMYK colors": "Its colors are cyan, magenta, yellow and black (CMYK).",
}
"""The message of each kind of issue that decoding reports."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ImageItem:
    """An image to be read: its file, its label, and the origin of the label."""

    path: Path
    label: str
    name: str
    """The name of the image in reports."""
    location: Location
    """The file itself, or the line of the list that names it."""


@dataclass(frozen=True)
class LoadedImages:
    """The images of a split, each with two fingerprints."""

    examples: ImageExamples
    file_digests: tuple[str, ...]
    """Fingerprints of the file contents, which do not depend on the image size."""
    pixel_digests: tuple[str, ...]
    """Fingerprints of the resized pixels, which are equal for copies in another format."""


ItemDecoder = Callable[[ImageItem], tuple[DecodedImage, str]]
"""Returns the decoded and resized image of an item and the fingerprint of its file; it may raise `ImageError`."""


def digest(content: bytes | NDArray[np.uint8]) -> str:
    """A short fingerprint of bytes or pixels."""
    return hashlib.blake2b(content if isinstance(content, bytes) else content.data, digest_size=16).hexdigest()


def read_item(item: ImageItem) -> bytes:
    """The content of the file of an image."""
    return read_bytes(item.path, item.name)


def load_images(
    items: Sequence[ImageItem],
    image_size: int,
    channels: int,
    report: DataReport,
    read_content: Callable[[ImageItem], bytes] = read_item,
) -> LoadedImages:
    """Load all images; invalid ones are rejected with an issue in the report."""

    def decode(item: ImageItem) -> tuple[DecodedImage, str]:
        content = read_content(item)
        return decode_bytes(content, item.name, image_size, channels), digest(content)

    return load_decoded(decode, items, allocate_pixels(len(items), image_size, channels), report)


def load_decoded(
    decode: ItemDecoder, items: Sequence[ImageItem], pixels: NDArray[np.uint8], report: DataReport
) -> LoadedImages:
    """Decode all items (images or videos) into `pixels`; invalid ones are rejected with an issue in the report."""
    kept: list[ImageItem] = []
    file_digests, pixel_digests = [], []

    def try_decode(item: ImageItem) -> tuple[DecodedImage, str] | ImageError:
        try:
            return decode(item)
        except ImageError as error:
            return error

    with strict_warnings():
        for item, result in zip(items, parallel_map(try_decode, items, f"reading {report.unit}"), strict=True):
            report.read += 1
            if isinstance(result, ImageError):
                report.rejected += 1
                report.add_issue(result.kind, item.location, result.message, text=_shown_name(item, result.location))
                continue
            decoded, file_digest = result
            report.kept += 1
            _add_issues(item, decoded, report)
            pixels[len(kept)] = decoded.pixels
            kept.append(item)
            file_digests.append(file_digest)
            pixel_digests.append(digest(decoded.pixels))
    labels, names = (tuple(getattr(item, field) for item in kept) for field in ("label", "name"))
    return LoadedImages(ImageExamples(pixels[: len(kept)], labels, names), tuple(file_digests), tuple(pixel_digests))


def _shown_name(item: ImageItem, name: str) -> str:
    """The name of an image or frame, if it is not already the file of the location."""
    return "" if item.location.file == name else name


def _add_issues(item: ImageItem, decoded: DecodedImage, report: DataReport) -> None:
    name = _shown_name(item, item.name)
    for kind in decoded.issues:
        report.add_issue(kind, item.location, ISSUE_MESSAGES[kind], text=name)
    expected = SUFFIX_FORMATS.get(item.path.suffix.lower())
    if expected and expected != decoded.format:
        message = f"The suffix is {item.path.suffix}, but the format is {decoded.format}."
        report.add_issue("format mismatch", item.location, message, text=name)
    if decoded.small_message:
        report.add_issue("small image", item.location, decoded.small_message, text=name)


def allocate_pixels(count: int, image_size: int, channels: int) -> NDArray[np.uint8]:
    """Memory for `count` images, after a check of the total memory: an allocation fails only when it is filled."""
    size = count * image_size * image_size * channels
    if size > (memory := total_memory()):
        raise UserError(
            f"{count:,} images of {image_size} x {image_size} pixels need {size / 2**30:.1f} GiB of memory, and this "
            f"machine has {memory / 2**30:.1f} GiB.",
            hint="Use a smaller source.image_size, or fewer images.",
        )
    return np.empty((count, image_size, image_size, channels), np.uint8)


def total_memory() -> int:
    """Bytes of memory of this machine; 1 TiB if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def parallel_map(work: Callable[[Item], Result], items: Sequence[Item], description: str) -> Iterator[Result]:
    """The results in the order of the items, computed by several threads."""
    # Two threads for each core, because some of them wait for the disk.
    workers = min(MAX_WORKERS, 2 * (os.cpu_count() or 1))
    # Decoding a small image is as fast as submitting a task, so a task has several images if there are many.
    items_per_task = max(1, min(ITEMS_PER_TASK, len(items) // (4 * workers)))
    pool = ThreadPoolExecutor(workers, "images")
    try:
        with progress_bar(description, len(items)) as advance:
            for start in range(0, len(items), MAX_PENDING):
                stop = min(start + MAX_PENDING, len(items))
                batches = [
                    items[first : min(first + items_per_task, stop)] for first in range(start, stop, items_per_task)
                ]
                for results in pool.map(lambda batch: [work(item) for item in batch], batches):
                    yield from results
                    advance(len(results))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, only the tasks that are running are finished
