"""The mapping between Hugging Face's weight names of GPT-2 and Llama and the state-dict keys of seq2see.

A layout is a list of mappings, one for each weight of seq2see. Import concatenates the external tensors, export splits
the own tensor, and both use the shapes that are stored here, so there is one list for both directions.
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
    """One weight of seq2see and its external tensors: several of them are concatenated along the first axis."""

    key: str
    external: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the external tensors."""
    transpose: bool = False
    """Whether the external tensors are (in, out), as in GPT-2's Conv1D, instead of (out, in)."""
    is_vocabulary_table: bool = False
    """Whether there is one row per token: rows are reordered by the map of token ids."""
    flip: bool = False
    """Whether the order of the rows is reversed."""

    def from_external(self, tensors: list[Tensor]) -> Tensor:
        """The weight of seq2see, from the external tensors."""
        weight = torch.cat([tensor.T if self.transpose else tensor for tensor in tensors])
        return (weight.flip(0) if self.flip else weight).contiguous()

    def to_external(self, tensor: Tensor) -> dict[str, Tensor]:
        """The external tensors by name, from the weight of seq2see."""
        dim, tensor = -1 if self.transpose else 0, tensor.flip(0) if self.flip else tensor
        chunks = tensor.split([shape[dim] for shape in self.shapes])
        return {
            name: (chunk.T if self.transpose else chunk).contiguous()
            for name, chunk in zip(self.external, chunks, strict=True)
        }


def gpt2_mappings(settings: ModelSettings, size: int) -> Iterator[WeightMapping]:
    """GPT2LMHeadModel (Radford et al. 2019): queries, keys and values in one matrix, all matrices transposed."""
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
    """LlamaForCausalLM (Touvron et al. 2023): separate matrices for q, k and v, and for gate and up projection."""
    stack = decoder_settings_of(settings)
    width, hidden = stack.width, stack.feed_forward_width
    kv_width = stack.width // stack.heads * (stack.kv_heads or stack.heads)
    yield from _embedding_mappings(settings, size, "model.embed_tokens.weight")
    for number in range(stack.depth):
        key, external = f"decoder.blocks.{number}", f"model.layers.{number}"
        attention, mlp = f"{external}.self_attn", f"{external}.mlp"
        projections, widths = tuple(f"{attention}.{letter}_proj" for letter in "qkv"), (width, kv_width, kv_width)
        yield WeightMapping(
            f"{key}.self_attention_residual.norm.weight", (f"{external}.input_layernorm.weight",), ((width,),)
        )
        yield WeightMapping(
            f"{key}.feed_forward_residual.norm.weight", (f"{external}.post_attention_layernorm.weight",), ((width,),)
        )
        for part, names, shapes in (
            ("self_attention.qkv_proj", projections, tuple((out_features, width) for out_features in widths)),
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
    """The settings of the decoder, which must be a Transformer."""
    assert isinstance(settings.decoder, TransformerSettings)
    return settings.decoder


def _embedding_mappings(settings: ModelSettings, size: int, name: str) -> Iterator[WeightMapping]:
    """The token embedding, and the weight of the head if it is untied."""
    shapes = ((size, decoder_settings_of(settings).width),)
    yield WeightMapping("target.table.weight", (name,), shapes, is_vocabulary_table=True)
    if settings.target_text.head == "untied-no-bias":
        inner = "head.head" if settings.target_text.suppress_tokens else "head"
        yield WeightMapping(f"{inner}.project.weight", ("lm_head.weight",), shapes, is_vocabulary_table=True)


def norm_mappings(key: str, external: str, width: int) -> Iterator[WeightMapping]:
    """Weight and bias of a layer norm."""
    for part in ("weight", "bias"):
        yield WeightMapping(f"{key}.{part}", (f"{external}.{part}",), ((width,),))


@dataclass(frozen=True)
class WeightLayout:
    """One layout: its class in `transformers`, and the mappings of its weights."""

    architecture: str
    mappings: Callable[[ModelSettings, int], Iterator[WeightMapping]]
    base_model_prefix: str
    """The prefix of all weight names except the head's; some files do not have it."""
    ignored_suffixes: tuple[str, ...]
    """Suffixes of buffers that follow from the settings: causal masks and rotary frequencies."""


LAYOUTS = {
    "gpt2": WeightLayout("GPT2LMHeadModel", gpt2_mappings, "transformer.", (".attn.bias", ".attn.masked_bias")),
    "llama": WeightLayout("LlamaForCausalLM", llama_mappings, "model.", ("rotary_emb.inv_freq",)),
}


def format_shape(shape: tuple[int, ...] | list[int]) -> str:
    """A shape as text.

    >>> format_shape((3, 4))
    '3 x 4'
    """
    return " x ".join(map(str, shape)) if prod(shape) and shape else str(tuple(shape))
