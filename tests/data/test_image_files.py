"""Image files: every way of storing one comes out as its user expects, or is refused by name (rows 29 to 31)."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from PIL import Image

from seq2see.core.errors import UserError
from seq2see.data.readers import image_files
from seq2see.data.readers.image_files import (
    FORMATS,
    MAX_PIXELS,
    ImageError,
    center_crop_resize,
    decode_bytes,
    decode_image,
)

LOSSLESS = ["PNG", "GIF", "BMP", "WEBP"]


def stored(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **({"lossless": True} if kind == "WEBP" else {}), **options)
    return file.getvalue()


def corner(size: tuple[int, int] = (12, 8)) -> Image.Image:
    """A black image whose upper left quarter is red: it shows how it is turned."""
    image = Image.new("RGB", size, "black")
    image.paste("red", (0, 0, size[0] // 2, size[1] // 2))
    return image


RED, BLACK, WHITE = (255, 0, 0), (0, 0, 0), (255, 255, 255)


def colors(pixels: np.ndarray) -> list[tuple[int, ...]]:
    """The four corners, from left to right and from top to bottom."""
    return [tuple(map(int, pixels[row, column])) for row in (0, -1) for column in (0, -1)]


@pytest.mark.parametrize("kind", LOSSLESS)
def test_an_image_comes_out_as_it_went_in(kind):
    pixels = decode_image(stored(corner(), kind))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (8, 12, 3)
    assert (pixels == np.array(corner())).all()
    assert decode_bytes(stored(corner(), kind), "x").issues == ()


def test_a_photo_is_close_to_what_went_in():
    pixels = decode_image(stored(corner((64, 64)), "JPEG", quality=95))
    assert np.abs(pixels.astype(int) - np.array(corner((64, 64)))).mean() < 3


def test_a_photo_with_a_preview_is_one_image():
    photo = decode_bytes(stored(corner((64, 64)), "MPO", save_all=True, append_images=[corner((16, 16))]), "x")
    assert (photo.format, photo.issues, photo.pixels.shape) == ("JPEG", (), (64, 64, 3))


@pytest.mark.parametrize("suffix", [".PNG", ".jpg", ".Jpeg", ""])
def test_what_a_file_is_follows_from_its_bytes_and_chinese_names_are_names(tmp_path, suffix):
    path = tmp_path / f"猫和狗{suffix}"
    path.write_bytes(stored(corner()))
    assert (decode_image(path) == np.array(corner())).all()


class TestStoredInOtherWays:
    def test_one_bit(self):
        assert colors(decode_image(stored(corner().convert("L").point(lambda v: v > 50, mode="1")))) == [
            WHITE, BLACK, BLACK, BLACK,
        ]  # fmt: skip

    def test_gray_has_three_equal_channels(self):
        pixels = decode_image(stored(Image.new("L", (3, 2), 77)))
        assert (pixels == 77).all()
        assert pixels.shape == (2, 3, 3)

    def test_a_palette_is_converted_to_its_colors(self):
        data = stored(corner().quantize(2))
        assert Image.open(io.BytesIO(data)).mode == "P"
        assert colors(decode_image(data)) == [RED, BLACK, BLACK, BLACK]

    @pytest.mark.parametrize("kind", ["PNG", "GIF"])
    def test_a_transparent_color_of_a_palette_is_white(self, kind):
        image = corner().quantize(2)
        red = image.getpixel((0, 0))
        found = decode_bytes(stored(image, kind, transparency=red), "x")
        assert colors(found.pixels) == [WHITE, BLACK, BLACK, BLACK]
        assert found.issues == ("transparent image",)

    def test_transparency_is_laid_over_white_and_half_of_it_by_half(self):
        image = corner().convert("RGBA")
        image.putalpha(Image.new("L", image.size, 128))
        image.putpixel((11, 7), (0, 0, 0, 0))
        found = decode_bytes(stored(image), "x")
        assert colors(found.pixels) == [(255, 127, 127), (127,) * 3, (127,) * 3, WHITE]
        assert found.issues == ("transparent image",)

    def test_gray_with_transparency(self):
        found = decode_bytes(stored(Image.new("LA", (2, 2), (0, 0))), "x")
        assert (found.pixels == 255).all()

    def test_a_color_that_means_transparent(self):
        found = decode_bytes(stored(corner(), transparency=RED), "x")
        assert colors(found.pixels) == [WHITE, BLACK, BLACK, BLACK]

    def test_an_alpha_channel_without_transparent_pixels_is_not_reported(self):
        assert decode_bytes(stored(corner().convert("RGBA")), "x").issues == ()

    def test_sixteen_bits_of_gray_are_rounded_to_eight_not_cut_off(self):
        values = np.array([[0, 257 * 100, 65535, 128, 129]], dtype=np.uint16)
        found = decode_bytes(stored(Image.fromarray(values)), "x")
        assert found.pixels[0, :, 0].tolist() == [0, 100, 255, 0, 1]
        assert found.issues == ("16-bit image",)

    def test_of_sixteen_bits_per_color_the_upper_eight_are_used(self):
        """Pillow gives no more; the documentation says so."""

        def part(name: bytes, content: bytes) -> bytes:
            return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

        size, row = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0), b"\0" + struct.pack(">3H", 0xFF, 0x7FFF, 0x80FF)
        parts = part(b"IHDR", size) + part(b"IDAT", zlib.compress(row)) + part(b"IEND", b"")
        found = decode_bytes(b"\x89PNG\r\n\x1a\n" + parts, "x")
        assert found.pixels[0, 0].tolist() == [0, 127, 128]

    def test_one_value_of_sixteen_bits_may_mean_transparent(self):
        values = np.array([[1000, 1001]], dtype=np.uint16)
        found = decode_bytes(stored(Image.fromarray(values), transparency=1000), "x")
        assert found.pixels[0, :, 0].tolist() == [255, 4]
        assert found.issues == ("16-bit image", "transparent image")

    def test_cmyk_is_seen_in_its_colors(self):
        found = decode_bytes(stored(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG"), "x")
        assert np.abs(found.pixels.astype(int) - RED).max() <= 4
        assert found.issues == ("CMYK colors",)

    @pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
    def test_of_several_frames_the_first_is_used_and_that_is_reported(self, kind):
        frames = [Image.new("RGB", (4, 4), "white"), corner((4, 4))]
        found = decode_bytes(stored(corner((4, 4)), kind, save_all=True, append_images=frames), "x")
        assert colors(found.pixels) == [RED, BLACK, BLACK, BLACK]
        assert found.issues == ("multiple frames",)

    def test_one_pixel(self):
        assert decode_image(stored(Image.new("RGB", (1, 1), RED))).tolist() == [[[255, 0, 0]]]
        assert (decode_image(stored(Image.new("RGB", (1, 1), RED)), image_size=5) == RED).all()

    @pytest.mark.parametrize(("size", "message"), [((2, 9), "It has 2 x 9 pixels, and was enlarged"), ((3, 9), "")])
    def test_an_image_of_less_than_half_the_target_size_has_a_warning(self, size, message):
        assert decode_bytes(stored(Image.new("RGB", size, RED)), "x", image_size=6).messages == (
            (message,) if message else ()
        )


# Where the red corner stands after turning, among: upper left, upper right, lower left, lower right.
UPRIGHT = {1: 0, 2: 1, 3: 3, 4: 2, 5: 0, 6: 1, 7: 3, 8: 2}


@pytest.mark.parametrize("side", [None, 8])
@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_an_image_is_rotated_as_its_camera_says(kind, orientation, side):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"quality": 95} if kind == "JPEG" else {}
    found = decode_bytes(stored(corner((48, 32)), kind, exif=exif, **options), "x", side)
    shape = (8, 8) if side else (48, 32) if orientation >= 5 else (32, 48)
    assert found.pixels.shape[:2] == shape
    red = [place for place, color in enumerate(colors(found.pixels)) if color[0] > 200]
    assert red == [UPRIGHT[orientation]]
    assert found.issues == (("EXIF rotation",) if orientation > 1 else ())


@pytest.mark.parametrize("exif", [b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01", b"Exif\0\0rubbish", b"Exif\0\0"])
def test_corrupt_exif_does_not_affect_the_pixels(exif):
    assert colors(decode_image(stored(corner((48, 32)), "PNG", exif=exif))) == [RED, BLACK, BLACK, BLACK]
    assert decode_image(stored(corner((48, 32)), "JPEG", exif=exif)).shape == (32, 48, 3)


class TestRefused:
    def refused(self, content: bytes, kind: str, words: str) -> None:
        with pytest.raises(ImageError, match=words) as caught:
            decode_image(content, "猫/甲.png")
        assert caught.value.location == "猫/甲.png"
        assert caught.value.kind == kind
        assert caught.value.hint

    @pytest.mark.parametrize("kind", FORMATS)
    @pytest.mark.parametrize("share", [0.5, 0.9])
    def test_cut_off(self, kind, share):
        noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        whole = stored(Image.fromarray(noise), kind)
        self.refused(whole[: int(share * len(whole))], "corrupt image", "damaged or truncated")

    @pytest.mark.parametrize("kind", FORMATS)
    def test_cut_off_in_the_header(self, kind):
        self.refused(stored(corner(), kind)[:14], "corrupt image", "damaged or truncated")

    def test_a_checksum_that_is_wrong(self):
        whole = bytearray(stored(corner()))
        whole[20] ^= 1  # the width
        self.refused(bytes(whole), "corrupt image", "damaged or truncated")

    def test_nothing(self):
        self.refused(b"", "corrupt image", "The file is empty")

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"hello, I am text\n", "not an image but text"),
            ("只是一段文字".encode(), "not an image but text"),
            (b"\n<!DOCTYPE html><title>404</title>", "not an image but a web page"),
            (b'<?xml version="1.0"?><svg xmlns="x"/>', "SVG"),
            (b"\0\0\0\x18ftypheic\0\0\0\0mif1", "heic"),
            (b"%PDF-1.7", "PDF"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS"),
            (b"\0\1\2\3" * 9, "an unknown format"),
        ],
    )
    def test_something_else(self, content, words):
        self.refused(content, "not an image", words)

    def test_a_format_that_is_not_decoded_is_named(self):
        self.refused(stored(corner(), "TIFF"), "not an image", "TIFF image, which is not supported")

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(ImageError, match="No such file") as caught:
            decode_image(tmp_path / "甲.png")
        assert caught.value.location == str(tmp_path / "甲.png")

    def test_a_folder_is_no_image(self, tmp_path):
        with pytest.raises(ImageError, match="This is a folder: give the images in it"):
            decode_image(tmp_path)

    def test_a_file_that_is_too_large_is_not_even_read(self, tmp_path):
        with (tmp_path / "甲.png").open("wb") as file:
            file.truncate(image_files.MAX_BYTES + 1)  # takes no room on the disk
        with pytest.raises(ImageError, match="The file has 268,435,457 bytes, more than 268,435,456"):
            decode_image(tmp_path / "甲.png")

    @pytest.mark.parametrize("size", [(10_000, 5_001), (10_000, 10_000), (60_000, 60_000)])
    def test_a_bomb_is_refused_from_its_header(self, size):
        # The header alone: had anything tried to decode, the message would be of a damaged image.
        assert size[0] * size[1] > MAX_PIXELS
        self.refused(header(size), "too many pixels", "more than 50,000,000")

    def test_just_below_the_limit_is_decoded(self):
        with pytest.raises(ImageError, match="damaged or truncated"):
            decode_image(header((10_000, 5_000)))


def header(size: tuple[int, int]) -> bytes:
    """A PNG that claims a size and holds next to nothing."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
    return start + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


