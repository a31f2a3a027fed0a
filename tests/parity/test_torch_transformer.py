"""Our Transformer is torch's with the same weights: both halves, both orders, with padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.models.transformer import TransformerDecoder, TransformerEncoder
from tiny_stacks import DEPTH, HEADS, ORDERS, WIDTH, ragged, settings, some_memory, stirred


def copy_linear(own: nn.Linear, theirs: nn.Linear) -> None:
    theirs.weight.copy_(own.weight)
    theirs.bias.copy_(own.bias)


def copy_self_attention(own: nn.Module, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(own.queries_keys_values.weight)
    theirs.in_proj_bias.copy_(own.queries_keys_values.bias)
    copy_linear(own.output, theirs.out_proj)


def copy_cross_attention(own: nn.Module, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat([own.queries.weight, own.keys_values.weight]))
    theirs.in_proj_bias.copy_(torch.cat([own.queries.bias, own.keys_values.bias]))
    copy_linear(own.output, theirs.out_proj)


def copy_norm(own: nn.Module, theirs: nn.LayerNorm) -> None:
    theirs.weight.copy_(own.weight)
    theirs.bias.copy_(own.bias)


def torchs(part: str, order: str) -> nn.Module:
    """torch's encoder or decoder of the same shape; as ours, it ends with a norm only where the order is pre."""
    layer = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}[part]
    one = layer(WIDTH, HEADS, 4 * WIDTH, dropout=0.3, batch_first=True, norm_first=order == "pre")
    ending = nn.LayerNorm(WIDTH) if order == "pre" else None
    if part == "encoder":
        return nn.TransformerEncoder(one, DEPTH, ending, enable_nested_tensor=False).double().eval()
    return nn.TransformerDecoder(one, DEPTH, ending).double().eval()


@torch.no_grad()
def copy_stack(own: nn.Module, theirs: nn.Module) -> None:
    for mine, layer in zip(own.blocks, theirs.layers, strict=True):
        if isinstance(own, TransformerEncoder):
            copy_self_attention(mine.look, layer.self_attn)
            norms = [mine.around_look, mine.around_think]
        else:
            copy_self_attention(mine.look_back, layer.self_attn)
            copy_cross_attention(mine.look_across, layer.multihead_attn)
            norms = [mine.around_back, mine.around_across, mine.around_think]
        for number, around in enumerate(norms, start=1):
            copy_norm(around.norm, getattr(layer, f"norm{number}"))
        copy_linear(mine.think.widen, layer.linear1)
        copy_linear(mine.think.narrow, layer.linear2)
    assert (own.ending is None) == (theirs.norm is None)
    if own.ending is not None:
        copy_norm(own.ending, theirs.norm)


@pytest.mark.parametrize("order", ORDERS)
def test_the_encoder_is_torchs_with_the_same_weights(order):
    own, theirs = stirred(TransformerEncoder(settings(order=order))), torchs("encoder", order)
    copy_stack(own, theirs)
    source = ragged([5, 2, 7])
    memory = own(source)
    expected = theirs(source.values, src_key_padding_mask=~source.real)
    assert_close(memory.pack(), expected[source.real], rtol=0, atol=1e-10)
    assert_close(memory.summary[1], expected[1, :2].mean(0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
def test_the_decoder_is_torchs_with_the_same_weights(order):
    own, theirs = stirred(TransformerDecoder(settings(order=order), WIDTH)), torchs("decoder", order)
    copy_stack(own, theirs)
    target, memory = ragged([4, 6, 3]), some_memory([5, 2, 7])
    expected = theirs(
        target.values,
        memory.values,
        tgt_mask=torch.ones(6, 6, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=~target.real,
        memory_key_padding_mask=~memory.real,
    )
    assert_close(own(target, memory)[target.real], expected[target.real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
def test_gradients_are_torchs_too(order):
    own, theirs = stirred(TransformerEncoder(settings(order=order))), torchs("encoder", order)
    copy_stack(own, theirs)
    source = ragged([5, 2, 7])
    own(source).pack().square().sum().backward()
    theirs(source.values, src_key_padding_mask=~source.real)[source.real].square().sum().backward()
    mine = own.blocks[0].look.queries_keys_values.weight.grad
    assert_close(mine, theirs.layers[0].self_attn.in_proj_weight.grad, rtol=0, atol=1e-9)
