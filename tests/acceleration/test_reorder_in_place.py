"""Reordering in place equals a copy of the chosen rows."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.long, torch.bool])
@pytest.mark.parametrize("inputs, width, shape", [(3, 4, (2, 3, 7)), (2, 3, ()), (1, 5, (70, 61)), (2, 1, (5,))])
def test_rows_become_their_parents(inputs, width, shape, dtype):
    from seq2see.acceleration.search_kernels import reorder_in_place

    rng = torch.Generator().manual_seed(1)
    tensor = torch.randint(0, 2 if dtype == torch.bool else 100, (inputs * width, *shape), generator=rng)
    tensor = tensor.to(DEVICE, dtype)
    beams = torch.randint(0, width, (inputs, width), generator=rng)
    parents = (torch.arange(inputs)[:, None] * width + beams).flatten().to(DEVICE)
    expected = tensor[parents]
    reorder_in_place(tensor, parents, width)
    assert torch.equal(tensor, expected)


def test_a_long_row_is_moved_by_several_programs(monkeypatch):
    from seq2see.acceleration import search_kernels as module

    monkeypatch.setattr(module, "REORDER_BLOCK", 16)
    tensor = torch.arange(4 * 37.0, device=DEVICE).view(4, 37)
    expected = tensor.clone()[[1, 0, 2, 2]]
    module.reorder_in_place(tensor, torch.tensor([1, 0, 2, 2], device=DEVICE), 2)
    assert torch.equal(tensor, expected)
