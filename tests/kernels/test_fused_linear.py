"""The product for a few rows is a norm, a product, a curve and a sum, one after another.

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
EXTRAS = [(), ("bias",), ("norm",), ("rest",), ("bias", "norm"), ("bias", "rest"), ("bias", "norm", "rest")]


def case(shape, dtype, extras, activation):
    from seq2see.kernels.fused_linear import LayerNormWeights, LinearWeights

    rows, inputs, outputs = shape
    torch.manual_seed(rows + inputs)

    def draw(*sizes, scale=1.0, shift=0.0):
        return (shift + scale * torch.randn(*sizes, device=DEVICE)).to(dtype)

    layer = LinearWeights(
        draw(outputs, inputs, scale=inputs**-0.5), draw(outputs) if "bias" in extras else None, activation
    )
    norm = LayerNormWeights(draw(inputs), draw(inputs), 1e-5) if "norm" in extras else None
    # Far from 0, so that a mean that is left out, or taken over the tile, shows.
    return draw(rows, inputs, shift=3.0), layer, norm, draw(rows, outputs) if "rest" in extras else None


def exactly(given):
    """What the plain definition gives in float64."""
    from seq2see.decoding.small_batch import reference_linear
    from seq2see.kernels.fused_linear import LayerNormWeights, LinearWeights

    vectors, layer, norm, residual = given
    wide = LinearWeights(layer.weight.double(), None if layer.bias is None else layer.bias.double(), layer.activation)
    steady = None if norm is None else LayerNormWeights(norm.weight.double(), norm.bias.double(), norm.eps)
    return reference_linear(vectors.double(), wide, steady, None if residual is None else residual.double())


def assert_near(actual, theirs, near):
    torch.testing.assert_close(actual.double(), theirs, rtol=0, atol=near * (1 + float(theirs.abs().max())))


@pytest.mark.parametrize("dtype, near", DTYPES, ids=["float32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("extras", EXTRAS, ids="-".join)
def test_it_is_the_plain_product_with_and_without_all_that_stands_around_it(shape, extras, dtype, near, monkeypatch):
    """By programs so few that each has several outputs, and the last of them too many."""
    from seq2see.kernels import fused_linear

    monkeypatch.setattr(fused_linear, "MIN_PROGRAMS", 4)
    given = case(shape, dtype, extras, "relu" if "bias" in extras else "none")
    found, _ = fused_linear.fused_linear(*given)
    assert found.dtype == dtype
    assert_near(found, exactly(given), near)


@pytest.mark.parametrize("curve", ["none", *ACTIVATIONS])
def test_every_curve_stands_between_the_product_and_what_is_added(activation):
    from seq2see.kernels.fused_linear import fused_linear

    given = case((2, 12, 40), torch.float32, ("bias", "rest"), activation)
    assert_near(fused_linear(*given)[0], exactly(given), 1e-5)


def test_the_rows_after_their_norm_come_back_too():
    from seq2see.kernels.fused_linear import fused_linear

    vectors, layer, norm, _ = case((3, 130, 9), torch.float32, ("norm",), "none")
    expected = torch.nn.functional.layer_norm(vectors, (130,), norm.weight, norm.bias, norm.eps)
    torch.testing.assert_close(fused_linear(vectors, layer, norm)[1], expected)
    assert fused_linear(vectors, layer)[1] is vectors


def test_rows_need_not_lie_in_one_piece():
    from seq2see.kernels.fused_linear import fused_linear

    vectors, layer, _, residual = case((3, 20, 10), torch.float32, ("rest",), "none")
    expected = fused_linear(vectors, layer, residual=residual)[0]
    assert torch.equal(
        fused_linear(vectors.mT.contiguous().mT, layer, residual=residual.mT.contiguous().mT)[0], expected
    )


@pytest.mark.parametrize("programs, tile", [(1, 8192), (128, 16), (4, 1)])
def test_how_the_work_is_shared_out_changes_nothing(programs, tile, monkeypatch):
    from seq2see.kernels import fused_linear

    given = case((2, 30, 70), torch.float32, ("bias", "norm", "rest"), "relu")
    monkeypatch.setattr(fused_linear, "MIN_PROGRAMS", programs)
    monkeypatch.setattr(fused_linear, "TILE", tile)
    assert_near(fused_linear.fused_linear(*given)[0], exactly(given), 1e-5)
