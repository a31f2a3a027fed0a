"""Images as tensors: the content of a batch, and the images of a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from seq2see.core.errors import UserError
from seq2see.data.examples import ImageExamples
from seq2see.data.image_dataset import ImageDataset, ImageProcessor, ShuffledSampler, pixels_on


def image_examples(count: int = 7) -> ImageExamples:
    pixels = np.arange(count * 2 * 3 * 3, dtype=np.uint8).reshape(count, 2, 3, 3)
    return ImageExamples(pixels, tuple("ab"[n % 2] for n in range(count)), tuple(f"{n}.png" for n in range(count)))


def test_a_batch_holds_the_pixels_and_labels_of_its_images():
    examples = image_examples()
    batch = ImageDataset(examples, ["a", "b"], torch.device("cpu")).batch(np.array([5, 0]))
    assert batch.source.values.dtype == torch.uint8
    assert torch.equal(batch.source.values[0], torch.from_numpy(examples.pixels[5]).permute(2, 0, 1))
    assert batch.labels.tolist() == [[1], [0]]
    assert batch.indices.tolist() == [5, 0]


def test_an_unknown_label_is_an_error_that_names_its_image():
    with pytest.raises(UserError, match=r"1\.png: The label 'b' does not occur in the training examples"):
        ImageDataset(image_examples(), ["a", "c"], torch.device("cpu"))


def test_an_epoch_has_every_image_and_all_batches_have_the_same_shape():
    sampler = ShuffledSampler(11, 4, seed=1)
    epochs = [[sampler.indices_at(step).tolist() for step in range(start, start + 3)] for start in (0, 3)]
    for epoch in epochs:
        assert {len(batch) for batch in epoch} == {4}
        assert epoch[2][3] == epoch[0][0]  # the last batch is filled up with the first images
        assert {image for batch in epoch for image in batch} == set(range(11))
    assert epochs[0] != epochs[1]
    assert ShuffledSampler(11, 4, seed=1).indices_at(4).tolist() == epochs[1][1]  # without the steps before it
    assert ShuffledSampler(11, 4, seed=2).indices_at(0).tolist() != epochs[0][0]
    assert [sampler.epoch_of(step) for step in (2, 3)] == [0, 1]
    assert len(ShuffledSampler(3, 64, seed=1).indices_at(0)) == 3


def test_fingerprints_of_other_pixels_labels_and_orders_differ():
    examples = image_examples()
    changed = examples.pixels.copy()
    changed[3, 1, 1, 1] ^= 1
    others = [
        ImageExamples(changed, examples.labels, examples.names),
        ImageExamples(examples.pixels, (*examples.labels[1:], "a"), examples.names),
        ImageExamples(examples.pixels[::-1], examples.labels[::-1], examples.names[::-1]),
    ]
    fingerprints = {each.fingerprint for each in [examples, *others]}
    assert len(fingerprints) == 4
    assert ImageExamples(examples.pixels.copy(), examples.labels, ("x",) * 7).fingerprint in fingerprints


def test_the_label_ids_count_in_the_fingerprint():
    fingerprints = {
        ImageDataset(image_examples(), labels, torch.device("cpu")).fingerprint for labels in ("ab", "ba", "ab")
    }
    assert len(fingerprints) == 2


def test_each_frame_of_a_video_has_its_channels_first():
    pixels = np.arange(2 * 5 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 5, 3, 4, 3)
    found = pixels_on(ImageExamples(pixels, ("a", "b"), ("1", "2")), torch.device("cpu"))
    assert found.shape == (2, 5, 3, 3, 4)
    assert torch.equal(found[1, 4], torch.from_numpy(pixels[1, 4]).permute(2, 0, 1))


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 4), (4, 4, 1)])
def test_an_array_that_is_no_image_is_refused(shape):
    with pytest.raises(UserError, match=r"These pixels are uint8 of shape .* height x width x 3"):
        ImageProcessor(4, 3).preprocess(np.zeros(shape, np.uint8))


def test_examples_are_names_and_labels_for_code_that_needs_no_pixels():
    examples = image_examples()
    assert (examples[3].source, examples[3].target, examples[3].location) == ("3.png", "b", "3.png")
    assert [each.target for each in examples[:2]] == ["a", "b"]
    assert len(examples[2:4].pixels) == 2
    with pytest.raises(ValueError, match="7 images, 6 labels"):
        ImageExamples(examples.pixels, examples.labels[:6], examples.names)


def test_the_image_processor_is_saved_with_the_model(tmp_path: Path):
    ImageProcessor(32, 1).save(tmp_path / "image_processor.json")
    loaded = ImageProcessor.load(tmp_path / "image_processor.json")
    assert (loaded.image_size, loaded.channels) == (32, 1)
    assert loaded.fingerprint == ImageProcessor(32, 1).fingerprint != ImageProcessor(32, 3).fingerprint
    (tmp_path / "image_processor.json").write_text("[]")
    with pytest.raises(UserError, match=r"image_processor\.json: This file has no settings of an image processor"):
        ImageProcessor.load(tmp_path / "image_processor.json")


def test_changes_to_an_image_are_warnings(tmp_path):
    Image.new("RGBA", (9, 9), (0, 0, 0, 0)).save(tmp_path / "玻璃.png")
    pixels, warnings = ImageProcessor(4, 3).preprocess(str(tmp_path / "玻璃.png"))
    assert pixels.shape == (3, 4, 4)
    assert (pixels == 255).all()
    assert warnings == ("transparent image: it was composited on white",)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (9, 9)).save(tmp_path / "turned.jpg", exif=exif)
    assert ImageProcessor(4, 3).preprocess(tmp_path / "turned.jpg")[1] == ()
    assert ImageProcessor(4, 3).preprocess(np.zeros((5, 6, 3), np.uint8))[1] == ()
