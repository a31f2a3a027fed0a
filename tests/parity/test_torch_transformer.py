"""Our Transformer is torch's with the same weights: both halves, both orders, with padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.models.transformer import TransformerDecoder, TransformerEncoder
from tiny_stacks import DEPTH, HEADS, NORM_ORDERS, WIDTH, padded_batch, perturb, random_memory, settings


def copy_linear(actual: nn.Linear, theirs: nn.Linear) -> None:
    theirs.weight.copy_(actual.weight)
    theirs.bias.copy_(actual.bias)


def copy_self_attention(actual: nn.Module, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(actual.qkv_proj.weight)
    theirs.in_proj_bias.copy_(actual.qkv_proj.bias)
    copy_linear(actual.out_proj, theirs.out_proj)


def copy_cross_attention(actual: nn.Module, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat([actual.q_proj.weight, actual.kv_proj.weight]))
    theirs.in_proj_bias.copy_(torch.cat([actual.q_proj.bias, actual.kv_proj.bias]))
    copy_linear(actual.out_proj, theirs.out_proj)


def copy_norm(actual: nn.Module, theirs: nn.LayerNorm) -> None:
    theirs.weight.copy_(actual.weight)
    theirs.bias.copy_(actual.bias)


def torch_stack(part: str, order: str) -> nn.Module:
    """torch's encoder or decoder of the same shape; as ours, it ends with a norm only where the order is pre."""
    layer = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}[part]
    one = layer(WIDTH, HEADS, 4 * WIDTH, dropout=0.3, batch_first=True, norm_first=order == "pre")
    ending = nn.LayerNorm(WIDTH) if order == "pre" else None
    if part == "encoder":
        return nn.TransformerEncoder(one, DEPTH, ending, enable_nested_tensor=False).double().eval()
    return nn.TransformerDecoder(one, DEPTH, ending).double().eval()


@torch.no_grad()
def copy_stack(actual: nn.Module, theirs: nn.Module) -> None:
    for mine, layer in zip(actual.blocks, theirs.layers, strict=True):
        if isinstance(actual, TransformerEncoder):
            copy_self_attention(mine.self_attention, layer.self_attn)
            norms = [mine.self_attention_residual, mine.feed_forward_residual]
        else:
            copy_self_attention(mine.self_attention, layer.self_attn)
            copy_cross_attention(mine.cross_attention, layer.multihead_attn)
            norms = [mine.self_attention_residual, mine.cross_attention_residual, mine.feed_forward_residual]
        for number, around in enumerate(norms, start=1):
            copy_norm(around.norm, getattr(layer, f"norm{number}"))
        copy_linear(mine.feed_forward.up_proj, layer.linear1)
        copy_linear(mine.feed_forward.down_proj, layer.linear2)
    assert (actual.final_norm is None) == (theirs.norm is None)
    if actual.final_norm is not None:
        copy_norm(actual.final_norm, theirs.norm)


@pytest.mark.parametrize("order", NORM_ORDERS)
def test_the_encoder_matches_torch(order):
    actual, theirs = perturb(TransformerEncoder(settings(norm_order=order))), torch_stack("encoder", order)
    copy_stack(actual, theirs)
    source = padded_batch([5, 2, 7])
    memory = actual(source)
    expected = theirs(source.values, src_key_padding_mask=~source.valid)
    assert_close(memory.unpad(), expected[source.valid], rtol=0, atol=1e-10)
    assert_close(memory.pooled[1], expected[1, :2].mean(0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", NORM_ORDERS)
def test_the_decoder_matches_torch(order):
    actual, theirs = perturb(TransformerDecoder(settings(norm_order=order), WIDTH)), torch_stack("decoder", order)
    copy_stack(actual, theirs)
    target, memory = padded_batch([4, 6, 3]), random_memory([5, 2, 7])
    expected = theirs(
        target.values,
        memory.values,
        tgt_mask=torch.ones(6, 6, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=~target.valid,
        memory_key_padding_mask=~memory.valid,
    )
    assert_close(actual(target, memory)[target.valid], expected[target.valid], rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", NORM_ORDERS)
def test_gradients_match_torch(order):
    actual, theirs = perturb(TransformerEncoder(settings(norm_order=order))), torch_stack("encoder", order)
    copy_stack(actual, theirs)
    source = padded_batch([5, 2, 7])
    actual(source).unpad().square().sum().backward()
    theirs(source.values, src_key_padding_mask=~source.valid)[source.valid].square().sum().backward()
    mine = actual.blocks[0].self_attention.qkv_proj.weight.grad
    assert_close(mine, theirs.layers[0].self_attn.in_proj_weight.grad, rtol=0, atol=1e-9)
