"""ResNets: against torch's functions, by their numbers of weights, and by their receptive fields."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from seq2see.models.resnet_encoder import (
    NORMS_2D,
    ConvolutionalStem,
    DownsamplingBlock,
    ResidualBlock,
    ResNet,
    ResNetStem,
    conv2d,
    flatten_map,
    unflatten_map,
)


def count(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def normalized_relu(features, norm, norm_name):
    """relu(norm(x)) by torch's functions alone; in training a batch norm uses the statistics of the batch."""
    if norm_name == "batch":
        normal = functional.batch_norm(features, None, None, norm.weight, norm.bias, training=True)
    else:
        normal = functional.group_norm(features, norm.num_groups, norm.weight, norm.bias)
    return normal.clamp(min=0)


@pytest.mark.parametrize("norm_name", NORMS_2D)
def test_a_block_equals_torchs_functions(norm_name):
    block, features = ResidualBlock(16, norm_name), torch.randn(3, 16, 5, 7)
    torch.nn.init.normal_(block.norm1.weight)
    torch.nn.init.normal_(block.norm2.bias)
    conv1 = functional.conv2d(normalized_relu(features, block.norm1, norm_name), block.conv1.weight, padding=1)
    conv2 = functional.conv2d(normalized_relu(conv1, block.norm2, norm_name), block.conv2.weight, padding=1)
    assert_close(block(features), features + conv2)


@pytest.mark.parametrize("norm_name", NORMS_2D)
def test_a_downsampling_block_equals_torchs_functions(norm_name):
    block, features = DownsamplingBlock(8, 16, norm_name), torch.randn(3, 8, 6, 5)
    normal = normalized_relu(features, block.norm1, norm_name)
    conv1 = functional.conv2d(normal, block.conv1.weight, stride=2, padding=1)
    conv2 = functional.conv2d(normalized_relu(conv1, block.norm2, norm_name), block.conv2.weight, padding=1)
    downsample = torch.einsum("oi,rihw->rohw", block.downsample.weight[:, :, 0, 0], normal[:, :, ::2, ::2])
    assert_close(block(features), downsample + conv2)
    assert block(features).shape == (3, 16, 3, 3)


def test_a_group_has_eight_channels_or_all_if_there_are_fewer():
    features = torch.randn(2, 16, 5, 7)
    louder = features * torch.tensor([10.0] * 8 + [1.0] * 8).view(1, 16, 1, 1)
    assert_close(NORMS_2D["group"](16)(louder), NORMS_2D["group"](16)(features), rtol=0, atol=1e-4)
    alone = NORMS_2D["group"](3)(features[:, :3]).flatten(1)
    assert_close(alone.mean(1), torch.zeros(2), rtol=0, atol=1e-5)
    assert_close(alone.std(1, correction=0), torch.ones(2), rtol=0, atol=1e-4)


def test_weights_by_hand():
    # Width 3: two convolutions of 9 · 3 · 3, two norms of 3 scales and 3 shifts.
    assert count(ResidualBlock(3, "batch")) == 2 * 81 + 2 * 6
    # From 3 to 5: 9 · 3 · 5 and 9 · 5 · 5, a matrix of 3 · 5, norms of 3 and of 5.
    assert count(DownsamplingBlock(3, 5, "batch")) == 135 + 225 + 15 + 6 + 10
    # Three stages of 4, 8 and 16 channels, two blocks each, counted as above; a norm of 16.
    stages = (2 * (288 + 16)) + (288 + 576 + 32 + 24 + 1152 + 32) + (1152 + 2304 + 128 + 48 + 4608 + 64)
    assert count(ResNet(16, 2, 3, "batch")) == stages + 32


def test_the_twenty_layers_of_the_paper_have_its_number_of_weights():
    """Its table 6: 0.27 million with 16, 32 and 64 channels, a first convolution and a head for ten classes."""
    total = count(conv2d(3, 16, 3)) + count(ResNet(64, 3, 3, "batch")) + 64 * 10 + 10
    assert round(total / 1e6, 2) == 0.27


def test_every_stage_but_the_first_halves_the_sides():
    network = ResNet(16, 1, 3, "group")
    assert network(torch.randn(2, 4, 12, 20)).shape == (2, 16, 3, 5)
    assert network(torch.randn(2, 4, 7, 9)).shape == (2, 16, 2, 3)  # an odd side is rounded up: 7, 4, 2
    assert network(torch.randn(2, 4, 1, 1)).shape == (2, 16, 1, 1)


