"""Export of language models to folders that Hugging Face `transformers` loads, in the layouts of GPT-2 and Llama.

Some differences from GPT-2 are converted: positions of any kind that are added to the embeddings become a table of
learned positions; embeddings scaled by √width are stored scaled, and then the head is untied and stores the unscaled
embeddings; a linear layer without bias gets a bias of zeros. For everything else an error names the setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from seq2see.core.files import write_bytes, write_json
from seq2see.data.tokenizers.pretrained_tokenizer import PretrainedTokenizer, TokenIdMap
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, UNK
from seq2see.interop.causal_weights import HF_ACTIVATIONS, LAYOUTS, decoder_settings_of
from seq2see.interop.exportable import ExportableModel, require_language_model, setting_text, unsupported
from seq2see.interop.folders import atomic_folder
from seq2see.interop.hugging_face_files import ENGINE, decoding_json, write_causal_tokenizer
from seq2see.interop.vit_weights import position_table
from seq2see.models.named_tensors import named_tensors
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings

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


def identity_ids(size: int) -> TokenIdMap:
    """The token ids of a vocabulary that seq2see trained, which stay unchanged."""
    return TokenIdMap.of(size, bos_id=BOS, eos_id=EOS, pad_id=PAD, unk_id=UNK)


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
