"""Views: batches as a step of training sees them, the same again after a stop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seq2see.core.batch import Batch, Mixed, Pictures
from seq2see.sequences.views import Views


def some(rows: int = 6) -> Batch:
    values = torch.randint(0, 256, (rows, 3, 16, 16), dtype=torch.uint8)
    return Batch(Pictures(values), None, torch.arange(rows)[:, None], torch.arange(rows) + 10)


def test_without_any_view_a_batch_stays_as_it_is():
    batch = some()
    seen = Views().viewer(1)(batch, 1)
    assert torch.equal(seen.source.values, batch.source.values)
    assert not isinstance(seen, Mixed)


CHANGES = {"shift": 3, "flip": True, "changes": 2, "cutout": 5, "mixup": 1.0, "cutmix": 1.0}


@pytest.mark.parametrize("name", CHANGES)
def test_each_setting_changes_pictures_by_seed_step_and_picture_alone(name):
    batch, views = some(), Views(**{name: CHANGES[name]})
    first = views.viewer(1)(batch, 4)
    assert not torch.equal(first.source.values, batch.source.values)
    assert first.source.values.dtype == torch.uint8
    assert torch.equal(first.source.values, views.viewer(1)(batch, 4).source.values)
    others = [views.viewer(1)(batch, 5), views.viewer(2)(batch, 4)]
    assert all(not torch.equal(first.source.values, each.source.values) for each in others)


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
def test_a_mixture_has_two_labels_and_its_share_of_the_pixels(name):
    batch = some(64)
    values = torch.zeros(64, 3, 16, 16, dtype=torch.uint8)
    values[::2] = 200  # every row is mixed with one of the other kind
    mixed = Views(**{name: 1.0}).viewer(3)(Batch(Pictures(values), None, batch.labels, batch.indices), 1)
    assert isinstance(mixed, Mixed)
    assert mixed.others[:, 0].tolist() == [63, *range(63)]
    bright = mixed.source.values.float().mean((1, 2, 3)) / 200
    expected = torch.where(torch.arange(64) % 2 == 0, mixed.shares, 1 - mixed.shares)
    torch.testing.assert_close(bright, expected, atol=0.01, rtol=0)


def test_showings_are_different_views_of_the_same_picture():
    viewer = Views(shift=6, showings=3).viewer(1)
    shown = viewer.shown(np.array([4, 9]))
    assert shown.tolist() == [4, 9, 4, 9, 4, 9]
    one = some(1).source.values
    batch = Batch(Pictures(one.expand(6, -1, -1, -1)), None, torch.zeros(6, 1), torch.from_numpy(shown))
    values = viewer(batch, 1).source.values
    assert len({tuple(each.flatten().tolist()) for each in values}) >= 5


def test_a_picture_that_is_shown_twice_is_mixed_with_others():
    viewer = Views(mixup=1.0, showings=2).viewer(1)
    shown = torch.from_numpy(viewer.shown(np.arange(8)))
    mixed = viewer(Batch(some(16).source, None, shown[:, None], shown), 1)
    assert (mixed.labels != mixed.others).all()
    assert len(mixed.shares.unique()) == 16  # every showing has draws of its own
