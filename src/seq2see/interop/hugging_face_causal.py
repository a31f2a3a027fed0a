"""GPT-2 and Llama of Hugging Face, in both directions: options, weight names, and the export of language models.

Some differences from GPT-2 are converted at export: positions of any kind that are added to the embeddings become a
table of learned positions; embeddings scaled by √width are stored scaled, and then the head is untied and stores the
unscaled embeddings; a linear layer without bias gets a bias of zeros. For everything else an error names the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from seq2see.core.files import atomic_folder, write_bytes, write_json
from seq2see.core.settings import read_tree
from seq2see.data.tokenizers.pretrained_tokenizer import PretrainedTokenizer, TokenIdMap
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.interop.checkpoint_files import HF_ACTIVATIONS, JsonConfig, WeightMapping, norm_mappings
from seq2see.interop.exportable import (
    ExportableModel,
    position_table,
    require_language_model,
    setting_text,
    unsupported,
)
from seq2see.interop.hugging_face_files import ENGINE, decoding_json, identity_ids, write_causal_tokenizer
from seq2see.models.build import named_tensors
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings

# Options without a counterpart here: the only supported value, which is also the default of a missing key.
GPT2_REQUIRED_VALUES = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
LLAMA_REQUIRED_VALUES = {"hidden_act": "silu", "mlp_bias": False}


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


# --- export ---


LAYOUT_BY_NORM = {"layer": "gpt2", "rms": "llama"}
# The supported values of each setting, by layout; another value raises an error.
SUPPORTED: dict[str, dict[str, tuple[Any, ...]]] = {
    "gpt2": {
        "target.embedding.positions": ("learned", "sinusoidal", "none"),
        "decoder.activation": tuple(HF_ACTIVATIONS.values()),
        "decoder.kv_heads": (0,),
        "decoder.norm_order": ("pre",),
        "target.head": ("tied", "untied-no-bias"),
    },
    "llama": {
        "target.embedding.positions": ("rotary",),
        "decoder.activation": ("swiglu",),
        "decoder.norm_order": ("pre",),
        "target.head": ("tied", "untied-no-bias"),
    },
}


def causal_layout(settings: ModelSettings) -> str:
    """The layout for a language model with these settings; an unsupported setting raises an error."""
    decoder = settings.decoder
    if not isinstance(decoder, TransformerSettings):
        kind = decoder.kind if decoder else "none"
        raise unsupported(ENGINE, f"decoder.kind={kind}", "among language models only Transformers are supported there")
    if not settings.generates:
        raise unsupported(
            ENGINE, f"target.kind={settings.target.kind}", "only models that generate text are supported there"
        )
    if decoder.norm not in LAYOUT_BY_NORM:
        raise unsupported(ENGINE, f"decoder.norm={decoder.norm}", "GPT-2 has layer norm, Llama RMS norm")
    layout = LAYOUT_BY_NORM[decoder.norm]
    for path, values in SUPPORTED[layout].items():
        value: Any = settings
        for name in path.split("."):
            value = getattr(value, name)
        if value not in values:
            supported = " or ".join(dict.fromkeys(map(setting_text, values)))
            reason = f"with decoder.norm={decoder.norm} it is {supported} in {LAYOUTS[layout].architecture}"
            raise unsupported(ENGINE, f"{path}={setting_text(value)}", reason)
    return layout


def write_causal(stored: ExportableModel, folder: Path) -> None:
    """Write a folder that `AutoModelForCausalLM` and `AutoTokenizer` load."""
    layout = causal_layout(stored.config.model)
    module: Any = require_language_model(stored, ENGINE)
    text = stored.tokenizers.target
    id_map = text.id_map if isinstance(text, PretrainedTokenizer) else identity_ids(len(text))
    if id_map.missing != stored.config.model.target_text.suppress_tokens:
        setting = f"target.suppress_tokens={list(stored.config.model.target_text.suppress_tokens)}"
        raise unsupported(ENGINE, setting, "every id of a seq2see vocabulary is a token there")
    layout_settings = to_layout_settings(stored.config.model)
    size = len(id_map.original_ids) - len(id_map.missing)
    with atomic_folder(folder) as temporary:
        specials = _special_ids(id_map)
        write_json(
            temporary / "config.json",
            _CONFIGS[layout](layout_settings) | _head(layout, layout_settings, size) | specials,
        )
        never_generated = (id_map.original_ids[PAD], id_map.original_ids[BOS])
        suppress_tokens = [number for number in never_generated if number is not None]
        generation = decoding_json(stored.config.decoding, suppress_tokens, layout_settings.max_prompt_tokens)
        write_json(temporary / "generation_config.json", generation | specials)
        write_causal_tokenizer(text, temporary, layout_settings.target_text.max_tokens, specials)
        weights = _weights(module, stored.config.model, layout_settings)
        exported: dict[str, Tensor] = {}
        for mapping in LAYOUTS[layout].mappings(layout_settings, size):
            weight = weights[mapping.key]
            exported |= mapping.to_external(id_map.restore_rows(weight) if mapping.is_vocabulary_table else weight)
        write_bytes(temporary / "model.safetensors", save(exported, metadata={"format": "pt"}))


def to_layout_settings(settings: ModelSettings) -> ModelSettings:
    """Equivalent settings in the layout: unscaled embeddings, and learned or rotary positions."""
    target = settings.target_text
    changes: dict[str, Any] = {"target.embedding.scale": False}
    if target.embedding.scale and target.head == "tied":
        changes["target.head"] = "untied-no-bias"
    if target.embedding.positions != "rotary":
        learned = target.embedding.max_positions if target.embedding.positions == "learned" else 1
        changes |= {
            "target.embedding.positions": "learned",
            "target.embedding.max_positions": max(target.max_tokens, learned),
        }
        changes |= {"decoder.bias": True}
    return settings.with_(**changes)


@torch.no_grad()
def _weights(module: Any, settings: ModelSettings, layout_settings: ModelSettings) -> dict[str, Tensor]:
    """The weights under seq2see's names, for a model with the settings of the layout."""
    weights = {name: tensor.float().cpu().clone() for name, tensor in named_tensors(module).items()}
    table = weights["target.table.weight"]
    if layout_settings.target_text.head != settings.target_text.head:
        inner = "head.head" if settings.target_text.suppress_tokens else "head"
        weights[f"{inner}.project.weight"] = table.clone()
    table *= module.target.scale
    if layout_settings.target_text.embedding.positions == "learned":
        rows = layout_settings.target_text.embedding.max_positions
        weights["target.positions.embedding.weight"] = position_table(module.target, rows)
    if layout_settings.decoder != settings.decoder:
        for number in range(decoder_settings_of(layout_settings).depth):
            attention = f"decoder.blocks.{number}.self_attention"
            for name in (f"{attention}.qkv_proj", f"{attention}.out_proj"):
                weights[f"{name}.bias"] = torch.zeros(weights[f"{name}.weight"].size(0))
    return weights


