"""Tiny random causal models of `transformers`, saved as folders, for the tests of import and export.

All weights differ from their initial values, so that no bias is 0 and no norm 1: a missing weight changes the output.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()

END = "<|endoftext|>"
TEXTS = [
    "the cat sat on the mat\n\n\n   and",
    "a dog ran after the cat",
    "我有一支笔，你有一本书",
    "1234 + 5678 = 6912 🎉",
] * 3

SHAPES = {
    "gpt2": ("gpt2", {}),
    "gpt2, gelu, own head, narrow, no eos": (
        "gpt2",
        {
            "activation_function": "gelu",
            "tie_word_embeddings": False,
            "n_inner": 37,
            "layer_norm_epsilon": 1e-3,
            "eos_token_id": None,
        },
    ),
    "gpt2, padded table and pad": ("gpt2", {"more": 5, "pad_token_id": 7, "bos_token_id": 0, "eos_token_id": 3}),
    "llama": ("llama", {}),
    "llama, grouped, tied, other angles": (
        "llama",
        {
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
            "rms_norm_eps": 1e-3,
        },
    ),
    "llama, one key head, biased": ("llama", {"num_key_value_heads": 1, "attention_bias": True, "bos_token_id": 0}),
}


def tokenizer_file(path: Path) -> int:
    """Train a byte-level tokenizer in a few milliseconds; returns the size of its vocabulary."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=290, special_tokens=[END], initial_alphabet=sorted(alphabet), show_progress=False
    )
    library.train_from_iterator(TEXTS, trainer)
    library.save(str(path))
    return library.get_vocab_size()


def small_config(kind: str, size: int, more: int = 0, **changes) -> GPT2Config | LlamaConfig:
    """A small config of a kind; `more` rows of the embedding have no token."""
    specials = {"vocab_size": size + more, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
    if kind == "gpt2":
        return GPT2Config(**{**specials, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 40} | changes)
    shape = {"hidden_size": 24, "intermediate_size": 35, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaConfig(**{**specials, **shape, "max_position_embeddings": 40, "eos_token_id": 3} | changes)


def perturb_weights(model: PreTrainedModel) -> PreTrainedModel:
    """The model with all weights changed from their initial values."""
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=random)
    return model.eval()


def causal_folder(folder: Path, name: str, shard: str = "1GB") -> PreTrainedModel:
    """Write the folder of one shape; returns the written model."""
    kind, changes = SHAPES[name]
    folder.mkdir(parents=True)
    size = tokenizer_file(folder / "tokenizer.json")
    torch.manual_seed(0)
    model_class = GPT2LMHeadModel if kind == "gpt2" else LlamaForCausalLM
    model = perturb_weights(model_class(small_config(kind, size, **changes)))
    model.save_pretrained(folder, max_shard_size=shard)
    return model


def change_config(folder: Path, **changes) -> None:
    """Change entries of config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
