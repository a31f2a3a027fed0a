"""A corruptor of images: one known fault in a known file of a good folder, which must be found exactly there."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from load_image_sets import read_image_set
from PIL import Image

from seq2see.core import seeds
from seq2see.data.readers.data_report import ISSUE_KINDS, ErrorPolicy
from seq2see.data.readers.image_sets import scan_image_set

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".gif": "GIF", ".bmp": "BMP", ".webp": "WEBP"}
COUNT = 10
"""Images of each class."""


def random_image(rng: np.random.Generator) -> Image.Image:
    return Image.fromarray(rng.integers(0, 256, (*rng.integers(16, 40, 2), 3), dtype=np.uint8))


def stored(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def good_folder(folder: Path, seed: int) -> list[Path]:
    rng = seeds.generator(seed, "pictures")
    paths = []
    for label in ("猫", "狗"):
        (folder / label).mkdir(parents=True)
        for number in range(COUNT):
            suffix = rng.choice(list(FORMATS))
            paths.append(folder / label / f"图 {number}{suffix}")
            paths[-1].write_bytes(stored(random_image(rng), FORMATS[suffix]))
    return paths


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    """Lose the last tenth or more."""
    return content[: int(len(content) * rng.uniform(0, 0.9))]


def other_content(content: bytes, rng: np.random.Generator) -> bytes:
    """Other content under the same name."""
    choices = [b"<html>404</html>", "文字".encode() * 20, b"%PDF-1.4 \x00\x01", stored(random_image(rng), "TIFF")]
    return choices[rng.integers(len(choices))]


def other_format(content: bytes, rng: np.random.Generator) -> bytes:
    with Image.open(io.BytesIO(content)) as image:
        return stored(random_image(rng), "PNG" if image.format != "PNG" else "BMP")


def transparent(content: bytes, rng: np.random.Generator) -> bytes:
    image = random_image(rng).convert("RGBA")
    image.putpixel((3, 3), (1, 2, 3, 100))
    return stored(image, "PNG")


def rotated(content: bytes, rng: np.random.Generator) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = int(rng.integers(2, 9))
    return stored(random_image(rng), "JPEG", exif=exif)


def cmyk(content: bytes, rng: np.random.Generator) -> bytes:
    return stored(random_image(rng).convert("CMYK"), "JPEG")


def sixteen_bits(content: bytes, rng: np.random.Generator) -> bytes:
    return stored(Image.fromarray(rng.integers(0, 65536, (20, 20), dtype=np.uint16)), "PNG")


def video(content: bytes, rng: np.random.Generator) -> bytes:
    return stored(random_image(rng), "GIF", save_all=True, append_images=[Image.new("RGB", (16, 16))])


FAULTS = {
    cut: "corrupt image",
    other_content: "not an image",
    other_format: "format mismatch",
    transparent: "transparent image",
    rotated: "EXIF rotation",
    cmyk: "CMYK colors",
    sixteen_bits: "16-bit image",
    video: "multiple frames",
}
SIDE_EFFECTS = {"format mismatch"}
"""Further issues of a fault if the suffix is that of another format."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("seed", range(12))
def test_a_fault_is_found_in_its_file_and_nowhere_else(tmp_path, fault, seed):
    paths = good_folder(tmp_path, seed)
    rng = seeds.generator(seed, "fault", fault.__name__)
    corrupted = paths[rng.integers(len(paths))]
    corrupted.write_bytes(fault(corrupted.read_bytes(), rng))
    report = scan_image_set(tmp_path, 16).report
    kind = FAULTS[fault]
    assert set(report.counts) - SIDE_EFFECTS == {kind} - SIDE_EFFECTS
    assert kind in report.counts
    assert {issue.location.file for each in report.issues.values() for issue in each} == {str(corrupted)}
    bad = ISSUE_KINDS[kind].severity == "error"
    assert (report.read, report.kept, report.rejected) == (2 * COUNT, 2 * COUNT - bad, int(bad))


def test_a_good_folder_has_no_issue_even_under_the_strictest_policy(tmp_path):
    for seed in range(12):
        good_folder(tmp_path / str(seed), seed)
        _, report = read_image_set(tmp_path / str(seed), 16, policy=ErrorPolicy("error"))
        assert not report.counts
