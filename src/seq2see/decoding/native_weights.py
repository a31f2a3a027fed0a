"""The weights of a Transformer for the C++ code: a list of sizes and a list of tensors, in a fixed order.

The order is that of `cpp/model.hpp`. In C++ a head occupies whole registers of sixteen numbers. The weights of heads of
other sizes are padded with zeros here, so that the rest of the code need not treat them differently.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seq2see.layers.attention import Attention, SelfAttention
from seq2see.layers.feed_forward import FeedForward
from seq2see.layers.norms import LayerNorm, RMSNorm
from seq2see.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions
from seq2see.layers.residual import PostNorm, PreNorm
from seq2see.models.heads import TiedHead, UntiedHead
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.token_embeddings import TokenEmbedding
from seq2see.models.transformer import TransformerDecoder, TransformerEncoder

LANES = 16
MAX_HEAD_SIZE = 128
PRECISIONS = {"float32": 0, "bf16": 1, "int8": 2}


def unsupported_part(model: Seq2Seq) -> str | None:
    """Name the part of a model that the C++ code does not support; None if it supports all of them."""
    if type(model) is not Seq2Seq:
        return "it is no plain sequence-to-sequence model"
    supported: list[tuple[str, Any, tuple[type, ...]]] = [
        ("source", model.source, (TokenEmbedding,)),
        ("encoder", model.encoder, (TransformerEncoder,)),
        ("target", model.target, (TokenEmbedding,)),
        ("decoder", model.decoder, (TransformerDecoder,)),
        ("head", model.head, (TiedHead, UntiedHead)),
    ]
    supported += [
        ("positions", getattr(side, "positions", None), (SinusoidalPositions, LearnedPositions, NoPositions))
        for side in (model.source, model.target)
    ]
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last == "feed_forward":
            supported.append((name, module, (FeedForward,)))
        elif last == "self_attention":
            supported += [
                (name, module, (SelfAttention,)),
                (f"{name}.relative_positions", getattr(module, "relative_positions", None), (type(None),)),
            ]
        elif last in ("qkv_proj", "out_proj"):
            supported.append((f"{name}.bias", module.bias, (nn.Parameter,)))
        elif last.endswith("_residual"):
            supported += [(name, module, (PreNorm, PostNorm)), (f"{name}.norm", module.norm, (LayerNorm, RMSNorm))]
    for name, module, types in supported:
        if type(module) not in types:
            return f"its {name} is a {type(module).__name__}"
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    head_size = max(attention.out_proj.in_features // attention.heads for attention in attentions)
    if head_size > MAX_HEAD_SIZE:
        return f"its heads have {head_size} numbers, more than {MAX_HEAD_SIZE}"
    if any(weight.device.type != "cpu" for weight in model.parameters()):
        return "it is not on the CPU"
    return None


class NativeWeights:
    """The sizes and tensors of a model, collected in the order in which the C++ code reads them."""

    def __init__(self, model: Seq2Seq, precision: str):
        self.sizes: list[int] = [PRECISIONS[precision]]
        self.tensors: list[Tensor | None] = []
        self.retained_tensors: list[Tensor] = []  # tensors that C++ does not copy, but reads at every step
        self.add_stack(model.source, model.encoder)
        self.add_stack(model.target, model.decoder)
        if isinstance(model.head, TiedHead):
            self.add_weight(model.head.table.weight, None)
        elif isinstance(model.head, UntiedHead):
            self.add_linear(model.head.project)

    def add_stack(self, embedding: Any, stack: Any) -> None:
        """Add the encoder or the decoder, with its token embeddings."""
        first = stack.blocks[0]
        norm = first.feed_forward_residual.norm
        heads = first.self_attention.heads
        width, hidden = embedding.table.embedding_dim, first.feed_forward.up_proj.out_features
        self.sizes += [embedding.table.num_embeddings, width, len(stack.blocks), heads, width // heads, hidden]
        self.sizes += [int(type(first.feed_forward_residual) is PreNorm), int(isinstance(norm, LayerNorm))]
        table = _float32(embedding.table.weight).clone()  # a copy, so that later training does not change it
        self.retained_tensors.append(table)
        self.tensors += [table, torch.tensor([embedding.scale, norm.eps])]
        for block in stack.blocks:
            self.add_block(block, width // heads)
        if stack.final_norm is not None:
            self.add_norm(stack.final_norm)

    def add_block(self, block: Any, size: int) -> None:
        """Add self-attention, cross-attention (in a decoder) and feed-forward; `size` is the size of a head."""
        self.add_norm(block.self_attention_residual.norm)
        self.add_head_projection(block.self_attention.qkv_proj, size)
        self.add_output_projection(block.self_attention.out_proj, size)
        if hasattr(block, "cross_attention"):
            self.add_norm(block.cross_attention_residual.norm)
            self.add_head_projection(block.cross_attention.q_proj, size)
            self.add_kv_projection(block.cross_attention.kv_proj, size)
            self.add_output_projection(block.cross_attention.out_proj, size)
        self.add_norm(block.feed_forward_residual.norm)
        self.add_linear(block.feed_forward.up_proj)
        self.add_linear(block.feed_forward.down_proj)

    def add_head_projection(self, linear: nn.Linear, size: int) -> None:
        """Add a projection to queries, keys or values of all heads, or to several of them."""
        weight = _pad_heads(linear.weight.unflatten(0, (-1, size)), 1).flatten(0, 1)
        self.add_weight(weight, _pad_heads(linear.bias.unflatten(0, (-1, size)), 1).flatten())

    def add_kv_projection(self, linear: nn.Linear, size: int) -> None:
        """Add the projection to keys and values, reordered: the key and the value of each head are adjacent."""
        weight = linear.weight.unflatten(0, (2, -1, size)).transpose(0, 1)
        bias = linear.bias.unflatten(0, (2, -1, size)).transpose(0, 1)
        self.add_weight(_pad_heads(weight, 2).flatten(0, 2), _pad_heads(bias, 2).flatten())

    def add_output_projection(self, linear: nn.Linear, size: int) -> None:
        """Add the output projection of attention."""
        self.add_weight(_pad_heads(linear.weight.unflatten(1, (-1, size)), 2).flatten(1), linear.bias)

    def add_linear(self, linear: nn.Linear) -> None:
        """Add a linear layer."""
        self.add_weight(linear.weight, linear.bias)

    def add_weight(self, weight: Tensor, bias: Tensor | None) -> None:
        """Add a weight (columns, inputs) and a bias."""
        self.tensors += [_float32(weight), None if bias is None else _float32(bias)]

    def add_norm(self, norm: Any) -> None:
        """Add the weight and the bias of a norm."""
        self.tensors += [_float32(norm.weight), _float32(norm.bias) if isinstance(norm, LayerNorm) else None]


def _float32(weight: Tensor) -> Tensor:
    return weight.detach().to(torch.float32).contiguous()


def _pad_heads(weight: Tensor, dimension: int) -> Tensor:
    """Append zeros to each head, up to a whole number of registers."""
    shape = list(weight.shape)
    shape[dimension] = -shape[dimension] % LANES
    return torch.cat([weight, weight.new_zeros(shape)], dimension)
