"""Augmentation on a GPU: the results of a CPU, without a GPU sync."""

from __future__ import annotations

import pytest
import torch

from seq2see.acceleration.cuda_graphs import GraphedCallable
from seq2see.core.batch import Batch, Images
from seq2see.core.seeds import CounterRng
from seq2see.data.augmentation import Augmentation, CutMix, Cutout, Flip, Mixup, MixupOrCutMix, RandAugment, Shift

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

TRANSFORMS = [Shift(4), Flip(), Cutout(8), RandAugment(2, 0.5), Mixup(0.8), CutMix(1.0)]
TRANSFORMS.append(MixupOrCutMix(Mixup(0.8), CutMix(1.0)))


@pytest.fixture
def pixels() -> torch.Tensor:
    coarse = torch.rand(256, 3, 6, 6)
    smooth = torch.nn.functional.interpolate(coarse, size=(32, 32), mode="bilinear")
    return (smooth * 255).to(torch.uint8)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda it: type(it).__name__)
def test_a_gpu_computes_what_a_cpu_does(transform, pixels):
    indices = torch.arange(256) * 7919
    actual = transform(pixels, CounterRng(1, 5, indices))
    theirs = transform(pixels.cuda(), CounterRng(1, 5, indices.cuda()))
    for one, other in zip(
        *((each,) if isinstance(each, torch.Tensor) else each for each in (actual, theirs)), strict=True
    ):
        gap = (one.float() - other.cpu().float()).abs()
        # Halfway between two pixels or two levels, rounding may go either way.
        assert (gap > 1.001).float().mean() < 0.002


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda it: type(it).__name__)
def test_there_is_no_gpu_sync(transform, pixels):
    gpu_pixels, rng = pixels.cuda(), CounterRng(1, torch.tensor(5).cuda(), torch.arange(256).cuda())
    transform(gpu_pixels, rng)  # the quantiles are copied once
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        transform(gpu_pixels, rng)
    finally:
        torch.cuda.set_sync_debug_mode(before)


def test_a_captured_augmentation_differs_at_every_step(pixels):
    """A captured graph that is replayed computes what the kernels compute one by one."""
    augmenter = Augmentation(shift=4, flip=True, rand_augment=2, cutout=8, mixup=0.8, cutmix=1.0).augmenter(1)
    captured = GraphedCallable(augmenter)
    for step in (1, 2, 3, 9):
        batch = Batch(Images(pixels.roll(step, 0).cuda()), None, torch.arange(256).cuda()[:, None], torch.arange(256))
        found, expected = captured(batch, torch.tensor(step)), augmenter(batch, step)
        assert torch.equal(found.source.values, expected.source.values)
        assert torch.equal(found.label_weights, expected.label_weights)
