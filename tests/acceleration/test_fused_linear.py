"""The fused linear layer for a few rows equals norm, linear layer, activation and residual sum one after another.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch

from seq2see.layers.feed_forward import ACTIVATIONS

pytestmark = pytest.mark.triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [(torch.float32, 1e-5), (torch.bfloat16, 0.02)]
SHAPES = [(1, 64, 48), (2, 7, 5), (3, 130, 41), (4, 48, 20), (1, 1, 1), (4, 300, 17)]
"""Rows, inputs, outputs: widths that fill a tile, and many that do not."""
EXTRAS = [(), ("bias",), ("norm",), ("residual",), ("bias", "norm"), ("bias", "residual"), ("bias", "norm", "residual")]


def random_case(shape, dtype, extras, activation):
    from seq2see.acceleration.small_batch_kernels import LayerNormWeights, LinearWeights

    rows, inputs, outputs = shape
    torch.manual_seed(rows + inputs)

    def random_tensor(*sizes, scale=1.0, shift=0.0):
        return (shift + scale * torch.randn(*sizes, device=DEVICE)).to(dtype)

    layer = LinearWeights(
        random_tensor(outputs, inputs, scale=inputs**-0.5),
        random_tensor(outputs) if "bias" in extras else None,
        activation,
    )
    norm = LayerNormWeights(random_tensor(inputs), random_tensor(inputs), 1e-5) if "norm" in extras else None
    # Far from 0, so that a missing mean, or a mean over the padded tile, changes the result.
    return (
        random_tensor(rows, inputs, shift=3.0),
        layer,
        norm,
        random_tensor(rows, outputs) if "residual" in extras else None,
    )


def exact_output(inputs):
    """The output of the definition in float64."""
    from seq2see.acceleration.small_batch import reference_linear
    from seq2see.acceleration.small_batch_kernels import LayerNormWeights, LinearWeights

    vectors, layer, norm, residual = inputs
    exact_layer = LinearWeights(
        layer.weight.double(), None if layer.bias is None else layer.bias.double(), layer.activation
    )
    exact_norm = None if norm is None else LayerNormWeights(norm.weight.double(), norm.bias.double(), norm.eps)
    return reference_linear(vectors.double(), exact_layer, exact_norm, None if residual is None else residual.double())


def assert_within(actual, expected, tolerance):
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance * (1 + float(expected.abs().max())))


@pytest.mark.parametrize("dtype, tolerance", DTYPES, ids=["float32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("extras", EXTRAS, ids="-".join)
def test_it_equals_the_definition_with_and_without_all_extras(shape, extras, dtype, tolerance, monkeypatch):
    """With so few programs that each has several outputs, and the last one more than there are."""
    from seq2see.acceleration import small_batch_kernels

    monkeypatch.setattr(small_batch_kernels, "MIN_PROGRAMS", 4)
    inputs = random_case(shape, dtype, extras, "relu" if "bias" in extras else "none")
    output, _ = small_batch_kernels.fused_linear(*inputs)
    assert output.dtype == dtype
    assert_within(output, exact_output(inputs), tolerance)


@pytest.mark.parametrize("activation", ["none", *ACTIVATIONS])
def test_every_activation_is_between_the_matmul_and_the_residual(activation):
    from seq2see.acceleration.small_batch_kernels import fused_linear

    inputs = random_case((2, 12, 40), torch.float32, ("bias", "residual"), activation)
    assert_within(fused_linear(*inputs)[0], exact_output(inputs), 1e-5)


def test_the_normalized_rows_are_returned_too():
    from seq2see.acceleration.small_batch_kernels import fused_linear

    vectors, layer, norm, _ = random_case((3, 130, 9), torch.float32, ("norm",), "none")
    expected = torch.nn.functional.layer_norm(vectors, (130,), norm.weight, norm.bias, norm.eps)
    torch.testing.assert_close(fused_linear(vectors, layer, norm)[1], expected)
    assert fused_linear(vectors, layer)[1] is vectors


def test_rows_need_not_be_contiguous():
    from seq2see.acceleration.small_batch_kernels import fused_linear

    vectors, layer, _, residual = random_case((3, 20, 10), torch.float32, ("residual",), "none")
    expected = fused_linear(vectors, layer, residual=residual)[0]
    assert torch.equal(
        fused_linear(vectors.mT.contiguous().mT, layer, residual=residual.mT.contiguous().mT)[0], expected
    )


@pytest.mark.parametrize("programs, tile", [(1, 8192), (128, 16), (4, 1)])
def test_the_number_of_programs_changes_nothing(programs, tile, monkeypatch):
    from seq2see.acceleration import small_batch_kernels

    inputs = random_case((2, 30, 70), torch.float32, ("bias", "norm", "residual"), "relu")
    monkeypatch.setattr(small_batch_kernels, "MIN_PROGRAMS", programs)
    monkeypatch.setattr(small_batch_kernels, "TILE", tile)
    assert_within(small_batch_kernels.fused_linear(*inputs)[0], exact_output(inputs), 1e-5)