def receptive_field(module, side: int) -> int:
    """The number of pixels, from first to last, that influence the center of the feature map."""
    pixels = torch.rand(1, 1, side, side, requires_grad=True)
    features = module.eval()(pixels)  # an untrained batch norm does nothing
    middle = features.size(-1) // 2
    features[0, :, middle, middle].sum().backward()
    columns = pixels.grad[0, 0].abs().sum(0).nonzero().flatten()
    return int(columns[-1] - columns[0]) + 1


def with_positive_weights(module):
    """Set all weights to positive numbers, so that no relu is zero."""
    for weight in module.parameters():
        torch.nn.init.constant_(weight, 0.1)
    return module


def test_receptive_fields_by_hand():
    # A convolution covers 3 pixels; each further one adds 2 strides of its input. So one block covers 3 + 2.
    assert receptive_field(with_positive_weights(ResNet(1, 1, 1, "batch")), 31) == 5
    # A downsampling block has strides of 1 (+ 2), then of 2 (+ 4); the next one adds 4 and 8.
    assert receptive_field(with_positive_weights(ResNet(2, 1, 2, "batch")), 31) == 5 + 2 + 4
    assert receptive_field(with_positive_weights(ResNet(4, 1, 3, "batch")), 63) == 5 + 2 + 4 + 4 + 8


def test_stem_by_hand():
    stem = with_positive_weights(ConvolutionalStem(1, 1, 1))
    pixels = torch.zeros(1, 1, 4, 4)
    pixels[0, 0, 1, 1] = 10.0
    # Every kernel position that covers the one bright pixel gives 1; the maximum of 3 x 3 around 0 and 2.
    assert_close(stem(pixels), torch.tensor([[[[1.0, 1.0], [1.0, 1.0]]]]))
    torch.nn.init.constant_(stem.convs[0].weight, -0.1)
    assert not stem(pixels).any()


def test_patches_of_a_stem_overlap():
    stem = ConvolutionalStem(3, 16, 2)
    assert stem(torch.randn(2, 3, 32, 20)).shape == (2, 16, 8, 5)
    assert count(stem) == 27 * 8 + 8 * 9 * 16
    # 3 of the convolution, 2 of the pooling; then, with stride 2, 4 and 4: 13 pixels, 4 apart. A gradient passes
    # only the largest pixel, so that pixels are tested one by one.
    stem, black = with_positive_weights(ConvolutionalStem(1, 4, 2)), torch.zeros(1, 1, 32, 32)
    covered = []
    for column in range(32):
        bright = black.clone()
        bright[..., column] = 1
        if stem(bright)[0, 0, 4, 4] > 0:
            covered.append(column)
    assert covered == list(range(10, 23))


def test_a_resnet_stem_is_a_convolution_and_a_small_resnet():
    features = ResNetStem(3, 16, 1, 3)
    assert features(torch.randn(2, 3, 32, 20)).shape == (2, 16, 8, 5)
    assert count(features) == 27 * 4 + count(ResNet(16, 1, 3, "batch"))
    # The first convolution covers 3, which adds 2 to the 5 + 2 + 4 + 4 + 8 of a ResNet of three stages.
    assert receptive_field(with_positive_weights(ResNetStem(1, 4, 1, 3)), 63) == 25


def test_a_group_norm_is_independent_between_images_and_a_batch_norm_is_not():
    features = torch.randn(4, 16, 5, 5)
    for norm_name, is_independent in (("group", True), ("batch", False)):
        block = ResidualBlock(16, norm_name)
        assert torch.allclose(block(features)[:2], block(features[:2]), atol=1e-5) is is_independent


def test_initial_weights_keep_the_variance_of_gradients():
    block = DownsamplingBlock(32, 64, "batch")
    assert block.conv1.weight.var().item() == pytest.approx(2 / (9 * 64), rel=0.05)
    assert block.downsample.weight.var().item() == pytest.approx(2 / 64, rel=0.1)


def test_a_network_is_its_blocks_in_order_and_a_final_norm():
    network, inputs = ResNet(16, 2, 2, "group"), torch.randn(2, 8, 6, 6)
    torch.nn.init.normal_(network.final_norm.bias)
    features = inputs
    assert [type(block) for block in network.blocks] == [ResidualBlock, ResidualBlock, DownsamplingBlock, ResidualBlock]
    for block in network.blocks:
        features = block(features)
    assert_close(network(inputs), normalized_relu(features, network.final_norm, "group"))


def test_a_feature_map_is_flattened_row_by_row():
    features = torch.arange(12.0).view(1, 2, 2, 3)
    rows = flatten_map(features.expand(2, -1, -1, -1))
    assert rows.values[0].tolist() == [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]
    assert rows.lengths.tolist() == [6, 6]
    assert rows.grid == (2, 3)
    assert torch.equal(unflatten_map(rows)[1], features[0])
    assert rows.to("cpu").grid == (2, 3)
