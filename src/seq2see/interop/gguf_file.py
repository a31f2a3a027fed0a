"""Llama models in one GGUF file, the format of llama.cpp, often quantized to four bits per weight.

A file holds metadata (named numbers and texts), then tensors. The `gguf` package reads them and dequantizes the weights
to float32; names are mapped to Hugging Face's, and the rest of the import is that of a Hugging Face folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2see.core.documents import refuse_special
from seq2see.core.errors import UserError, require_packages
from seq2see.core.settings import read_tree
from seq2see.data.tokenizers.pretrained_tokenizer import DOWNLOAD_AGAIN, byte_level_json
from seq2see.decoding.engine import Decoding
from seq2see.interop.checkpoint_files import JsonConfig, check_finite
from seq2see.interop.hugging_face_files import template_processing
from seq2see.interop.pretrained import DEFAULT_MAX_NEW_TOKENS, PretrainedModel, build_pretrained

TENSOR_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONFIG_KEYS = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "rope.dimension_count",  # the dimensions of a head that are rotated: all of them here
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
}
PRE_TOKENIZERS = {"smollm": True, "gpt-2": False, "default": False}
"""Supported pre-tokenizers, and whether each splits numbers into digits."""
CONTROL_TOKEN = 3
"""The token type of special tokens."""


def read_gguf(path: Path) -> PretrainedModel:
    """The model in a GGUF file."""
    require_packages("gguf", "gguf")
    from gguf import GGUFReader

    refuse_special(path)
    try:
        reader = GGUFReader(path)
        metadata = {name: field.contents() for name, field in reader.fields.items()}
        return _read_model(path, reader, metadata)
    except UserError:
        raise
    except Exception as error:  # the readers of file and tokenizer raise many types for damaged data
        message = f"This GGUF file cannot be read: {type(error).__name__} {str(error)[:200]}."
        raise UserError(message, location=str(path), hint=DOWNLOAD_AGAIN) from None


def _read_model(path: Path, reader: Any, metadata: dict[str, Any]) -> PretrainedModel:
    """The model with these metadata."""
    kind = metadata.get("general.architecture")
    if kind != "llama":
        message = f"Only GGUF files of llama are supported, and the architecture of this one is {kind}."
        raise UserError(message, location=str(path), hint="Give a file of a Llama model.")
    tensors = GgufTensors(path, reader, metadata)
    decoding = read_tree(Decoding, {"max_new_tokens": DEFAULT_MAX_NEW_TOKENS})
    return build_pretrained("llama", _config(path, metadata, tensors), tensors, _tokenizer(path, metadata), decoding)


class GgufTensors:
    """The tensors of a GGUF file under Hugging Face's names."""

    def __init__(self, path: Path, reader: Any, metadata: dict[str, Any]):
        self.location = str(path)
        self._tensors = {_hugging_face_name(tensor.name): tensor for tensor in reader.tensors}
        heads = metadata.get("llama.attention.head_count")
        self._heads = {"q_proj": heads, "k_proj": metadata.get("llama.attention.head_count_kv", heads)}

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor, without reading any; the file lists the innermost dimension first."""
        return {name: tuple(int(size) for size in tensor.shape[::-1]) for name, tensor in self._tensors.items()}

    def read(self, name: str) -> Tensor:
        """One tensor, in float32."""
        from gguf.quants import dequantize

        tensor = self._tensors[name]
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            message = f"The weight '{name}' is in {tensor.tensor_type.name}, which is not supported."
            hint = "Give the file in another quantization, for example F16 or Q8_0."
            raise UserError(message, location=self.location, hint=hint) from None
        weight = check_finite(torch.from_numpy(values.copy()), name, self.location)
        heads = self._heads.get(name.split(".")[-2])
        return weight if heads is None else reverse_permute(weight, heads)


def reverse_permute(weight: Tensor, heads: int) -> Tensor:
    """The rows of the query or key projection in the order of Hugging Face's Llama.

    llama.cpp rotates pairs of adjacent dimensions, Llama the dimensions i and i + size / 2 (see `RotaryPositions`).
    So in GGUF files the two rows of a pair are adjacent; this function inverts that permutation.
    """
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _hugging_face_name(name: str) -> str:
    """`blk.3.attn_q.weight` as `model.layers.3.self_attn.q_proj.weight`; an unknown name stays as it is."""
    *block, part, suffix = name.split(".")
    mapped = TENSOR_NAMES.get(part)
    if mapped is None:
        return name
    return ".".join([*(("model.layers", block[1]) if block else ()), mapped, suffix])


def _config(path: Path, metadata: dict[str, Any], tensors: GgufTensors) -> JsonConfig:
    tree = {name: metadata.get(f"llama.{gguf_key}") for name, gguf_key in CONFIG_KEYS.items()}
    tree |= {f"{name}_token_id": metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")}
    tree |= {
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
        "vocab_size": len(metadata.get("tokenizer.ggml.tokens", [])),
        "tie_word_embeddings": "lm_head.weight" not in tensors.shapes(),
    }
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if metadata.get("llama.rope.scale_linear", 1) != 1:  # the key of older files
        scaling = "linear"
    if scaling != "none":
        tree["rope_scaling"] = {"type": scaling}
    return JsonConfig(tree, str(path))


def _check_vocabulary(path: Path, tokens: Any, metadata: dict[str, Any]) -> None:
    """Raise an error for a vocabulary without merges, with repeated tokens, or with special ids outside of it."""
    fault, ids = "", [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "padding")]
    if "tokenizer.ggml.merges" not in metadata:
        fault = "has no merges"
    elif not isinstance(tokens, list) or len(set(tokens)) < len(tokens):
        fault = "has repeated tokens"
    elif any(each is not None and (type(each) is not int or not 0 <= each < len(tokens)) for each in ids):
        fault = f"has {len(tokens):,} tokens, and a special token with an id outside of them"
    if fault:
        raise UserError(f"The tokenizer of this file {fault}.", location=str(path), hint=DOWNLOAD_AGAIN)


def _tokenizer(path: Path, metadata: dict[str, Any]) -> dict[str, Any]:
    """A `tokenizer.json` with the vocabulary and the merges of the file."""
    kind, pre_tokenizer = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or pre_tokenizer not in PRE_TOKENIZERS:
        message = f"The tokenizer of this file is not supported: {kind}, {pre_tokenizer}."
        raise UserError(message, location=str(path), hint="Give the model's Hugging Face folder instead.")
    tokens = metadata.get("tokenizer.ggml.tokens", [])
    _check_vocabulary(path, tokens, metadata)
    types = metadata.get("tokenizer.ggml.token_type", [])
    specials = [token for token, token_type in zip(tokens, types, strict=False) if token_type == CONTROL_TOKEN]
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    document = byte_level_json(vocabulary, metadata["tokenizer.ggml.merges"], specials, PRE_TOKENIZERS[pre_tokenizer])
    if metadata.get("tokenizer.ggml.add_bos_token"):
        bos_id = metadata["tokenizer.ggml.bos_token_id"]
        document["post_processor"] = template_processing(tokens[bos_id], bos_id, first=True)
    return document
