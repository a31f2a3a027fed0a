"""Where the weights of GPT-2 and Llama lie in Hugging Face's layouts, and where the same weights lie in ours.

A layout is a table of places, one for each of our weights. Reading puts their tensors into ours, writing puts ours into
theirs, and both check or cut by the shapes that stand here, so there is one table for both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings


@dataclass(frozen=True)
class Place:
    """One of our weights, and those of theirs that hold the same numbers: several lie one below the other in ours."""

    ours: str
    theirs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of theirs."""
    turned: bool = False
    """Whether theirs are (into, out), as GPT-2's are, and ours (out, into)."""
    by_token: bool = False
    """Whether there is a row for each token: these are renumbered."""
    flipped: bool = False
    """Whether their first row is our last."""

    def join(self, tensors: list[Tensor]) -> Tensor:
        """Ours, of theirs."""
        joined = torch.cat([tensor.T if self.turned else tensor for tensor in tensors])
        return (joined.flip(0) if self.flipped else joined).contiguous()

    def part(self, tensor: Tensor) -> dict[str, Tensor]:
        """Theirs, of ours."""
        into, tensor = -1 if self.turned else 0, tensor.flip(0) if self.flipped else tensor
        pieces = tensor.split([shape[into] for shape in self.shapes])
        return {
            name: (piece.T if self.turned else piece).contiguous()
            for name, piece in zip(self.theirs, pieces, strict=True)
        }


def gpt2_places(settings: ModelSettings, size: int) -> Iterator[Place]:
    """GPT2LMHeadModel (Radford et al. 2019): queries, keys and values in one matrix, all matrices turned."""
    stack = stack_of(settings)
    width, hidden = stack.width, stack.hidden
    yield from _tables(settings, size, "transformer.wte.weight")
    positions = settings.written.frontend.longest
    yield Place("target.positions.table.weight", ("transformer.wpe.weight",), ((positions, width),))
    for number in range(stack.depth):
        ours, theirs = f"decoder.blocks.{number}", f"transformer.h.{number}"
        yield from norm_places(f"{ours}.around_look.norm", f"{theirs}.ln_1", width)
        yield from norm_places(f"{ours}.around_think.norm", f"{theirs}.ln_2", width)
        for part, name, out, into in (
            ("look.queries_keys_values", "attn.c_attn", 3 * width, width),
            ("look.output", "attn.c_proj", width, width),
            ("think.widen", "mlp.c_fc", hidden, width),
            ("think.narrow", "mlp.c_proj", width, hidden),
        ):
            yield Place(f"{ours}.{part}.weight", (f"{theirs}.{name}.weight",), ((into, out),), turned=True)
            yield Place(f"{ours}.{part}.bias", (f"{theirs}.{name}.bias",), ((out,),))
    yield from norm_places("decoder.ending", "transformer.ln_f", width)


def llama_places(settings: ModelSettings, size: int) -> Iterator[Place]:
    """LlamaForCausalLM (Touvron et al. 2023): queries, keys and values apart, and the gate and what it lets through."""
    stack = stack_of(settings)
    width, hidden, shared = stack.width, stack.hidden, stack.width // stack.heads * (stack.key_heads or stack.heads)
    yield from _tables(settings, size, "model.embed_tokens.weight")
    for number in range(stack.depth):
        ours, theirs = f"decoder.blocks.{number}", f"model.layers.{number}"
        look, think = f"{theirs}.self_attn", f"{theirs}.mlp"
        projections, outs = tuple(f"{look}.{letter}_proj" for letter in "qkv"), (width, shared, shared)
        yield Place(f"{ours}.around_look.norm.weight", (f"{theirs}.input_layernorm.weight",), ((width,),))
        yield Place(f"{ours}.around_think.norm.weight", (f"{theirs}.post_attention_layernorm.weight",), ((width,),))
        for part, names, shapes in (
            ("look.queries_keys_values", projections, tuple((out, width) for out in outs)),
            ("look.output", (f"{look}.o_proj",), ((width, width),)),
            ("think.widen", (f"{think}.gate_proj", f"{think}.up_proj"), ((hidden, width), (hidden, width))),
            ("think.narrow", (f"{think}.down_proj",), ((width, hidden),)),
        ):
            yield Place(f"{ours}.{part}.weight", tuple(f"{name}.weight" for name in names), shapes)
            if stack.matrices == "biased" and part.startswith("look"):
                biases = tuple(f"{name}.bias" for name in names)
                yield Place(f"{ours}.{part}.bias", biases, tuple(shape[:1] for shape in shapes))
    yield Place("decoder.ending.weight", ("model.norm.weight",), ((width,),))


def stack_of(settings: ModelSettings) -> TransformerSettings:
    """The settings of its blocks."""
    assert isinstance(settings.decoder, TransformerSettings)
    return settings.decoder


def _tables(settings: ModelSettings, size: int, name: str) -> Iterator[Place]:
    """The table of tokens, and the head if it has a matrix of its own."""
    shapes = ((size, stack_of(settings).width),)
    yield Place("target.table.weight", (name,), shapes, by_token=True)
    if settings.written.head == "plain":
        inner = "head.head" if settings.written.missing else "head"
        yield Place(f"{inner}.project.weight", ("lm_head.weight",), shapes, by_token=True)


def norm_places(ours: str, theirs: str, width: int) -> Iterator[Place]:
    """The two weights of a layer norm."""
    for part in ("weight", "bias"):
        yield Place(f"{ours}.{part}", (f"{theirs}.{part}",), ((width,),))


@dataclass(frozen=True)
class Layout:
    """One layout: the class that opens it there, and where its weights lie."""

    architecture: str
    places: Callable[[ModelSettings, int], Iterator[Place]]
    body: str
    """What the names of all weights but the head's begin with; some files leave it out."""
    computed: tuple[str, ...]
    """Endings of what some files hold, and the settings say as well: masks and angles."""


LAYOUTS = {
    "gpt2": Layout("GPT2LMHeadModel", gpt2_places, "transformer.", (".attn.bias", ".attn.masked_bias")),
    "llama": Layout("LlamaForCausalLM", llama_places, "model.", ("rotary_emb.inv_freq",)),
}


def shown(shape: tuple[int, ...] | list[int]) -> str:
    """A shape as people write it.

    >>> shown((3, 4))
    '3 x 4'
    """
    return " x ".join(map(str, shape)) if prod(shape) and shape else str(tuple(shape))
