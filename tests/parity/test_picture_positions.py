"""Position grids for pictures of another size: ours are those that `transformers` reads off."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import ViTConfig
from transformers.models.vit.modeling_vit import ViTEmbeddings

from seq2see.layers.positions import LearnedGrid


@pytest.mark.parametrize("side, shape", [(28, (28, 28)), (28, (12, 40)), (20, (36, 16)), (12, (4, 4)), (28, (28, 56))])
def test_a_resized_grid_is_theirs(side, shape):
    theirs = ViTEmbeddings(ViTConfig(hidden_size=12, num_attention_heads=2, image_size=side, patch_size=4))
    ours = LearnedGrid(12, (side // 4, side // 4))
    with torch.no_grad():
        ours.table.weight.copy_(theirs.position_embeddings[0, 1:])
        grid = (shape[0] // 4, shape[1] // 4)
        expected = theirs.interpolate_pos_encoding(torch.zeros(1, grid[0] * grid[1] + 1, 12), *shape)
        assert_close(ours(grid), expected[:, 1:], rtol=0, atol=1e-5)
