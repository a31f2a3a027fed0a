"""Position grids for images of another size: ours are those that `transformers` reads off."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import ViTConfig
from transformers.models.vit.modeling_vit import ViTEmbeddings

from seq2see.layers.positions import LearnedPositions2d


@pytest.mark.parametrize("side, shape", [(28, (28, 28)), (28, (12, 40)), (20, (36, 16)), (12, (4, 4)), (28, (28, 56))])
def test_an_interpolated_grid_matches_transformers(side, shape):
    theirs = ViTEmbeddings(ViTConfig(hidden_size=12, num_attention_heads=2, image_size=side, patch_size=4))
    actual = LearnedPositions2d(12, (side // 4, side // 4))
    with torch.no_grad():
        actual.embedding.weight.copy_(theirs.position_embeddings[0, 1:])
        grid = (shape[0] // 4, shape[1] // 4)
        expected = theirs.interpolate_pos_encoding(torch.zeros(1, grid[0] * grid[1] + 1, 12), *shape)
        assert_close(actual(grid), expected[:, 1:], rtol=0, atol=1e-5)
