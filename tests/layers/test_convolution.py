"""Gated convolutions: numbers by hand, its receptive field, and padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.layers.convolution import ConvolutionBlock, DilatedBlock


def test_a_block_by_hand():
    block = ConvolutionBlock(width=1, kernel=3)
    nn.init.zeros_(block.convolution.bias)
    # The first channel is the sum of left, center and right with weights 1, 2, 4; the second makes the gate 0.5.
    block.convolution.weight.data.copy_(torch.tensor([[[1.0, 2.0, 4.0]], [[0.0, 0.0, 0.0]]]))
    vectors = Sequences(torch.tensor([[[1.0], [10.0], [100.0]]]), torch.tensor([3]))
    sums = torch.tensor([2 + 40, 1 + 20 + 400, 10 + 200])
    expected = (torch.tensor([1, 10, 100]) + sums / 2) / 2**0.5
    assert_close(block(vectors).values.flatten(), expected)


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_the_receptive_field_is_the_kernel(kernel):
    block = ConvolutionBlock(width=3, kernel=kernel)
    values = torch.randn(1, 11, 3, requires_grad=True)
    output = block(Sequences(values, torch.tensor([11]))).values
    (grad,) = torch.autograd.grad(output[0, 5].sum(), values)
    covered = grad[0].abs().sum(-1).nonzero().flatten().tolist()
    assert covered == list(range(5 - kernel // 2, 5 + kernel // 2 + 1))


def test_padding_and_its_content_change_nothing():
    block = ConvolutionBlock(width=3, kernel=5)
    lengths = torch.tensor([2, 5, 3])
    clean = torch.randn(3, 5, 3)
    output = block(Sequences(clean, lengths)).values
    longer = torch.cat([clean, torch.zeros(3, 4, 3)], dim=1)
    dirty = longer.masked_fill(~Sequences(longer, lengths).valid[..., None], float("nan")).requires_grad_()
    padded_output = block(Sequences(dirty, lengths)).values
    assert_close(padded_output[:, :5], output, rtol=0, atol=1e-6)
    assert padded_output[:, 5:].count_nonzero() == 0
    padded_output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in block.parameters())
    alone = block(Sequences(clean[:1, :2], lengths[:1])).values
    assert_close(alone, output[:1, :2], rtol=0, atol=1e-6)


def test_the_gradients_of_a_block_are_right():
    block = ConvolutionBlock(width=2, kernel=3).double()
    values = torch.randn(2, 4, 2, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([4, 2])
    assert torch.autograd.gradcheck(lambda values: block(Sequences(values, lengths)).values, (values,))


def test_a_kernel_without_a_center_is_refused():
    with pytest.raises(UserError, match="kernel 5"):
        ConvolutionBlock(width=3, kernel=4)


def test_dropout_is_applied_to_the_input_of_the_convolution_and_not_to_the_residual():
    block = ConvolutionBlock(width=2, kernel=3, dropout=1.0)
    nn.init.zeros_(block.convolution.bias)
    values = torch.randn(1, 4, 2)
    assert_close(block(Sequences(values, torch.tensor([4]))).values, values / 2**0.5)


def test_a_dilated_block_by_hand():
    block = DilatedBlock(width=2, kernel=3, dilation=2)
    nn.init.zeros_(block.convolution.weight)
    nn.init.zeros_(block.convolution.bias)
    # The first channel reads coordinate 0 of the positions before (weight 3), at (5) and after (7); the gates are 0.5.
    block.convolution.weight.data[0, 0] = torch.tensor([3.0, 5.0, 7.0])
    values = torch.tensor([[[0.0, 2.0], [9.0, 1.0], [4.0, 8.0], [1.0, 3.0], [7.0, 5.0]]])  # norms: -1, 1, -1, -1, 1
    output = block(Sequences(values, torch.tensor([5]))).values
    sums = torch.tensor([-5 - 7, 5 - 7, -3 - 5 + 7, 3 - 5, -3 + 5])
    assert_close(output[0, :, 0], values[0, :, 0] + sums / 2, rtol=0, atol=1e-3)
    assert_close(output[0, :, 1], values[0, :, 1])


@pytest.mark.parametrize("dilation", [1, 2, 4])
def test_a_dilated_block_reads_positions_that_are_so_far_apart(dilation):
    block = DilatedBlock(width=3, kernel=5, dilation=dilation)
    values = torch.randn(1, 19, 3, requires_grad=True)
    output = block(Sequences(values, torch.tensor([19]))).values
    (grad,) = torch.autograd.grad(output[0, 9].square().sum(), values)
    assert grad[0].abs().sum(-1).nonzero().flatten().tolist() == [9 + dilation * step for step in (-2, -1, 0, 1, 2)]


def test_dropout_of_a_dilated_block_is_before_the_residual_sum():
    block, vectors = DilatedBlock(2, 3, 1, dropout=1.0), Sequences(torch.randn(1, 4, 2), torch.tensor([4]))
    assert_close(block(vectors).values, vectors.values)


def test_padding_and_its_content_change_nothing_in_a_dilated_block():
    """After training, the norm of a vector of zeros is its bias, which is not zero."""
    block, lengths, clean = DilatedBlock(width=3, kernel=5, dilation=2), torch.tensor([2, 7, 5]), torch.randn(3, 7, 3)
    nn.init.ones_(block.norm.bias)
    output = block(Sequences(clean, lengths)).values
    longer = torch.cat([clean, torch.full((3, 4, 3), 11.0)], dim=1)
    padded = block(Sequences(longer, lengths)).values
    assert_close(padded[:, :7], output, rtol=0, atol=1e-6)
    assert padded[:, 7:].count_nonzero() == output[0, 2:].count_nonzero() == 0
    for row, length in enumerate(lengths.tolist()):
        alone = block(Sequences(clean[row : row + 1, :length], lengths[row : row + 1])).values
        assert_close(alone, output[row : row + 1, :length], rtol=0, atol=1e-6)
