"""GPT-2 and Llama of Hugging Face: `config.json` as model settings, and the layouts of their weights.

An unsupported option of `config.json` raises an error with its name.

A layout is a list of mappings, one for each weight of seq2see, from Hugging Face's weight names to state-dict keys.
Import concatenates the external tensors, export splits the tensor of seq2see, and both use the shapes that are stored
here, so there is one list for both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings

HF_ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu", "relu": "relu"}

# Options without a counterpart here: the only supported value, which is also the default of a missing key.
GPT2_REQUIRED_VALUES = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
LLAMA_REQUIRED_VALUES = {"hidden_act": "silu", "mlp_bias": False}


class JsonConfig:
    """A `config.json` with typed access to its values."""

    def __init__(self, tree: dict[str, Any], location: str):
        self.tree, self.location = tree, location

    def require(self, name: str) -> Any:
        """A required value."""
        if self.tree.get(name) is None:
            raise UserError(f"There is no '{name}' here.", location=self.location)
        return self.tree[name]

    def positive_int(self, name: str, default: int | None = None) -> int:
        """An integer of at least 1, which is required if there is no default."""
        value = self.require(name) if default is None else self.get(name, default)
        if type(value) is not int or value < 1:
            raise UserError(
                f"'{name}' is {value!r}, but it should be a whole number from 1 on.", location=self.location
            )
        return value

    def boolean(self, name: str, default: bool) -> bool:
        """True or false, or the default if the key is missing."""
        value = self.get(name, default)
        if type(value) is not bool:
            hint = f"Write true or false; the default is {str(default).lower()}."
            raise UserError(f"'{name}' is {value!r}, but it must be true or false.", location=self.location, hint=hint)
        return value

    def get(self, name: str, default: Any) -> Any:
        """A value, or the default if the key is missing."""
        value = self.tree.get(name)
        return default if value is None else value

    def table(self, name: str) -> dict[str, Any]:
        """A table of values, which is empty if the key is missing."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            raise UserError(f"'{name}' is {value!r}, but it should be a table.", location=self.location)
        return value

    def unsupported(self, name: str, value: Any, reason: str) -> UserError:
        """The error for a model that the layers of seq2see do not support."""
        return UserError(f"{name}={value!r} is not supported: {reason}.", location=self.location)

    def check(self, required: dict[str, Any]) -> None:
        """Raise an error for an option that has another value than the required one."""
        for name, expected in required.items():
            if self.get(name, expected) != expected:
                raise self.unsupported(name, self.tree[name], f"only {expected!r} is supported")


def gpt2_settings(config: JsonConfig, suppress_tokens: tuple[int, ...]) -> ModelSettings:
    """The model settings of a GPT-2."""
    config.check(GPT2_REQUIRED_VALUES)
    activation = config.get("activation_function", "gelu_new")
    if activation not in HF_ACTIVATIONS:
        raise config.unsupported("activation_function", activation, f"there are {', '.join(HF_ACTIVATIONS)}")
    width, max_positions = config.positive_int("n_embd"), config.positive_int("n_positions")
    decoder = {
        "kind": "transformer",
        "width": width,
        "depth": config.positive_int("n_layer"),
        "heads": config.positive_int("n_head"),
        "mlp_ratio": config.positive_int("n_inner", 4 * width) / width,
        "norm_eps": config.get("layer_norm_epsilon", 1e-5),
        "activation": HF_ACTIVATIONS[activation],
        "dropout": config.get("resid_pdrop", 0.1),
    }
    embedding = {"positions": "learned", "max_positions": max_positions, "scale": False}
    tied = config.boolean("tie_word_embeddings", True)
    return _settings(config, embedding, max_positions, decoder, suppress_tokens, tied)


def llama_settings(config: JsonConfig, suppress_tokens: tuple[int, ...]) -> ModelSettings:
    """The model settings of a Llama."""
    config.check(LLAMA_REQUIRED_VALUES)
    width, heads = config.positive_int("hidden_size"), config.positive_int("num_attention_heads")
    kv_heads = config.positive_int("num_key_value_heads", heads)
    if config.positive_int("head_dim", width // heads) * heads != width:
        raise config.unsupported("head_dim", config.tree["head_dim"], f"{heads} heads share a width of {width}")
    decoder = {
        "kind": "transformer",
        "width": width,
        "depth": config.positive_int("num_hidden_layers"),
        "heads": heads,
        "kv_heads": 0 if kv_heads == heads else kv_heads,
        "mlp_ratio": config.positive_int("intermediate_size") / width,
        "norm": "rms",
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "activation": "swiglu",
        "bias": config.boolean("attention_bias", False),
        "rope_theta": _rope_theta(config),
        "dropout": 0.0,
    }
    max_tokens = config.positive_int("max_position_embeddings")
    tied = config.boolean("tie_word_embeddings", False)
    return _settings(config, {"positions": "rotary", "scale": False}, max_tokens, decoder, suppress_tokens, tied)


def _rope_theta(config: JsonConfig) -> float:
    """The base of the rotary angles: newer files store it in a table; a scaling of the angles is not supported."""
    rope = config.table("rope_parameters") or config.table("rope_scaling")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise config.unsupported("rope_type", kind, "only 'default' is supported")
    return rope.get("rope_theta", config.get("rope_theta", 10_000.0))


def _settings(
    config: JsonConfig,
    embedding: dict[str, Any],
    max_tokens: int,
    decoder: dict[str, Any],
    suppress_tokens: tuple[int, ...],
    tied: bool,
) -> ModelSettings:
    target = {
        "tokenizer": {"kind": "pretrained"},
        "embedding": embedding,
        "max_tokens": max_tokens,
        "head": "tied" if tied else "untied-no-bias",
        "suppress_tokens": suppress_tokens,
    }
    return read_tree(ModelSettings, {"target": target, "decoder": decoder}, location=config.location)


SETTINGS = {"gpt2": gpt2_settings, "llama": llama_settings}


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
