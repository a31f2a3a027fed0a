"""Augmented training batches: a function of seed, step and image."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seq2see.core.batch import Batch, Images, MixedBatch
from seq2see.data.augmentation import Augmentation


def random_batch(rows: int = 6) -> Batch:
    values = torch.randint(0, 256, (rows, 3, 16, 16), dtype=torch.uint8)
    return Batch(Images(values), None, torch.arange(rows)[:, None], torch.arange(rows) + 10)


def test_without_augmentation_a_batch_does_not_change():
    batch = random_batch()
    augmented = Augmentation().augmenter(1)(batch, 1)
    assert torch.equal(augmented.source.values, batch.source.values)
    assert not isinstance(augmented, MixedBatch)


SETTINGS = {"shift": 3, "flip": True, "rand_augment": 2, "cutout": 5, "mixup": 1.0, "cutmix": 1.0}


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_changes_images_by_seed_step_and_image_alone(name):
    batch, augmentation = random_batch(), Augmentation(**{name: SETTINGS[name]})
    first = augmentation.augmenter(1)(batch, 4)
    assert not torch.equal(first.source.values, batch.source.values)
    assert first.source.values.dtype == torch.uint8
    assert torch.equal(first.source.values, augmentation.augmenter(1)(batch, 4).source.values)
    others = [augmentation.augmenter(1)(batch, 5), augmentation.augmenter(2)(batch, 4)]
    assert all(not torch.equal(first.source.values, each.source.values) for each in others)


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
def test_a_mixture_has_two_labels_and_its_share_of_the_pixels(name):
    batch = random_batch(64)
    values = torch.zeros(64, 3, 16, 16, dtype=torch.uint8)
    values[::2] = 200  # every row is mixed with one of the other kind
    mixed = Augmentation(**{name: 1.0}).augmenter(3)(Batch(Images(values), None, batch.labels, batch.indices), 1)
    assert isinstance(mixed, MixedBatch)
    assert mixed.other_labels[:, 0].tolist() == [63, *range(63)]
    bright = mixed.source.values.float().mean((1, 2, 3)) / 200
    expected = torch.where(torch.arange(64) % 2 == 0, mixed.label_weights, 1 - mixed.label_weights)
    torch.testing.assert_close(bright, expected, atol=0.01, rtol=0)


def test_repeats_are_different_augmentations_of_the_same_image():
    augmenter = Augmentation(shift=6, repeats=3).augmenter(1)
    indices = augmenter.repeat_indices(np.array([4, 9]))
    assert indices.tolist() == [4, 9, 4, 9, 4, 9]
    one = random_batch(1).source.values
    batch = Batch(Images(one.expand(6, -1, -1, -1)), None, torch.zeros(6, 1), torch.from_numpy(indices))
    values = augmenter(batch, 1).source.values
    assert len({tuple(each.flatten().tolist()) for each in values}) >= 5


def test_an_image_that_is_repeated_is_mixed_with_others():
    augmenter = Augmentation(mixup=1.0, repeats=2).augmenter(1)
    indices = torch.from_numpy(augmenter.repeat_indices(np.arange(8)))
    mixed = augmenter(Batch(random_batch(16).source, None, indices[:, None], indices), 1)
    assert (mixed.labels != mixed.other_labels).all()
    assert len(mixed.label_weights.unique()) == 16  # every repeat has random numbers of its own
