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
class WeightMapping:
    """One of our weights, and those of theirs that hold the same numbers: several lie one below the other in ours."""

    key: str
    external: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of theirs."""
    transpose: bool = False
    """Whether theirs are (into, out), as GPT-2's are, and ours (out, into)."""
    is_vocabulary_table: bool = False
    """Whether there is a row for each token: these are renumbered."""
    flip: bool = False
    """Whether their first row is our last."""

    def from_external(self, tensors: list[Tensor]) -> Tensor:
        """Ours, of theirs."""
        joined = torch.cat([tensor.T if self.transpose else tensor for tensor in tensors])
        return (joined.flip(0) if self.flip else joined).contiguous()

    def to_external(self, tensor: Tensor) -> dict[str, Tensor]:
        """Theirs, of ours."""
        dim, tensor = -1 if self.transpose else 0, tensor.flip(0) if self.flip else tensor
        chunks = tensor.split([shape[dim] for shape in self.shapes])
        return {
            name: (chunk.T if self.transpose else chunk).contiguous()
            for name, chunk in zip(self.external, chunks, strict=True)
        }


def gpt2_mappings(settings: ModelSettings, size: int) -> Iterator[WeightMapping]:
    """GPT2LMHeadModel (Radford et al. 2019): queries, keys and values in one matrix, all matrices turned."""
    stack = decoder_settings_of(settings)
    width, hidden = stack.width, stack.feed_forward_width
    yield from _embedding_mappings(settings, size, "transformer.wte.weight")
    positions = settings.target_text.embedding.max_positions
    yield WeightMapping("target.positions.embedding.weight", ("transformer.wpe.weight",), ((positions, width),))
    for number in range(stack.depth):
        key, external = f"decoder.blocks.{number}", f"transformer.h.{number}"
        yield from norm_mappings(f"{key}.self_attention_residual.norm", f"{external}.ln_1", width)
        yield from norm_mappings(f"{key}.feed_forward_residual.norm", f"{external}.ln_2", width)
        for part, name, out_features, in_features in (
            ("self_attention.qkv_proj", "attn.c_attn", 3 * width, width),
            ("self_attention.out_proj", "attn.c_proj", width, width),
            ("feed_forward.up_proj", "mlp.c_fc", hidden, width),
            ("feed_forward.down_proj", "mlp.c_proj", width, hidden),
        ):
            yield WeightMapping(
                f"{key}.{part}.weight", (f"{external}.{name}.weight",), ((in_features, out_features),), transpose=True
            )
            yield WeightMapping(f"{key}.{part}.bias", (f"{external}.{name}.bias",), ((out_features,),))
    yield from norm_mappings("decoder.final_norm", "transformer.ln_f", width)


def llama_mappings(settings: ModelSettings, size: int) -> Iterator[WeightMapping]:
    """LlamaForCausalLM (Touvron et al. 2023): queries, keys and values apart, and the gate and what it lets through."""
    stack = decoder_settings_of(settings)
    width, hidden, shared = (
        stack.width,
        stack.feed_forward_width,
        stack.width // stack.heads * (stack.kv_heads or stack.heads),
    )
    yield from _embedding_mappings(settings, size, "model.embed_tokens.weight")
    for number in range(stack.depth):
        key, external = f"decoder.blocks.{number}", f"model.layers.{number}"
        attention, mlp = f"{external}.self_attn", f"{external}.mlp"
        projections, outs = tuple(f"{attention}.{letter}_proj" for letter in "qkv"), (width, shared, shared)
        yield WeightMapping(
            f"{key}.self_attention_residual.norm.weight", (f"{external}.input_layernorm.weight",), ((width,),)
        )
        yield WeightMapping(
            f"{key}.feed_forward_residual.norm.weight", (f"{external}.post_attention_layernorm.weight",), ((width,),)
        )
        for part, names, shapes in (
            ("self_attention.qkv_proj", projections, tuple((out_features, width) for out_features in outs)),
            ("self_attention.out_proj", (f"{attention}.o_proj",), ((width, width),)),
            ("feed_forward.up_proj", (f"{mlp}.gate_proj", f"{mlp}.up_proj"), ((hidden, width), (hidden, width))),
            ("feed_forward.down_proj", (f"{mlp}.down_proj",), ((width, hidden),)),
        ):
            yield WeightMapping(f"{key}.{part}.weight", tuple(f"{name}.weight" for name in names), shapes)
            if stack.bias and part.startswith("self_attention"):
                biases = tuple(f"{name}.bias" for name in names)
                yield WeightMapping(f"{key}.{part}.bias", biases, tuple(shape[:1] for shape in shapes))
    yield WeightMapping("decoder.final_norm.weight", ("model.norm.weight",), ((width,),))


def decoder_settings_of(settings: ModelSettings) -> TransformerSettings:
    """The settings of its blocks."""
    assert isinstance(settings.decoder, TransformerSettings)
    return settings.decoder


def _embedding_mappings(settings: ModelSettings, size: int, name: str) -> Iterator[WeightMapping]:
    """The table of tokens, and the head if it has a matrix of its own."""
    shapes = ((size, decoder_settings_of(settings).width),)
    yield WeightMapping("target.table.weight", (name,), shapes, is_vocabulary_table=True)
    if settings.target_text.head == "untied-no-bias":
        inner = "head.head" if settings.target_text.suppress_tokens else "head"
        yield WeightMapping(f"{inner}.project.weight", ("lm_head.weight",), shapes, is_vocabulary_table=True)


def norm_mappings(key: str, external: str, width: int) -> Iterator[WeightMapping]:
    """The two weights of a layer norm."""
    for part in ("weight", "bias"):
        yield WeightMapping(f"{key}.{part}", (f"{external}.{part}",), ((width,),))


@dataclass(frozen=True)
class WeightLayout:
    """One layout: the class that opens it there, and where its weights lie."""

    architecture: str
    mappings: Callable[[ModelSettings, int], Iterator[WeightMapping]]
    base_model_prefix: str
    """What the names of all weights but the head's begin with; some files leave it out."""
    ignored_suffixes: tuple[str, ...]
    """Endings of what some files hold, and the settings say as well: masks and angles."""


LAYOUTS = {
    "gpt2": WeightLayout("GPT2LMHeadModel", gpt2_mappings, "transformer.", (".attn.bias", ".attn.masked_bias")),
    "llama": WeightLayout("LlamaForCausalLM", llama_mappings, "model.", ("rotary_emb.inv_freq",)),
}


def format_shape(shape: tuple[int, ...] | list[int]) -> str:
    """A shape as people write it.

    >>> format_shape((3, 4))
    '3 x 4'
    """
    return " x ".join(map(str, shape)) if prod(shape) and shape else str(tuple(shape))