def _special_ids(id_map: TokenIdMap) -> dict[str, Any]:
    return {
        "bos_token_id": id_map.bos_id,
        "eos_token_id": id_map.original_ids[EOS],
        "pad_token_id": id_map.original_ids[PAD],
    }


def _head(layout: str, settings: ModelSettings, size: int) -> dict[str, Any]:
    return {
        "architectures": [LAYOUTS[layout].architecture],
        "model_type": layout,
        "vocab_size": size,
        "tie_word_embeddings": settings.target_text.head == "tied",
        "dtype": "float32",
    }


def _gpt2_config(settings: ModelSettings) -> dict[str, Any]:
    stack = settings.decoder
    assert isinstance(stack, TransformerSettings)
    activation = {"gelu-tanh": "gelu_new"}.get(stack.activation, stack.activation)
    return {
        "n_positions": settings.target_text.embedding.max_positions,
        "n_embd": stack.width,
        "n_layer": stack.depth,
        "n_head": stack.heads,
        "n_inner": stack.feed_forward_width,
        "activation_function": activation,
        "layer_norm_epsilon": stack.norm_eps,
        "resid_pdrop": stack.dropout,
        "embd_pdrop": stack.dropout,
        "attn_pdrop": 0.0,
    }


def _llama_config(settings: ModelSettings) -> dict[str, Any]:
    stack = settings.decoder
    assert isinstance(stack, TransformerSettings)
    return {
        "max_position_embeddings": settings.target_text.max_tokens,
        "hidden_size": stack.width,
        "num_hidden_layers": stack.depth,
        "num_attention_heads": stack.heads,
        "num_key_value_heads": stack.kv_heads or stack.heads,
        "intermediate_size": stack.feed_forward_width,
        "hidden_act": "silu",
        "rms_norm_eps": stack.norm_eps,
        "attention_bias": stack.bias,
        # Newer versions of `transformers` read the table, older ones the number.
        "rope_parameters": {"rope_type": "default", "rope_theta": stack.rope_theta},
        "rope_theta": stack.rope_theta,
    }


_CONFIGS = {"gpt2": _gpt2_config, "llama": _llama_config}