class TestFitting:
    @pytest.mark.parametrize(("size", "middle"), [((30, 10), (10, 0, 20, 10)), ((10, 30), (0, 10, 10, 20))])
    def test_the_center_square_is_used(self, size, middle):
        image = Image.new("RGB", size, "black")
        image.paste("red", middle)
        assert (decode_image(stored(image), image_size=10) == RED).all()

    @pytest.mark.parametrize("size", [(1, 40_000), (40_000, 1)])
    def test_a_strip_needs_no_more_memory_than_a_square(self, size):
        assert decode_image(stored(Image.new("RGB", size, RED)), image_size=300).shape == (300, 300, 3)

    def test_downscaling_averages_every_pixel(self):
        chequered = Image.fromarray(np.indices((64, 64)).sum(0).astype(np.uint8) % 2 * 255)
        assert np.abs(decode_image(stored(chequered), image_size=8).astype(int) - 128).max() <= 2

    @pytest.mark.parametrize(
        ("size", "decoded"), [((1600, 1200), (200, 150)), ((400, 300), (200, 150)), ((96, 72), None)]
    )
    def test_a_large_photo_is_decoded_small_and_has_the_same_pixels(self, size, decoded, monkeypatch):
        chequered = np.kron(np.random.default_rng(1).integers(0, 256, (24, 32)), np.ones((50, 50))).astype(np.uint8)
        photo = stored(Image.fromarray(chequered).resize(size), "JPEG", quality=95)
        whole = Image.open(io.BytesIO(photo)).convert("RGB")
        left = (size[0] - size[1]) / 2
        expected = whole.resize((64, 64), Image.Resampling.BICUBIC, (left, 0, left + size[1], size[1]))
        seen = []
        monkeypatch.setattr(
            image_files,
            "center_crop_resize",
            lambda image, side: seen.append(image.size) or center_crop_resize(image, side),
        )
        found = decode_image(photo, image_size=64).astype(int)
        assert seen == [decoded or size]
        assert np.abs(found - np.array(expected)).mean() <= 2

    def test_what_is_transparent_is_white_after_shrinking_too(self):
        """Shrinking before or after laying it over white is the same, but for rounding."""
        glass = np.random.default_rng(1).integers(0, 256, (60, 60, 4), dtype=np.uint8)
        found = decode_image(stored(Image.fromarray(glass)), image_size=12).astype(int)
        whole = Image.fromarray(decode_image(stored(Image.fromarray(glass))))
        assert np.abs(found - np.array(whole.resize((12, 12), Image.Resampling.BICUBIC))).mean() <= 2

    @pytest.mark.parametrize(
        ("kind", "size", "side", "waits"),
        [
            ("PNG", (20, 20), None, True),
            ("PNG", (10, 10), None, False),
            ("PNG", (80, 80), 4, True),
            ("JPEG", (80, 80), None, True),
            ("JPEG", (80, 80), 5, False),
        ],
    )
    def test_only_large_images_wait_for_each_other(self, kind, size, side, waits, monkeypatch):
        entered = []

        class Gate(contextlib.nullcontext):
            def __enter__(self):
                entered.append(True)

        monkeypatch.setattr(image_files, "LARGE_IMAGE_SLOTS", Gate())
        monkeypatch.setattr(image_files, "LARGE_PIXELS", 100)
        decode_image(stored(Image.new("RGB", size), kind), image_size=side)
        assert bool(entered) == waits

    def test_gray_on_demand(self):
        assert (
            decode_image(stored(Image.new("RGB", (4, 4), "red")), image_size=2, channels=1).tolist() == [[[76]] * 2] * 2
        )


@given(some.sampled_from(FORMATS), some.integers(0, 10_000), some.integers(1, 255), some.integers(0, 3))
def test_damaged_bytes_give_an_image_or_a_clear_refusal(kind, place, change, cut):
    content = bytearray(stored(corner((24, 16)), kind))
    content[place % len(content)] ^= change
    if cut:
        del content[place % len(content) :: cut * 7]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            assert decode_image(bytes(content), "x").dtype == np.uint8
        except UserError as error:
            assert error.location == "x"  # noqa: PT017


def test_a_recording_is_no_damaged_image():
    with pytest.raises(ImageError, match=r"This is not an image but a recording \(WAV\)"):
        decode_bytes(b"RIFF\x24\x00\x00\x00WAVEfmt ", "a.webp")
    with pytest.raises(ImageError, match="damaged or truncated"):
        decode_bytes(b"RIFF\x24\x00\x00\x00WEBPVP8 ", "a.webp")
