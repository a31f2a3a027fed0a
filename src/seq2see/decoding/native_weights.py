"""A Transformer as the C++ code takes it in: a list of numbers and a list of tables, in a fixed order.

The order is that of `cpp/model.hpp`. In there a head occupies whole registers of sixteen numbers; heads
of another size are filled up with zeros here, in the weights, so that nothing has to care later.
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
    """What there is in a model that the C++ code does not know; None if it knows everything."""
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
        elif last in ("look", "look_back"):
            supported += [
                (name, module, (SelfAttention,)),
                (f"{name}.places", getattr(module, "places", None), (type(None),)),
            ]
        elif last in ("qkv_proj", "out_proj"):
            supported.append((f"{name}.bias", module.bias, (nn.Parameter,)))
        elif last.startswith("_residual"):
            supported += [(name, module, (PreNorm, PostNorm)), (f"{name}.norm", module.add_norm, (LayerNorm, RMSNorm))]
    for name, module, types in supported:
        if type(module) not in types:
            return f"its {name} is a {type(module).__name__}"
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    widest = max(look.out_proj.in_features // look.heads for look in attentions)
    if widest > MAX_HEAD_SIZE:
        return f"its heads have {widest} numbers, more than {MAX_HEAD_SIZE}"
    if any(weight.device.type != "cpu" for weight in model.parameters()):
        return "it is not on the CPU"
    return None


class NativeWeights:
    """The numbers and tables of a model, collected in order."""

    def __init__(self, model: Seq2Seq, precision: str):
        self.sizes: list[int] = [PRECISIONS[precision]]
        self.tensors: list[Tensor | None] = []
        self.retained_tensors: list[Tensor] = []  # tables that are not packed, but read as long as the twin lives
        self.add_stack(model.source, model.encoder)
        self.add_stack(model.target, model.decoder)
        if isinstance(model.head, TiedHead):
            self.add_weight(model.head.table.weight, None)
        elif isinstance(model.head, UntiedHead):
            self.add_linear(model.head.project)

    def add_stack(self, embedding: Any, stack: Any) -> None:
        """The encoder or the decoder, with the table of its tokens."""
        first = stack.blocks[0]
        norm = first.feed_forward_residual.add_norm
        heads = (first.self_attention if hasattr(first, "look") else first.self_attention).heads
        width, hidden = embedding.table.embedding_dim, first.feed_forward.up_proj.out_features
        self.sizes += [embedding.table.num_embeddings, width, len(stack.blocks), heads, width // heads, hidden]
        self.sizes += [int(type(first.feed_forward_residual) is PreNorm), int(isinstance(norm, LayerNorm))]
        vectors = _float32(embedding.table.weight).clone()  # a copy, so that training on does not change the twin
        self.retained_tensors.append(vectors)
        self.tensors += [vectors, torch.tensor([embedding.scale, norm.eps])]
        for block in stack.blocks:
            self.add_block(block, width // heads)
        if stack.final_norm is not None:
            self.add_norm(stack.final_norm)

    def add_block(self, block: Any, size: int) -> None:
        """What looks, what looks across (in a decoder), and what thinks; `size` is a head's."""
        if hasattr(block, "look"):
            self.add_norm(block.self_attention_residual.add_norm)
            self.add_head_projection(block.self_attention.qkv_proj, size)
            self.add_output_projection(block.self_attention.out_proj, size)
        else:
            self.add_norm(block.self_attention_residual.add_norm)
            self.add_head_projection(block.self_attention.qkv_proj, size)
            self.add_output_projection(block.self_attention.out_proj, size)
            self.add_norm(block.cross_attention_residual.add_norm)
            self.add_head_projection(block.cross_attention.q_proj, size)
            self.add_kv_projection(block.cross_attention.kv_proj, size)
            self.add_output_projection(block.cross_attention.out_proj, size)
        self.add_norm(block.feed_forward_residual.add_norm)
        self.add_linear(block.feed_forward.up_proj)
        self.add_linear(block.feed_forward.down_proj)

    def add_head_projection(self, linear: nn.Linear, size: int) -> None:
        """A product that gives queries, keys or values of all heads, or several of these."""
        weight = _pad_heads(linear.weight.unflatten(0, (-1, size)), 1).flatten(0, 1)
        self.add_weight(weight, _pad_heads(linear.bias.unflatten(0, (-1, size)), 1).flatten())

    def add_kv_projection(self, linear: nn.Linear, size: int) -> None:
        """The product that gives keys and values: each head's key and value side by side, as they are read."""
        weight = linear.weight.unflatten(0, (2, -1, size)).transpose(0, 1)
        bias = linear.bias.unflatten(0, (2, -1, size)).transpose(0, 1)
        self.add_weight(_pad_heads(weight, 2).flatten(0, 2), _pad_heads(bias, 2).flatten())

    def add_output_projection(self, linear: nn.Linear, size: int) -> None:
        """The product that mixes what the heads found."""
        self.add_weight(_pad_heads(linear.weight.unflatten(1, (-1, size)), 2).flatten(1), linear.bias)

    def add_linear(self, linear: nn.Linear) -> None:
        """A plain product."""
        self.add_weight(linear.weight, linear.bias)

    def add_weight(self, weight: Tensor, bias: Tensor | None) -> None:
        """A weight (columns, inputs) and what is added."""
        self.tensors += [_float32(weight), None if bias is None else _float32(bias)]

    def add_norm(self, norm: Any) -> None:
        """Scale and shift."""
        self.tensors += [_float32(norm.weight), _float32(norm.bias) if isinstance(norm, LayerNorm) else None]


def _float32(weight: Tensor) -> Tensor:
    return weight.detach().to(torch.float32).contiguous()


def _pad_heads(weight: Tensor, dimension: int) -> Tensor:
    """Zeros behind each head, up to a whole number of registers."""
    shape = list(weight.shape)
    shape[dimension] = -shape[dimension] % LANES
    return torch.cat([weight, weight.new_zeros(shape)], dimension)
