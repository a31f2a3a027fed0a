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
from seq2see.interop.causal_configs import Config
from seq2see.interop.folders import need
from seq2see.interop.hugging_face_tokeniser import template
from seq2see.interop.real_weights import TOKENS, RealModel, assemble
from seq2see.interop.weight_files import finite
from seq2see.sequences.given import AGAIN, byte_level

NAMES = {
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
CONFIG = {
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
CUTS = {"smollm": True, "gpt-2": False, "default": False}
"""Ways in which a text is cut before byte pairs are merged, and whether numbers fall into digits then."""
CONTROL = 3
"""The type of a piece that controls."""


def read_gguf(path: Path) -> RealModel:
    """The model in a GGUF file."""
    need("gguf", "gguf")
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        told = {name: field.contents() for name, field in reader.fields.items()}
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise UserError(f"This GGUF file cannot be read: {error}.", where=str(path), remedy=AGAIN) from None
    kind = told.get("general.architecture")
    if kind != "llama":
        what = f"We read GGUF files of llama only, and this is of {kind}."
        raise UserError(what, where=str(path), remedy="Give a file of a model of Llama's shape.")
    tensors = GgufTensors(path, reader, told)
    decoding = read_tree(Decoding, {"max_new_tokens": TOKENS})
    return assemble("llama", _config(path, told, tensors), tensors, _tokeniser(path, told), decoding)


class GgufTensors:
    """The tensors of a GGUF file under Hugging Face's names."""

    def __init__(self, path: Path, reader: Any, told: dict[str, Any]):
        self.where = str(path)
        self._tensors = {_their_name(tensor.name): tensor for tensor in reader.tensors}
        heads = told.get("llama.attention.head_count")
        self._heads = {"q_proj": heads, "k_proj": told.get("llama.attention.head_count_kv", heads)}

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor, without reading any; the file names the innermost size first."""
        return {name: tuple(int(size) for size in tensor.shape[::-1]) for name, tensor in self._tensors.items()}

    def read(self, name: str) -> Tensor:
        """One tensor, in float32."""
        from gguf.quants import dequantize

        tensor = self._tensors[name]
        try:
            numbers = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            what = f"The weight '{name}' is in {tensor.tensor_type.name}, which we cannot read."
            raise UserError(what, where=self.where, remedy="Give the file in another form, F16 or Q8_0 say.") from None
        weight = finite(torch.from_numpy(numbers.copy()), name, self.where)
        heads = self._heads.get(name.split(".")[-2])
        return weight if heads is None else halves_apart(weight, heads)


def halves_apart(weight: Tensor, heads: int) -> Tensor:
    """The rows of queries or keys in the order of Llama's own files.

    llama.cpp turns neighbouring numbers against each other, Llama number i and number i + size / 2 (see `Rotary`).
    So in these files the two rows of a pair were put side by side; here they are put back.
    """
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _their_name(name: str) -> str:
    """`blk.3.attn_q.weight` as `model.layers.3.self_attn.q_proj.weight`; what is unknown keeps its name."""
    *where, part, ending = name.split(".")
    known = NAMES.get(part)
    if known is None:
        return name
    return ".".join([*(("model.layers", where[1]) if where else ()), known, ending])


def _config(path: Path, told: dict[str, Any], tensors: GgufTensors) -> Config:
    tree = {name: told.get(f"llama.{theirs}") for name, theirs in CONFIG.items()}
    tree |= {f"{name}_token_id": told.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")}
    tree |= {
        "pad_token_id": told.get("tokenizer.ggml.padding_token_id"),
        "vocab_size": len(told.get("tokenizer.ggml.tokens", [])),
        "tie_word_embeddings": "lm_head.weight" not in tensors.shapes(),
    }
    stretched = told.get("llama.rope.scaling.type", "none")
    if told.get("llama.rope.scale_linear", 1) != 1:  # how older files say it
        stretched = "linear"
    if stretched != "none":
        tree["rope_scaling"] = {"type": stretched}
    return Config(tree, str(path))


def _tokeniser(path: Path, told: dict[str, Any]) -> dict[str, Any]:
    """A `tokenizer.json` with the file's pieces and merges."""
    kind, cut = told.get("tokenizer.ggml.model"), told.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cut not in CUTS:
        what = f"We have no way to cut texts as this file does: {kind}, {cut}."
        raise UserError(what, where=str(path), remedy="Give the model's Hugging Face folder instead.")
    pieces = told["tokenizer.ggml.tokens"]
    types = told.get("tokenizer.ggml.token_type", [])
    specials = [piece for piece, its in zip(pieces, types, strict=False) if its == CONTROL]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    content = byte_level(vocabulary, told["tokenizer.ggml.merges"], specials, CUTS[cut])
    if told.get("tokenizer.ggml.add_bos_token"):
        number = told["tokenizer.ggml.bos_token_id"]
        content["post_processor"] = template(pieces[number], number, first=True)
    return content
