"""GGUF files of Llama's shape: a tiny one, written here as llama.cpp's converter writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from torch.testing import assert_close

from causal_folders import END, causal_folder
from seq2see.cli.app import run
from seq2see.core.batch import Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.interop.gguf_file import TENSOR_NAMES, read_gguf, reverse_permute
from seq2see.tasks.model_folder import fingerprint_of

gguf = pytest.importorskip("gguf")

LLAMA = "llama, grouped, tied, other angles"
BACK = {reference: actual for actual, reference in TENSOR_NAMES.items()}


def interleave_pairs(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """What the converter does to queries and keys, in its own words."""
    rows, into = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, into).swapaxes(1, 2).reshape(rows, into)


def write_gguf(path: Path, folder: Path, model, **changes) -> None:
    """A tiny model of `transformers` as a GGUF file."""
    config, writer = model.config, gguf.GGUFWriter(path, changes.get("kind", "llama"))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    pieces = sorted(content["model"]["vocab"], key=content["model"]["vocab"].get)
    writer.add_tokenizer_model(changes.get("pieces", "gpt2"))
    writer.add_tokenizer_pre(changes.get("pre", "gpt-2"))
    writer.add_token_list(pieces)
    writer.add_token_types([3 if piece == END else 1 for piece in pieces])
    writer.add_token_merges([" ".join(merge) for merge in content["model"]["merges"]])
    writer.add_bos_token_id(changes.get("bos", 5))
    writer.add_eos_token_id(3)
    writer.add_add_bos_token("bos" in changes)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        *location, part, ending = name.split(".")
        if part in heads:
            weight = interleave_pairs(weight, heads[part])
        if location[:2] == ["model", "layers"]:
            reference = f"blk.{location[2]}.{BACK['.'.join([*location[3:], part])]}.{ending}"
        else:
            reference = f"{BACK['.'.join([*location, part])]}.{ending}"
        writer.add_tensor(reference, weight.to(changes.get("kinds", {}).get(name, weight.dtype)).numpy())
    for name, value in changes.get("metadata", {}).items():
        {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)](name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@torch.inference_mode()
@pytest.mark.parametrize("name", [LLAMA, "llama"])
def test_logits_match_transformers(name, tmp_path):
    reference = causal_folder(tmp_path / "it", name)
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", reference)
    actual = read_gguf(tmp_path / "it.gguf")
    numbers = actual.tokenizer.id_map
    assert numbers.bos_id == 0  # what ends a text stands before the next
    ids = actual.tokenizer.encode("the cat 我有")
    fed = Sequences.of([[BOS, *ids]])
    there = [place for place, number in enumerate(numbers.original_ids) if number is not None]
    found = actual.module(Batch(None, fed, fed.values, torch.arange(1)))[0][:, there]
    expected = reference(torch.tensor([[0, *(numbers.original_ids[each] for each in ids)]])).logits[0]
    assert_close(found, expected[:, [numbers.original_ids[place] for place in there]], rtol=0, atol=1e-4)


def test_a_file_is_a_model_like_any_other(tmp_path, capsys):
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", causal_folder(tmp_path / "it", LLAMA))
    assert run(["predict", str(tmp_path / "it.gguf"), "the cat"]) == 0
    assert capsys.readouterr().out.startswith("the cat")
    assert len(fingerprint_of(tmp_path / "it.gguf")) == 64


def test_a_token_that_is_always_put_first_begins_every_text(tmp_path):
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", causal_folder(tmp_path / "it", LLAMA), bos=7)
    assert read_gguf(tmp_path / "it.gguf").tokenizer.id_map.bos_id == 7


@pytest.mark.parametrize("pre, digits", [("gpt-2", False), ("default", False), ("smollm", True)])
def test_texts_are_tokenized_as_the_file_says(pre, digits, tmp_path):
    metadata = {"tokenizer.ggml.padding_token_id": 9}
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", causal_folder(tmp_path / "it", LLAMA), pre=pre, metadata=metadata)
    actual, text = read_gguf(tmp_path / "it.gguf").tokenizer, "the cat 我有 1234"
    reference = Tokenizer.from_file(str(tmp_path / "it" / "tokenizer.json"))
    if digits:
        reference.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    assert [actual.id_map.original_ids[each] for each in actual.encode(text)] == reference.encode(text).ids
    assert actual.decode(actual.encode(text)) == text
    assert (actual.id_map.original_ids[EOS], actual.id_map.original_ids[PAD]) == (3, 9)


def test_a_non_gguf_file_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "it.gguf").write_bytes(b"GGUF is how it begins, and then it is something else")
    with pytest.raises(UserError, match=r"it\.gguf: This GGUF file cannot be read.*Get the file again"):
        read_gguf(tmp_path / "it.gguf")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"kind": "qwen2"}, r"this one is qwen2\. Give a file"),
        ({"pre": "llama-bpe"}, r"gpt2, llama-bpe\. Give the"),
        ({"pieces": "llama"}, r"llama, gpt-2\. Give the"),
    ],
)
def test_unsupported_features_are_reported(changes, message, tmp_path):
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", causal_folder(tmp_path / "it", LLAMA), **changes)
    with pytest.raises(UserError, match=rf"it\.gguf.*{message}"):
        read_gguf(tmp_path / "it.gguf")


def test_unusable_weights_are_reported_by_name(tmp_path):
    model = causal_folder(tmp_path / "it", LLAMA)
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", model, kinds={"model.norm.weight": torch.float64})
    with pytest.raises(UserError, match=r"it\.gguf: The weight 'model\.norm\.weight' is in F64.*Q8_0"):
        read_gguf(tmp_path / "it.gguf")
    model.model.norm.weight.data[1] = float("inf")
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", model)
    with pytest.raises(UserError, match=r"'model\.norm\.weight' has a value that is not finite"):
        read_gguf(tmp_path / "it.gguf")


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("llama.rope.dimension_count", 4, "head_dim=4"),
        ("llama.rope.scale_linear", 2.0, "rope_type='linear'"),
        ("llama.rope.scaling.type", "yarn", "rope_type='yarn'"),
    ],
)
def test_unsupported_rotary_embeddings_are_refused(name, value, message, tmp_path):
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", causal_folder(tmp_path / "it", LLAMA), metadata={name: value})
    with pytest.raises(UserError, match=rf"it\.gguf: {message} is not supported"):
        read_gguf(tmp_path / "it.gguf")


def test_default_rotary_metadata_is_accepted(tmp_path):
    metadata = {"llama.rope.dimension_count": 6, "llama.rope.scale_linear": 1.0, "llama.rope.scaling.type": "none"}
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", causal_folder(tmp_path / "it", LLAMA), metadata=metadata)
    assert read_gguf(tmp_path / "it.gguf").settings.decoder.heads == 4


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no such thing" * 100])
def test_a_non_gguf_file_is_refused(content, tmp_path, capsys):
    (tmp_path / "it.gguf").write_bytes(content)
    assert run(["predict", str(tmp_path / "it.gguf"), "the cat"]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, value, message",
    [
        (
            "intermediate_size",
            40,
            r".*gate_proj\.weight' is 35 x 24, but by its config it should be 40 x 24.*different models",
        ),
        ("num_hidden_layers", 1, r"model\.layers\.1\..* is not part of the model.*different models"),
        ("num_hidden_layers", 3, r"model\.layers\.2\..* is missing"),
    ],
)
def test_weights_that_do_not_fit_the_config_are_reported(name, value, message, tmp_path):
    model = causal_folder(tmp_path / "it", LLAMA)
    setattr(model.config, name, value)
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", model)
    with pytest.raises(UserError, match=rf"it\.gguf: The weight '{message}"):
        read_gguf(tmp_path / "it.gguf")


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.95])
def test_a_truncated_file_is_refused(fraction, tmp_path, capsys):
    write_gguf(tmp_path / "it.gguf", tmp_path / "it", causal_folder(tmp_path / "it", LLAMA))
    whole = (tmp_path / "it.gguf").read_bytes()
    (tmp_path / "it.gguf").write_bytes(whole[: int(fraction * len(whole))])
    assert run(["predict", str(tmp_path / "it.gguf"), "the cat"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_reverse_permute_inverts_the_converter():
    weight = torch.randn(24, 5)
    assert torch.equal(reverse_permute(interleave_pairs(weight, 3), 3), weight)
