"""What a config leaves out means what the library that wrote it means by leaving it out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from transformers import BertConfig, DeiTConfig, DeiTImageProcessor, GPT2Config, LlamaConfig, ViTConfig

from seq2see.interop.checkpoint_files import HF_ACTIVATIONS, JsonConfig
from seq2see.interop.hugging_face_bert import bert_settings
from seq2see.interop.hugging_face_causal import gpt2_settings, llama_settings
from seq2see.interop.vit_weights import HEAD_DIMS, IMAGENET, hugging_face_vit, timm_vit

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")


class Shapes:
    """A tensor reader with shapes only."""

    location = ""

    def __init__(self, **shapes: tuple[int, ...]):
        self._shapes = shapes

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes that were passed."""
        return self._shapes

    def read(self, name: str) -> Tensor:
        """Raise an error: no tensor is read in these tests."""
        raise AssertionError(name)


def partial_config(config: Any, *names: str) -> JsonConfig:
    """A `config.json` with these keys only."""
    return JsonConfig({name: getattr(config, name) for name in names}, "")


@pytest.mark.parametrize("make", [ViTConfig, DeiTConfig])
def test_vit(tmp_path: Path, make):
    reference, actual = make(), hugging_face_vit(tmp_path, partial_config(make, "model_type"), Shapes())
    stack, image = actual.settings.encoder, actual.settings.source
    assert (image.image_size, image.embedding.size) == (reference.image_size, reference.patch_size)
    assert (image.channels, stack.activation) == (reference.num_channels, HF_ACTIVATIONS[reference.hidden_act])
    assert (stack.width, stack.depth, stack.heads) == tuple(getattr(reference, name) for name in SIZES[:3])
    assert (stack.feed_forward_width, stack.norm_eps) == (reference.intermediate_size, reference.layer_norm_eps)
    assert stack.dropout == reference.hidden_dropout_prob


def test_the_pixels_of_deit(tmp_path: Path):
    reference, config = DeiTImageProcessor(), partial_config(DeiTConfig, "model_type")
    actual = hugging_face_vit(tmp_path, config, Shapes())
    assert (actual.mean, actual.std) == IMAGENET  # as it was published; without any file
    (tmp_path / "preprocessor_config.json").write_text('{"do_normalize": true}')
    actual = hugging_face_vit(tmp_path, config, Shapes())
    assert (list(actual.mean), list(actual.std)) == (list(reference.image_mean), list(reference.image_std))


def test_pixels_that_are_only_brought_between_0_and_1(tmp_path: Path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"do_normalize": False, "image_mean": [0.1] * 3}))
    actual = hugging_face_vit(tmp_path, partial_config(ViTConfig, "model_type"), Shapes())
    assert (actual.mean, actual.std) == ((0,) * 3, (1,) * 3)


def timm(name: str, width: int) -> Any:
    """A ViT of timm's without numbers."""
    names = {"patch_embed.proj.weight": (width, 3, 4, 4), "blocks.0.mlp.fc1.bias": (4 * width,), "head.bias": (5,)}
    tree = {"architecture": name, "pretrained_cfg": {"input_size": [3, 20, 20]}}
    return timm_vit(JsonConfig(tree, ""), Shapes(**names))


def test_timms_pixels_and_norms():
    actual = timm("vit_tiny_patch16_224", 192)
    assert actual.settings.encoder.norm_eps == 1e-6
    assert (actual.mean, actual.std) == IMAGENET


@pytest.mark.parametrize(
    "name, width, heads",
    [  # vision_transformer.py of timm
        ("vit_tiny_patch16_224", 192, 3), ("vit_base_patch16_224", 768, 12), ("vit_huge_patch14_224", 1280, 16),
        ("vit_giant_patch14_224", 1408, 16), ("vit_gigantic_patch14_224", 1664, 16),
        ("vit_so400m_patch14_224", 1152, 16),
    ],
)  # fmt: skip
def test_timms_heads(name, width, heads):
    assert timm(name, width).settings.encoder.heads == heads
    assert len(HEAD_DIMS) == 4  # each of them has a row above


def test_bert(tmp_path: Path):
    reference = BertConfig()
    stack = bert_settings(partial_config(reference, *SIZES), tmp_path).encoder
    assert stack.activation == HF_ACTIVATIONS[reference.hidden_act]
    assert (stack.norm_eps, stack.dropout) == (reference.layer_norm_eps, reference.hidden_dropout_prob)


def test_gpt2():
    reference = GPT2Config()
    actual = gpt2_settings(partial_config(reference, "n_embd", "n_layer", "n_head", "n_positions"), ())
    stack = actual.decoder
    assert (stack.activation, stack.feed_forward_width) == (
        HF_ACTIVATIONS[reference.activation_function],
        4 * reference.n_embd,
    )
    assert (stack.norm_eps, stack.dropout) == (reference.layer_norm_epsilon, reference.resid_pdrop)
    assert (actual.target_text.head == "tied") == reference.tie_word_embeddings


def test_llama():
    reference = LlamaConfig()
    actual = llama_settings(partial_config(reference, *SIZES), ())
    stack = actual.decoder
    assert (stack.kv_heads, stack.bias) == (0, False)
    assert (stack.norm_eps, stack.rope_theta) == (reference.rms_norm_eps, reference.rope_parameters["rope_theta"])
    assert (actual.target_text.head == "tied") == reference.tie_word_embeddings
