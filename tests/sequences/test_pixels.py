"""Pictures as numbers: what a batch holds, and which pictures a step sees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from seq2see.core.errors import UserError
from seq2see.sequences.pixels import PictureSet, Pixels, Rounds, pixels_on
from seq2see.sources.picture_examples import PictureExamples


def some(count: int = 7) -> PictureExamples:
    pixels = np.arange(count * 2 * 3 * 3, dtype=np.uint8).reshape(count, 2, 3, 3)
    return PictureExamples(pixels, tuple("ab"[n % 2] for n in range(count)), tuple(f"{n}.png" for n in range(count)))


def test_a_batch_holds_the_pixels_and_labels_of_its_pictures():
    examples = some()
    batch = PictureSet(examples, ["a", "b"], torch.device("cpu")).batch(np.array([5, 0]))
    assert batch.source.values.dtype == torch.uint8
    assert torch.equal(batch.source.values[0], torch.from_numpy(examples.pixels[5]).permute(2, 0, 1))
    assert batch.labels.tolist() == [[1], [0]]
    assert batch.indices.tolist() == [5, 0]


def test_a_label_that_was_never_learnt_is_told_with_its_picture():
    with pytest.raises(UserError, match=r"1\.png: The label 'b' does not occur in the training examples"):
        PictureSet(some(), ["a", "c"], torch.device("cpu"))


def test_an_epoch_sees_every_picture_and_all_batches_are_alike():
    rounds = Rounds(11, 4, seed=1)
    epochs = [[rounds.indices_at(step).tolist() for step in range(start, start + 3)] for start in (0, 3)]
    for epoch in epochs:
        assert {len(batch) for batch in epoch} == {4}
        assert epoch[2][3] == epoch[0][0]  # what is missing is filled up from the beginning
        assert {picture for batch in epoch for picture in batch} == set(range(11))
    assert epochs[0] != epochs[1]
    assert Rounds(11, 4, seed=1).indices_at(4).tolist() == epochs[1][1]  # without the steps before it
    assert Rounds(11, 4, seed=2).indices_at(0).tolist() != epochs[0][0]
    assert [rounds.epoch_of(step) for step in (2, 3)] == [0, 1]
    assert len(Rounds(3, 64, seed=1).indices_at(0)) == 3


def test_fingerprints_tell_pixels_labels_and_order_apart():
    examples = some()
    changed = examples.pixels.copy()
    changed[3, 1, 1, 1] ^= 1
    others = [
        PictureExamples(changed, examples.labels, examples.names),
        PictureExamples(examples.pixels, (*examples.labels[1:], "a"), examples.names),
        PictureExamples(examples.pixels[::-1], examples.labels[::-1], examples.names[::-1]),
    ]
    found = {each.fingerprint for each in [examples, *others]}
    assert len(found) == 4
    assert PictureExamples(examples.pixels.copy(), examples.labels, ("x",) * 7).fingerprint in found


def test_the_numbers_of_the_labels_count_in_the_fingerprint():
    prints = {PictureSet(some(), labels, torch.device("cpu")).fingerprint for labels in ("ab", "ba", "ab")}
    assert len(prints) == 2


def test_each_frame_of_a_film_has_its_channels_first():
    pixels = np.arange(2 * 5 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 5, 3, 4, 3)
    found = pixels_on(PictureExamples(pixels, ("a", "b"), ("1", "2")), torch.device("cpu"))
    assert found.shape == (2, 5, 3, 3, 4)
    assert torch.equal(found[1, 4], torch.from_numpy(pixels[1, 4]).permute(2, 0, 1))


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 4), (4, 4, 1)])
def test_what_is_no_picture_is_refused(shape):
    with pytest.raises(UserError, match=r"These pixels are uint8 of shape .* height x width x 3"):
        Pixels(4, 3).look(np.zeros(shape, np.uint8))


def test_examples_are_names_and_labels_to_whoever_does_not_look():
    examples = some()
    assert (examples[3].source, examples[3].target, examples[3].place) == ("3.png", "b", "3.png")
    assert [each.target for each in examples[:2]] == ["a", "b"]
    assert len(examples[2:4].pixels) == 2
    with pytest.raises(ValueError, match="7 pictures, 6 labels"):
        PictureExamples(examples.pixels, examples.labels[:6], examples.names)


def test_how_pictures_are_seen_is_kept_with_the_model(tmp_path: Path):
    Pixels(32, 1).save(tmp_path / "pixels.json")
    found = Pixels.load(tmp_path / "pixels.json")
    assert (found.side, found.channels) == (32, 1)
    assert found.fingerprint == Pixels(32, 1).fingerprint != Pixels(32, 3).fingerprint
    (tmp_path / "pixels.json").write_text("[]")
    with pytest.raises(UserError, match=r"pixels\.json: This does not say how pictures are seen"):
        Pixels.load(tmp_path / "pixels.json")


def test_what_was_done_to_a_picture_is_told(tmp_path):
    Image.new("RGBA", (9, 9), (0, 0, 0, 0)).save(tmp_path / "玻璃.png")
    pixels, remarks = Pixels(4, 3).look(str(tmp_path / "玻璃.png"))
    assert pixels.shape == (3, 4, 4)
    assert (pixels == 255).all()
    assert remarks == ("transparent picture: it was laid over white",)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (9, 9)).save(tmp_path / "turned.jpg", exif=exif)
    assert Pixels(4, 3).look(tmp_path / "turned.jpg")[1] == ()
    assert Pixels(4, 3).look(np.zeros((5, 6, 3), np.uint8))[1] == ()
