"""Patches of an image, against loops and against a convolution."""

from __future__ import annotations

import torch
from torch.nn import functional

from seq2see.models.vit import PatchEmbedding, PixelNormalization, patchify


def test_patches_are_ordered_row_by_row_and_each_channel_by_itself():
    pixels = torch.randn(2, 3, 4, 6)
    patches = patchify(pixels, 2)
    assert patches.shape == (2, 2, 3, 12)
    for down in range(2):
        for across in range(3):
            patch = pixels[1, :, 2 * down : 2 * down + 2, 2 * across : 2 * across + 2]
            assert torch.equal(patches[1, down, across], patch.reshape(-1))


def test_patch_embedding_is_a_convolution_whose_stride_is_its_kernel_size():
    patches, pixels = PatchEmbedding(3, 5, 7), torch.randn(2, 3, 10, 15)
    kernel = patches.projection.weight.view(7, 3, 5, 5)
    expected = functional.conv2d(pixels, kernel, patches.projection.bias, stride=5)
    torch.testing.assert_close(patches(pixels), expected)


def test_black_is_minus_one_and_white_is_one():
    bytes_ = torch.tensor([0, 255], dtype=torch.uint8).view(1, 1, 1, 2)
    assert PixelNormalization()(bytes_).flatten().tolist() == [-1, 1]
    assert torch.equal(PixelNormalization()(bytes_), PixelNormalization()(bytes_.float()))
