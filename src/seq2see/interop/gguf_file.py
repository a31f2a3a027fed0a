"""Llama-shaped models in one GGUF file, the form in which llama.cpp keeps them, often with four bits a weight.

A file holds numbers and texts by name, then tensors. The `gguf` package takes them apart and turns weights of few bits
back into float32; their names are put into Hugging Face's, and from there on it is a folder like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.decoding.settings import Decoding
from seq2see.interop.causal_configs import JsonConfig
from seq2see.interop.folders import require_packages
from seq2see.interop.hugging_face_tokenizer import template_processing
from seq2see.interop.pretrained import DEFAULT_MAX_NEW_TOKENS, PretrainedModel, build_pretrained
from seq2see.interop.safetensors_files import check_finite
from seq2see.sequences.pretrained_tokenizer import DOWNLOAD_AGAIN, byte_level_json

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
    "head_dim": "rope.dimension_count",  # so many numbers of a head are turned: with us all of them
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
}
PRE_TOKENIZERS = {"smollm": True, "gpt-2": False, "default": False}
"""Ways in which a text is cut before byte pairs are merged, and whether numbers fall into digits then."""
CONTROL_TOKEN = 3
"""The type of a piece that controls."""


def read_gguf(path: Path) -> PretrainedModel:
    """The model in a GGUF file."""
    require_packages("gguf", "gguf")
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        metadata = {name: field.contents() for name, field in reader.fields.items()}
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise UserError(f"This GGUF file cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None
    kind = metadata.get("general.architecture")
    if kind != "llama":
        what = f"We read GGUF files of llama only, and this is of {kind}."
        raise UserError(what, location=str(path), hint="Give a file of a model of Llama's shape.")
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
        """The shape of each tensor, without reading any; the file names the innermost size first."""
        return {name: tuple(int(size) for size in tensor.shape[::-1]) for name, tensor in self._tensors.items()}

    def read(self, name: str) -> Tensor:
        """One tensor, in float32."""
        from gguf.quants import dequantize

        tensor = self._tensors[name]
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            what = f"The weight '{name}' is in {tensor.tensor_type.name}, which we cannot read."
            raise UserError(
                what, location=self.location, hint="Give the file in another form, F16 or Q8_0 say."
            ) from None
        weight = check_finite(torch.from_numpy(values.copy()), name, self.location)
        heads = self._heads.get(name.split(".")[-2])
        return weight if heads is None else reverse_permute(weight, heads)


def reverse_permute(weight: Tensor, heads: int) -> Tensor:
    """The rows of queries or keys in the order of Llama's own files.

    llama.cpp turns neighboring numbers against each other, Llama number i and number i + size / 2 (see `RotaryPositions`).
    So in these files the two rows of a pair were put side by side; here they are put back.
    """
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _hugging_face_name(name: str) -> str:
    """`blk.3.attn_q.weight` as `model.layers.3.self_attn.q_proj.weight`; what is unknown keeps its name."""
    *location, part, ending = name.split(".")
    known = TENSOR_NAMES.get(part)
    if known is None:
        return name
    return ".".join([*(("model.layers", location[1]) if location else ()), known, ending])


def _config(path: Path, metadata: dict[str, Any], tensors: GgufTensors) -> JsonConfig:
    tree = {name: metadata.get(f"llama.{gguf_key}") for name, gguf_key in CONFIG_KEYS.items()}
    tree |= {f"{name}_token_id": metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")}
    tree |= {
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
        "vocab_size": len(metadata.get("tokenizer.ggml.tokens", [])),
        "tie_word_embeddings": "lm_head.weight" not in tensors.shapes(),
    }
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if metadata.get("llama.rope.scale_linear", 1) != 1:  # how older files say it
        scaling = "linear"
    if scaling != "none":
        tree["rope_scaling"] = {"type": scaling}
    return JsonConfig(tree, str(path))


def _tokenizer(path: Path, metadata: dict[str, Any]) -> dict[str, Any]:
    """A `tokenizer.json` with the file's pieces and merges."""
    kind, cut = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cut not in PRE_TOKENIZERS:
        what = f"We have no way to cut texts as this file does: {kind}, {cut}."
        raise UserError(what, location=str(path), hint="Give the model's Hugging Face folder instead.")
    tokens = metadata["tokenizer.ggml.tokens"]
    types = metadata.get("tokenizer.ggml.token_type", [])
    specials = [piece for piece, its in zip(tokens, types, strict=False) if its == CONTROL_TOKEN]
    vocabulary = {piece: number for number, piece in enumerate(tokens)}
    content = byte_level_json(vocabulary, metadata["tokenizer.ggml.merges"], specials, PRE_TOKENIZERS[cut])
    if metadata.get("tokenizer.ggml.add_bos_token"):
        number = metadata["tokenizer.ggml.bos_token_id"]
        content["post_processor"] = template_processing(tokens[number], number, first=True)
    return content
