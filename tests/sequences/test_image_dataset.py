"""Images as numbers: what a batch holds, and which images a step sees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from seq2see.core.errors import UserError
from seq2see.sequences.image_dataset import ImageDataset, ImageProcessor, ShuffledSampler, pixels_on
from seq2see.sources.image_examples import ImageExamples


def some(count: int = 7) -> ImageExamples:
    pixels = np.arange(count * 2 * 3 * 3, dtype=np.uint8).reshape(count, 2, 3, 3)
    return ImageExamples(pixels, tuple("ab"[n % 2] for n in range(count)), tuple(f"{n}.png" for n in range(count)))


def test_a_batch_holds_the_pixels_and_labels_of_its_images():
    examples = some()
    batch = ImageDataset(examples, ["a", "b"], torch.device("cpu")).batch(np.array([5, 0]))
    assert batch.source.values.dtype == torch.uint8
    assert torch.equal(batch.source.values[0], torch.from_numpy(examples.pixels[5]).permute(2, 0, 1))
    assert batch.labels.tolist() == [[1], [0]]
    assert batch.indices.tolist() == [5, 0]


def test_a_label_that_was_never_learned_is_told_with_its_image():
    with pytest.raises(UserError, match=r"1\.png: The label 'b' does not occur in the training examples"):
        ImageDataset(some(), ["a", "c"], torch.device("cpu"))


def test_an_epoch_sees_every_image_and_all_batches_are_alike():
    rounds = ShuffledSampler(11, 4, seed=1)
    epochs = [[rounds.indices_at(step).tolist() for step in range(start, start + 3)] for start in (0, 3)]
    for epoch in epochs:
        assert {len(batch) for batch in epoch} == {4}
        assert epoch[2][3] == epoch[0][0]  # what is missing is filled up from the beginning
        assert {image for batch in epoch for image in batch} == set(range(11))
    assert epochs[0] != epochs[1]
    assert ShuffledSampler(11, 4, seed=1).indices_at(4).tolist() == epochs[1][1]  # without the steps before it
    assert ShuffledSampler(11, 4, seed=2).indices_at(0).tolist() != epochs[0][0]
    assert [rounds.epoch_of(step) for step in (2, 3)] == [0, 1]
    assert len(ShuffledSampler(3, 64, seed=1).indices_at(0)) == 3


def test_fingerprints_tell_pixels_labels_and_order_apart():
    examples = some()
    changed = examples.pixels.copy()
    changed[3, 1, 1, 1] ^= 1
    others = [
        ImageExamples(changed, examples.labels, examples.names),
        ImageExamples(examples.pixels, (*examples.labels[1:], "a"), examples.names),
        ImageExamples(examples.pixels[::-1], examples.labels[::-1], examples.names[::-1]),
    ]
    found = {each.fingerprint for each in [examples, *others]}
    assert len(found) == 4
    assert ImageExamples(examples.pixels.copy(), examples.labels, ("x",) * 7).fingerprint in found


def test_the_numbers_of_the_labels_count_in_the_fingerprint():
    prints = {ImageDataset(some(), labels, torch.device("cpu")).fingerprint for labels in ("ab", "ba", "ab")}
    assert len(prints) == 2


def test_each_frame_of_a_video_has_its_channels_first():
    pixels = np.arange(2 * 5 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 5, 3, 4, 3)
    found = pixels_on(ImageExamples(pixels, ("a", "b"), ("1", "2")), torch.device("cpu"))
    assert found.shape == (2, 5, 3, 3, 4)
    assert torch.equal(found[1, 4], torch.from_numpy(pixels[1, 4]).permute(2, 0, 1))


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 4), (4, 4, 1)])
def test_what_is_no_image_is_refused(shape):
    with pytest.raises(UserError, match=r"These pixels are uint8 of shape .* height x width x 3"):
        ImageProcessor(4, 3).preprocess(np.zeros(shape, np.uint8))


def test_examples_are_names_and_labels_to_whoever_does_not_look():
    examples = some()
    assert (examples[3].source, examples[3].target, examples[3].place) == ("3.png", "b", "3.png")
    assert [each.target for each in examples[:2]] == ["a", "b"]
    assert len(examples[2:4].pixels) == 2
    with pytest.raises(ValueError, match="7 images, 6 labels"):
        ImageExamples(examples.pixels, examples.labels[:6], examples.names)


def test_how_images_are_seen_is_kept_with_the_model(tmp_path: Path):
    ImageProcessor(32, 1).save(tmp_path / "image_processor.json")
    found = ImageProcessor.load(tmp_path / "image_processor.json")
    assert (found.side, found.channels) == (32, 1)
    assert found.fingerprint == ImageProcessor(32, 1).fingerprint != ImageProcessor(32, 3).fingerprint
    (tmp_path / "image_processor.json").write_text("[]")
    with pytest.raises(UserError, match=r"pixels\.json: This does not say how images are seen"):
        ImageProcessor.load(tmp_path / "image_processor.json")


def test_what_was_done_to_a_image_is_told(tmp_path):
    Image.new("RGBA", (9, 9), (0, 0, 0, 0)).save(tmp_path / "玻璃.png")
    pixels, remarks = ImageProcessor(4, 3).preprocess(str(tmp_path / "玻璃.png"))
    assert pixels.shape == (3, 4, 4)
    assert (pixels == 255).all()
    assert remarks == ("transparent image: it was laid over white",)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (9, 9)).save(tmp_path / "turned.jpg", exif=exif)
    assert ImageProcessor(4, 3).preprocess(tmp_path / "turned.jpg")[1] == ()
    assert ImageProcessor(4, 3).preprocess(np.zeros((5, 6, 3), np.uint8))[1] == ()
