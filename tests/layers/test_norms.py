"""Norms: by hand, against torch's own, exact gradients, and padding without influence."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.layers.norms_and_dropout import (
    NORMS,
    LayerNorm,
    MaskedBatchNorm,
    PowerNorm,
    RMSNorm,
    masked_batch_mean,
    plain_layer_norm,
    plain_rms_norm,
)

# Two rows, three positions, width two; the second row has only two valid positions.
TINY = torch.tensor([[[1.0, 3.0], [2.0, 2.0], [6.0, -2.0]], [[3.0, 1.0], [8.0, 6.0], [99.0, 99.0]]])
TINY_VALID = torch.tensor([[True, True, True], [True, True, False]])


def padded_rows(rows=3, time=5, width=7, dtype=torch.float64):
    """Random vectors and which are valid: rows of 5, 4, 3 positions."""
    lengths = torch.tensor([time - row for row in range(rows)])
    return torch.randn(rows, time, width, dtype=dtype), torch.arange(time) < lengths[:, None]


def with_random_weights(norm: nn.Module) -> nn.Module:
    """The norm with a scale and shift that are not 1 and 0."""
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(torch.randn_like(parameter))
    return norm


def test_layer_norm_works_along_the_width():
    # Each vector (a, b) has mean (a + b) / 2 and deviation |a - b| / 2: it becomes (-1, 1), (1, -1), or 0.
    expected = [[[-1, 1], [0, 0], [1, -1]], [[1, -1], [1, -1], [0, 0]]]
    assert_close(LayerNorm(2, 1e-12)(TINY, TINY_VALID), torch.tensor(expected).float())


def test_rms_norm_keeps_the_direction():
    # (3, 1): the mean square is (9 + 1) / 2 = 5.  (6, -2): (36 + 4) / 2 = 20.
    output = RMSNorm(2, 1e-12)(TINY, TINY_VALID)
    assert_close(output[1, 0], torch.tensor([3.0, 1.0]) / 5**0.5)
    assert_close(output[0, 2], torch.tensor([6.0, -2.0]) / 20**0.5)


def test_batch_norm_works_along_the_valid_positions():
    # First coordinate: 1 2 6 3 8, mean 20 / 5 = 4, squared distances 9 4 4 1 16, variance 34 / 5 = 6.8.
    # Second coordinate: 3 2 -2 1 6, mean 2, squared distances 1 0 16 1 16, variance 34 / 5 = 6.8.
    norm = MaskedBatchNorm(2, 1e-12)
    output = norm(TINY, TINY_VALID)
    expected = torch.tensor([[[-3.0, 1.0], [-2.0, 0.0], [2.0, -4.0]], [[-1.0, -1.0], [4.0, 4.0], [0.0, 0.0]]])
    assert_close(output, expected / 6.8**0.5)
    # A tenth of the step from 0 to the means, and from 1 to the unbiased variance 34 / 4 = 8.5.
    assert_close(norm.running_mean, torch.tensor([0.4, 0.2]))
    assert_close(norm.running_var, torch.tensor([1.75, 1.75]))


def test_power_norm_divides_by_the_quadratic_mean_of_valid_positions():
    # First coordinate: squares 1 4 36 9 64, sum 114, mean 22.8. Second: 9 4 4 1 36, sum 54, mean 10.8.
    norm = PowerNorm(2, 1e-12)
    square = torch.tensor([22.8, 10.8])
    assert_close(norm(TINY, TINY_VALID)[0], TINY[0] / square.sqrt())
    assert_close(norm.running_square, 0.9 + 0.1 * square)
    assert norm.steps == 1


def test_power_norm_after_the_warm_up_divides_by_the_running_mean():
    norm = PowerNorm(2, 1e-12, warm_up=1)
    norm(TINY, TINY_VALID)
    past = norm.running_square.clone()
    output = norm(10 * TINY, TINY_VALID)
    assert_close(output[0], 10 * TINY[0] / past.sqrt())
    assert_close(norm.running_square, 0.9 * past + 0.1 * 100 * torch.tensor([22.8, 10.8]))
    norm.eval()
    assert_close(norm(TINY, TINY_VALID)[0], TINY[0] / norm.running_square.sqrt())
    assert norm.steps == 2


def test_power_norm_backward_is_the_papers_algorithm():
    """Two steps of the rule of Shen et al., computed by hand for a width of one."""
    vectors = torch.tensor([[[1.0], [3.0]]], dtype=torch.float64, requires_grad=True)
    valid = torch.ones(1, 2, dtype=torch.bool)
    norm = PowerNorm(1, 1e-12, warm_up=0).double()
    norm.running_square.fill_(4.0)  # so psi = 2 and the normalized values are 1/2 and 3/2
    norm.running_grad.fill_(0.2)
    grad_output = torch.tensor([[[1.0], [-1.0]]], dtype=torch.float64)
    norm(vectors, valid).backward(grad_output)
    # (g - nu x) / psi: (1 - 0.1) / 2 and (-1 - 0.3) / 2
    assert_close(vectors.grad.flatten(), torch.tensor([0.45, -0.65], dtype=torch.float64))
    # Gamma = (1/4 + 9/4) / 2 = 1.25, Lambda = (1/2 - 3/2) / 2 = -0.5: 0.2 (1 - 0.125) - 0.05 = 0.125
    assert_close(norm.running_grad, torch.tensor([0.125], dtype=torch.float64))
    # psi² moves by a tenth of its distance to the mean square (1 + 9) / 2 = 5
    assert_close(norm.running_square, torch.tensor([4.1], dtype=torch.float64))


def test_plain_layer_norm_equals_the_fused_kernel_and_torchs_module():
    vectors, valid = padded_rows(dtype=torch.float32)
    norm = with_random_weights(LayerNorm(7))
    theirs = nn.LayerNorm(7)
    theirs.load_state_dict(norm.state_dict())
    assert_close(plain_layer_norm(vectors, norm.weight, norm.bias), norm(vectors, valid))
    assert_close(theirs(vectors), norm(vectors, valid))


def test_plain_rms_norm_equals_the_fused_kernel_and_torchs_module():
    vectors, valid = padded_rows(dtype=torch.float32)
    norm = with_random_weights(RMSNorm(7))
    theirs = nn.RMSNorm(7, eps=1e-5)
    theirs.load_state_dict(norm.state_dict())
    assert_close(plain_rms_norm(vectors, norm.weight), norm(vectors, valid))
    assert_close(theirs(vectors), norm(vectors, valid))


def test_batch_norm_on_unpadded_vectors_is_torchs():
    vectors, valid = padded_rows(dtype=torch.float32)
    norm, theirs = with_random_weights(MaskedBatchNorm(7)), nn.BatchNorm1d(7)
    theirs.load_state_dict({"weight": norm.weight, "bias": norm.bias}, strict=False)
    for step in range(3):
        assert_close(norm(vectors + step, valid)[valid], theirs((vectors + step)[valid]))
    assert_close(norm.running_mean, theirs.running_mean)
    assert_close(norm.running_var, theirs.running_var)
    norm.eval()
    theirs.eval()
    assert_close(norm(vectors, valid)[valid], theirs(vectors[valid]))


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_exact(name, training):
    """PowerNorm in its warm-up, where the backward pass of the paper is the exact gradient."""
    vectors, valid = padded_rows(2, 3, 5)
    norm = with_random_weights(NORMS[name](5)).double().train(training)
    parameters = [parameter.detach().requires_grad_() for parameter in norm.parameters()]

    def run(vectors, *parameters):
        names = [name for name, _ in norm.named_parameters()]
        output = torch.func.functional_call(norm, dict(zip(names, parameters, strict=True)), (vectors, valid))
        return output[valid]

    assert torch.autograd.gradcheck(run, (vectors.requires_grad_(), *parameters))


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fill_value", [float("nan"), float("inf"), 1e30])
def test_padding_has_no_influence(name, training, fill_value):
    """Outputs, statistics and gradients of the norms over a batch do not depend on the padding."""
    vectors, valid = padded_rows(dtype=torch.float32)
    results = []
    for inputs in (vectors, vectors.masked_fill(~valid[..., None], fill_value)):
        torch.manual_seed(1)
        norm = with_random_weights(NORMS[name](7)).train(training)
        inputs = inputs.clone().requires_grad_()
        output = norm(inputs, valid)
        weights = torch.randn_like(vectors)[valid]
        (output[valid] * weights).sum().backward()
        results.append((output[valid], inputs.grad[valid], dict(norm.named_buffers()), norm.weight.grad))
    for actual, with_padding in zip(results[0][:2], results[1][:2], strict=True):
        assert torch.isfinite(actual).all()
        assert torch.equal(actual, with_padding)
    for key, buffer in results[0][2].items():
        assert torch.equal(buffer, results[1][2][key])
    if name in ("batch", "power"):
        assert torch.equal(results[0][3], results[1][3])


@pytest.mark.parametrize("name", NORMS)
def test_more_padding_changes_nothing(name):
    vectors, valid = padded_rows()
    norm = with_random_weights(NORMS[name](7)).double()
    same_norm = NORMS[name](7).double()
    same_norm.load_state_dict(norm.state_dict())
    longer = torch.cat([vectors, torch.randn(3, 2, 7).double()], 1)
    longer_valid = torch.cat([valid, torch.zeros(3, 2, dtype=torch.bool)], 1)
    assert_close(norm(vectors, valid)[valid], same_norm(longer, longer_valid)[longer_valid], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NORMS)
def test_in_evaluation_a_row_does_not_depend_on_its_neighbors(name):
    vectors, valid = padded_rows()
    norm = with_random_weights(NORMS[name](7)).double()
    norm(vectors, valid)
    norm.eval()
    batched = norm(vectors, valid)
    separate = torch.cat([norm(vectors[row : row + 1], valid[row : row + 1]) for row in range(3)])
    assert_close(batched, separate)


@pytest.mark.parametrize("name", ["batch", "power"])
def test_a_batch_of_padding_alone_changes_no_statistics(name):
    norm = NORMS[name](7)
    before = {key: buffer.clone() for key, buffer in norm.named_buffers() if key != "steps"}
    output = norm(torch.full((2, 3, 7), float("nan")), torch.zeros(2, 3, dtype=torch.bool))
    assert torch.isfinite(output).all()
    assert all(torch.equal(norm.get_buffer(key), buffer) for key, buffer in before.items())


def test_statistics_of_16_bit_numbers_are_float32():
    """Neither the mean of 1 and 1 + 1/128 nor the mean square is a bfloat16 number."""
    vectors = torch.tensor([[[1.0], [1 + 1 / 128]]], dtype=torch.bfloat16)
    valid = torch.ones(1, 2, dtype=torch.bool)
    batch, power = MaskedBatchNorm(1, momentum=1.0), PowerNorm(1, momentum=1.0)
    assert batch(vectors, valid).dtype == power(vectors, valid).dtype == torch.bfloat16
    assert batch.running_mean.item() == 1 + 1 / 256
    assert power.running_square.item() == (1 + (1 + 1 / 128) ** 2) / 2


def test_the_mean_over_valid_positions():
    assert_close(masked_batch_mean(TINY, TINY_VALID), torch.tensor([4.0, 2.0]))
    with_padding = TINY.masked_fill(~TINY_VALID[..., None], float("nan"))
    assert_close(masked_batch_mean(with_padding, TINY_VALID), torch.tensor([4.0, 2.0]))
    assert masked_batch_mean(TINY, torch.zeros_like(TINY_VALID)).tolist() == [0, 0]


def test_two_passes_before_a_backward_pass_are_allowed():
    """A norm shared by two layers: the running gradient changes between the two backward passes."""
    vectors, valid = padded_rows()
    norm = PowerNorm(7, warm_up=0).double()
    vectors.requires_grad_()
    (norm(vectors, valid) + norm(2 * vectors, valid)).square()[valid].sum().backward()
    assert torch.isfinite(vectors.grad).all()
    assert norm.running_grad.abs().min() > 0


def test_one_position_alone_does_not_make_the_statistics_nan():
    """Its unbiased variance, 0 / (n - 1), would be NaN, and so would all later running averages."""
    norm = MaskedBatchNorm(2)
    norm(TINY[:1, :1], TINY_VALID[:1, :1])
    assert_close(norm.running_var, torch.tensor([0.9, 0.9]))


@pytest.mark.parametrize("name", ["batch", "power"])
def test_statistics_have_no_gradient(name):
    """Otherwise the graph of every step would contain all earlier steps."""
    norm = NORMS[name](2)
    norm(TINY.clone().requires_grad_(), TINY_VALID)
    assert not any(buffer.requires_grad for buffer in norm.buffers())
