"""Changes of pictures on a GPU: what a CPU would have made of them, and nobody waits for it."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Batch, Pictures
from seq2see.sequences.augment import Cutout, Flip, Shift
from seq2see.sequences.draws import Draws
from seq2see.sequences.mixing import CutMix, EitherMix, Mixup
from seq2see.sequences.rand_augment import RandAugment
from seq2see.sequences.views import Views
from seq2see.training.graphs import GraphedStep

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

CHANGES = [Shift(4), Flip(), Cutout(8), RandAugment(2, 0.5), Mixup(0.8), CutMix(1.0)]
CHANGES.append(EitherMix(Mixup(0.8), CutMix(1.0)))


@pytest.fixture
def pixels() -> torch.Tensor:
    coarse = torch.rand(256, 3, 6, 6)
    smooth = torch.nn.functional.interpolate(coarse, size=(32, 32), mode="bilinear")
    return (smooth * 255).to(torch.uint8)


@pytest.mark.parametrize("change", CHANGES, ids=lambda it: type(it).__name__)
def test_a_gpu_makes_of_pictures_what_a_cpu_does(change, pixels):
    indices = torch.arange(256) * 7919
    ours, theirs = change(pixels, Draws(1, 5, indices)), change(pixels.cuda(), Draws(1, 5, indices.cuda()))
    for one, other in zip(
        *((each,) if isinstance(each, torch.Tensor) else each for each in (ours, theirs)), strict=True
    ):
        gap = (one.float() - other.cpu().float()).abs()
        # Where a pixel lies halfway between two, or a tone between two levels, rounding may go either way.
        assert (gap > 1.001).float().mean() < 0.002


@pytest.mark.parametrize("change", CHANGES, ids=lambda it: type(it).__name__)
def test_nobody_waits_for_a_gpu(change, pixels):
    there, draws = pixels.cuda(), Draws(1, torch.tensor(5).cuda(), torch.arange(256).cuda())
    change(there, draws)  # tables of a distribution are sent once
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        change(there, draws)
    finally:
        torch.cuda.set_sync_debug_mode(before)


def test_a_recorded_view_is_another_one_at_every_step(pixels):
    """What is recorded once and repeated gives what the kernels give one by one."""
    viewer = Views(shift=4, flip=True, changes=2, cutout=8, mixup=0.8, cutmix=1.0).viewer(1)
    recorded = GraphedStep(viewer)
    for step in (1, 2, 3, 9):
        batch = Batch(Pictures(pixels.roll(step, 0).cuda()), None, torch.arange(256).cuda()[:, None], torch.arange(256))
        found, expected = recorded(batch, torch.tensor(step)), viewer(batch, step)
        assert torch.equal(found.source.values, expected.source.values)
        assert torch.equal(found.shares, expected.shares)
