"""Residual connections: the position of the norm, and what dropout changes."""

from __future__ import annotations

import torch
from torch import nn
from torch.testing import assert_close

from seq2see.layers.norms_and_dropout import NORM_ORDERS, MaskedBatchNorm, PostNorm, PreNorm, RMSNorm

VECTORS = torch.tensor([[[3.0, -4.0]]])
VALID = torch.ones(1, 1, dtype=torch.bool)


class DoublingNorm(nn.Module):
    """A stand-in for a norm: it doubles its input."""

    def forward(self, vectors, valid):
        return 2 * vectors


def plus_one(vectors):
    return vectors + 1


def test_post_norm_normalizes_the_sum():
    assert PostNorm(DoublingNorm(), 0.0)(VECTORS, VALID, plus_one).tolist() == [[[14, -14]]]  # 2 (x + (x + 1))


def test_pre_norm_normalizes_only_the_input_of_the_sublayer():
    assert PreNorm(DoublingNorm(), 0.0)(VECTORS, VALID, plus_one).tolist() == [[[10, -11]]]  # x + (2 x + 1)


def test_with_a_real_norm_by_hand():
    norm = RMSNorm(2, eps=0.0)
    # The root mean square of (3, -4) is √12.5; of x + x + 1 = (7, -7) it is 7.
    assert_close(PostNorm(norm, 0.0)(VECTORS, VALID, plus_one), torch.tensor([[[1.0, -1.0]]]))
    expected = VECTORS + VECTORS / 12.5**0.5 + 1
    assert_close(PreNorm(norm, 0.0)(VECTORS, VALID, plus_one), expected)


def test_dropout_acts_on_the_sublayer_and_never_on_the_stream():
    vectors, valid = torch.randn(2, 50, 8), torch.ones(2, 50, dtype=torch.bool)
    for cls, kept_value in ((PostNorm, lambda x: 2 * (x + 10)), (PreNorm, lambda x: x + 10)):
        layer = cls(DoublingNorm(), 0.4)
        added = layer(vectors, valid, lambda x: torch.full_like(x, 6.0))
        stream = 2 * vectors if cls is PostNorm else vectors
        dropped = torch.isclose(added, stream)
        assert torch.isclose(added, kept_value(vectors)).logical_or(dropped).all()  # 6 / 0.6 = 10, or nothing
        assert 0.3 < dropped.float().mean() < 0.5
        layer.eval()
        assert torch.equal(layer(vectors, valid, torch.zeros_like), stream)


def test_the_norm_gets_the_valid_positions():
    vectors, valid = torch.tensor([[[1.0], [3.0], [1000.0]]]), torch.tensor([[True, True, False]])
    for cls in NORM_ORDERS.values():
        norm = MaskedBatchNorm(1, momentum=1.0)
        cls(norm, 0.0)(vectors, valid, torch.zeros_like)
        assert norm.running_mean.tolist() == [2.0]


def test_only_a_pre_norm_stack_ends_with_a_norm():
    norm = DoublingNorm()
    assert PreNorm.final_norm(norm) is norm
    assert PostNorm.final_norm(norm) is None
    assert {"post": PostNorm, "pre": PreNorm} == NORM_ORDERS


def test_drop_path_skips_the_sublayer_for_whole_rows():
    vectors, valid = torch.randn(400, 3, 2), torch.ones(400, 3, dtype=torch.bool)
    for cls in (PostNorm, PreNorm):
        layer = cls(DoublingNorm(), 0.0, drop_path=0.4)
        stream = 2 * vectors if cls is PostNorm else vectors
        scale = 2 if cls is PostNorm else 1
        added = layer(vectors, valid, lambda x: torch.full_like(x, 6.0)) - stream
        skipped = added.isclose(torch.tensor(0.0), atol=1e-5).flatten(1)
        assert torch.equal(skipped.any(1), skipped.all(1))
        assert 0.3 < skipped.any(1).double().mean() < 0.5
        assert_close(added[~skipped.any(1)], torch.full_like(added[~skipped.any(1)], scale * 10.0))  # 6 / 0.6
        layer.eval()
        assert_close(layer(vectors, valid, lambda x: torch.full_like(x, 6.0)), stream + scale * 6)
