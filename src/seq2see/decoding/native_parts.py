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
from seq2see.layers.matrices import Product
from seq2see.layers.norms import LayerNorm, RMSNorm
from seq2see.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions
from seq2see.layers.residual import PostNorm, PreNorm
from seq2see.models.frontends import TokenFrontend
from seq2see.models.heads import FreeHead, TiedHead
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.transformer import TransformerDecoder, TransformerEncoder

LANES = 16
WIDEST_HEAD = 128
PRECISIONS = {"float32": 0, "bf16": 1, "int8": 2}


def unsupported(model: Seq2Seq) -> str | None:
    """What there is in a model that the C++ code does not know; None if it knows everything."""
    if type(model) is not Seq2Seq:
        return "it is no plain sequence-to-sequence model"
    known: list[tuple[str, Any, tuple[type, ...]]] = [
        ("source", model.source, (TokenFrontend,)),
        ("encoder", model.encoder, (TransformerEncoder,)),
        ("target", model.target, (TokenFrontend,)),
        ("decoder", model.decoder, (TransformerDecoder,)),
        ("head", model.head, (TiedHead, FreeHead)),
    ]
    known += [
        ("positions", getattr(side, "positions", None), (SinusoidalPositions, LearnedPositions, NoPositions))
        for side in (model.source, model.target)
    ]
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last == "think":
            known.append((name, module, (FeedForward,)))
        elif last in ("look", "look_back"):
            known += [
                (name, module, (SelfAttention,)),
                (f"{name}.places", getattr(module, "places", None), (type(None),)),
            ]
        elif isinstance(module, Product):
            known.append((name, module, (nn.Linear,)))
        elif last.startswith("around_"):
            known += [(name, module, (PreNorm, PostNorm)), (f"{name}.norm", module.norm, (LayerNorm, RMSNorm))]
    for name, module, types in known:
        if type(module) not in types:
            return f"its {name} is a {type(module).__name__}"
    looks = [module for module in model.modules() if isinstance(module, Attention)]
    widest = max(look.output.in_features // look.heads for look in looks)
    if widest > WIDEST_HEAD:
        return f"its heads have {widest} numbers, more than {WIDEST_HEAD}"
    if any(weight.device.type != "cpu" for weight in model.parameters()):
        return "it is not on the CPU"
    return None


class Parts:
    """The numbers and tables of a model, collected in order."""

    def __init__(self, model: Seq2Seq, precision: str):
        self.numbers: list[int] = [PRECISIONS[precision]]
        self.tables: list[Tensor | None] = []
        self.read_on: list[Tensor] = []  # tables that are not packed, but read as long as the twin lives
        self.half(model.source, model.encoder)
        self.half(model.target, model.decoder)
        if isinstance(model.head, TiedHead):
            self.matrix(model.head.table.weight, None)
        elif isinstance(model.head, FreeHead):
            self.linear(model.head.project)

    def half(self, frontend: Any, stack: Any) -> None:
        """The encoder or the decoder, with the table of its tokens."""
        first = stack.blocks[0]
        norm = first.around_think.norm
        heads = (first.look if hasattr(first, "look") else first.look_back).heads
        width, hidden = frontend.table.embedding_dim, first.think.widen.out_features
        self.numbers += [frontend.table.num_embeddings, width, len(stack.blocks), heads, width // heads, hidden]
        self.numbers += [int(type(first.around_think) is PreNorm), int(isinstance(norm, LayerNorm))]
        vectors = _plain(frontend.table.weight).clone()  # a copy, so that training on does not change the twin
        self.read_on.append(vectors)
        self.tables += [vectors, torch.tensor([frontend.scale, norm.epsilon])]
        for block in stack.blocks:
            self.block(block, width // heads)
        if stack.ending is not None:
            self.norm(stack.ending)

    def block(self, block: Any, size: int) -> None:
        """What looks, what looks across (in a decoder), and what thinks; `size` is a head's."""
        if hasattr(block, "look"):
            self.norm(block.around_look.norm)
            self.to_heads(block.look.queries_keys_values, size)
            self.from_heads(block.look.output, size)
        else:
            self.norm(block.around_back.norm)
            self.to_heads(block.look_back.queries_keys_values, size)
            self.from_heads(block.look_back.output, size)
            self.norm(block.around_across.norm)
            self.to_heads(block.look_across.queries, size)
            self.to_pairs(block.look_across.keys_values, size)
            self.from_heads(block.look_across.output, size)
        self.norm(block.around_think.norm)
        self.linear(block.think.widen)
        self.linear(block.think.narrow)

    def to_heads(self, linear: nn.Linear, size: int) -> None:
        """A product that gives queries, keys or values of all heads, or several of these."""
        weight = _filled_up(linear.weight.unflatten(0, (-1, size)), 1).flatten(0, 1)
        self.matrix(weight, _filled_up(linear.bias.unflatten(0, (-1, size)), 1).flatten())

    def to_pairs(self, linear: nn.Linear, size: int) -> None:
        """The product that gives keys and values: each head's key and value side by side, as they are read."""
        weight = linear.weight.unflatten(0, (2, -1, size)).transpose(0, 1)
        bias = linear.bias.unflatten(0, (2, -1, size)).transpose(0, 1)
        self.matrix(_filled_up(weight, 2).flatten(0, 2), _filled_up(bias, 2).flatten())

    def from_heads(self, linear: nn.Linear, size: int) -> None:
        """The product that mixes what the heads found."""
        self.matrix(_filled_up(linear.weight.unflatten(1, (-1, size)), 2).flatten(1), linear.bias)

    def linear(self, linear: nn.Linear) -> None:
        """A plain product."""
        self.matrix(linear.weight, linear.bias)

    def matrix(self, weight: Tensor, bias: Tensor | None) -> None:
        """A weight (columns, inputs) and what is added."""
        self.tables += [_plain(weight), None if bias is None else _plain(bias)]

    def norm(self, norm: Any) -> None:
        """Scale and shift."""
        self.tables += [_plain(norm.weight), _plain(norm.bias) if isinstance(norm, LayerNorm) else None]


def _plain(weight: Tensor) -> Tensor:
    return weight.detach().to(torch.float32).contiguous()


def _filled_up(weight: Tensor, dimension: int) -> Tensor:
    """Zeros behind each head, up to a whole number of registers."""
    shape = list(weight.shape)
    shape[dimension] = -shape[dimension] % LANES
    return torch.cat([weight, weight.new_zeros(shape)], dimension)
