"""Our language models as folders that stock Hugging Face `transformers` opens, in the layouts of GPT-2 and Llama.

A model need not be GPT-2 to be said in its words: positions of any kind that are added to the vectors become a table
of learned ones; vectors taken times √width become larger vectors, and then the head is a matrix of its own, which
holds the vectors as they were; a product without bias gets one of zeros. What has no words there is refused by its
setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from seq2see.core.files import write_bytes, write_json
from seq2see.interop.causal_configs import GPT2_THINKS
from seq2see.interop.causal_layouts import LAYOUTS, stack_of
from seq2see.interop.folders import new_folder
from seq2see.interop.hugging_face_config import ENGINE, decoding_json
from seq2see.interop.hugging_face_tokeniser import causal_tokenizer_files
from seq2see.interop.position_tables import position_table
from seq2see.interop.stored import Stored, cannot, one_model
from seq2see.models.packing import pack_model
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.given import GivenTokeniser, Renumbered
from seq2see.sequences.tokenisers import BOS, EOS, PAD, UNK

LAYOUT_OF_NORM = {"layer": "gpt2", "rms": "llama"}
# What each layout has; a setting with another value is refused.
HELD: dict[str, dict[str, tuple[Any, ...]]] = {
    "gpt2": {
        "target.frontend.positions": ("learned", "sinusoidal", "none"),
        "decoder.think": tuple(GPT2_THINKS.values()),
        "decoder.key_heads": (0,),
        "decoder.order": ("pre",),
        "target.head": ("tied", "plain"),
    },
    "llama": {
        "target.frontend.positions": ("rotary",),
        "decoder.think": ("swiglu",),
        "decoder.order": ("pre",),
        "target.head": ("tied", "plain"),
    },
}


def causal_layout(settings: ModelSettings) -> str:
    """Which layout holds a language model with these settings; the error for one that neither holds."""
    decoder = settings.decoder
    if not isinstance(decoder, TransformerSettings):
        kind = decoder.kind if decoder else "none"
        raise cannot(ENGINE, f"decoder.kind={kind}", "of language models only Transformers can go there")
    if not settings.writes:
        raise cannot(ENGINE, f"target.kind={settings.target.kind}", "only models that write texts can go there")
    if decoder.norm not in LAYOUT_OF_NORM:
        raise cannot(ENGINE, f"decoder.norm={decoder.norm}", "GPT-2 has layer norms, Llama rms norms")
    layout = LAYOUT_OF_NORM[decoder.norm]
    for path, values in HELD[layout].items():
        value: Any = settings
        for name in path.split("."):
            value = getattr(value, name)
        if value not in values:
            meant = " or ".join(dict.fromkeys(map(str, values)))
            architecture = LAYOUTS[layout].architecture
            raise cannot(ENGINE, f"{path}={value}", f"with decoder.norm={decoder.norm} it is {meant} in {architecture}")
    return layout


def write_causal(stored: Stored, folder: Path) -> None:
    """Write a folder that `AutoModelForCausalLM` and `AutoTokenizer` open."""
    layout = causal_layout(stored.config.model)
    module: Any = one_model(stored, ENGINE)
    text = stored.tokenisers.target
    numbers = text.numbers if isinstance(text, GivenTokeniser) else unchanged(len(text))
    if numbers.missing != stored.config.model.written.missing:
        setting = f"target.missing={list(stored.config.model.written.missing)}"
        raise cannot(ENGINE, setting, "every number of a vocabulary of ours names a token there")
    said = in_their_words(stored.config.model)
    size = len(numbers.theirs) - len(numbers.missing)
    with new_folder(folder) as temporary:
        specials = _specials(numbers)
        write_json(temporary / "config.json", _CONFIGS[layout](said) | _head(layout, said, size) | specials)
        unsaid = [number for number in (numbers.theirs[PAD], numbers.theirs[BOS]) if number is not None]
        answers = decoding_json(stored.config.decoding, unsaid, said.sight)
        write_json(temporary / "generation_config.json", answers | specials)
        causal_tokenizer_files(text, temporary, said.written.longest, specials)
        weights = _weights(module, stored.config.model, said)
        theirs: dict[str, Tensor] = {}
        for place in LAYOUTS[layout].places(said, size):
            ours = weights[place.ours]
            theirs |= place.part(numbers.back(ours) if place.by_token else ours)
        write_bytes(temporary / "model.safetensors", save(theirs, metadata={"format": "pt"}))


def in_their_words(settings: ModelSettings) -> ModelSettings:
    """Settings of the same model as the layout says them: plain vectors, and positions in a table or in attention."""
    target = settings.written
    changes: dict[str, Any] = {"target.frontend.vectors": "plain"}
    if target.frontend.vectors == "scaled" and target.head == "tied":
        changes["target.head"] = "plain"
    if target.frontend.positions != "rotary":
        learned = target.frontend.longest if target.frontend.positions == "learned" else 1
        changes |= {"target.frontend.positions": "learned", "target.frontend.longest": max(target.longest, learned)}
        changes |= {"decoder.matrices": "biased"}
    return settings.with_(**changes)


@torch.no_grad()
def _weights(module: Any, settings: ModelSettings, said: ModelSettings) -> dict[str, Tensor]:
    """Our weights under our names, for a model that is said in their words."""
    weights = {name: tensor.float().cpu().clone() for name, tensor in pack_model(module).items()}
    table = weights["target.table.weight"]
    if said.written.head != settings.written.head:
        inner = "head.head" if settings.written.missing else "head"
        weights[f"{inner}.project.weight"] = table.clone()
    table *= module.target.scale
    if said.written.frontend.positions == "learned":
        rows = said.written.frontend.longest
        weights["target.positions.table.weight"] = position_table(module.target, rows)
    if said.decoder != settings.decoder:
        for number in range(stack_of(said).depth):
            for name in (f"decoder.blocks.{number}.look.queries_keys_values", f"decoder.blocks.{number}.look.output"):
                weights[f"{name}.bias"] = torch.zeros(weights[f"{name}.weight"].size(0))
    return weights


def unchanged(size: int) -> Renumbered:
    """Our own numbers, which nobody has to change."""
    return Renumbered.of(size, beginning=BOS, end=EOS, padding=PAD, unknown=UNK)


def _specials(numbers: Renumbered) -> dict[str, Any]:
    return {
        "bos_token_id": numbers.beginning,
        "eos_token_id": numbers.theirs[EOS],
        "pad_token_id": numbers.theirs[PAD],
    }


def _head(layout: str, settings: ModelSettings, size: int) -> dict[str, Any]:
    return {
        "architectures": [LAYOUTS[layout].architecture],
        "model_type": layout,
        "vocab_size": size,
        "tie_word_embeddings": settings.written.head == "tied",
        "dtype": "float32",
    }


def _gpt2_config(settings: ModelSettings) -> dict[str, Any]:
    stack = settings.decoder
    assert isinstance(stack, TransformerSettings)
    activation = {"gelu-tanh": "gelu_new"}.get(stack.think, stack.think)
    return {
        "n_positions": settings.written.frontend.longest,
        "n_embd": stack.width,
        "n_layer": stack.depth,
        "n_head": stack.heads,
        "n_inner": stack.hidden,
        "activation_function": activation,
        "layer_norm_epsilon": stack.epsilon,
        "resid_pdrop": stack.dropout,
        "embd_pdrop": stack.dropout,
        "attn_pdrop": 0.0,
    }


def _llama_config(settings: ModelSettings) -> dict[str, Any]:
    stack = settings.decoder
    assert isinstance(stack, TransformerSettings)
    return {
        "max_position_embeddings": settings.written.longest,
        "hidden_size": stack.width,
        "num_hidden_layers": stack.depth,
        "num_attention_heads": stack.heads,
        "num_key_value_heads": stack.key_heads or stack.heads,
        "intermediate_size": stack.hidden,
        "hidden_act": "silu",
        "rms_norm_eps": stack.epsilon,
        "attention_bias": stack.matrices == "biased",
        # Newer versions of the library look for the table, older ones for the number.
        "rope_parameters": {"rope_type": "default", "rope_theta": stack.rotary_base},
        "rope_theta": stack.rotary_base,
    }


_CONFIGS = {"gpt2": _gpt2_config, "llama": _llama_config}
