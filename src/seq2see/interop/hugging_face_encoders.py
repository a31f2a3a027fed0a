"""Export of encoder-only models to folders that Hugging Face `transformers` loads: the layouts of BERT, ViT and DeiT.

These layouts are fixed. BERT has learned embeddings of token, position and segment, post-norm, and heads on <bos> or on
each token. ViT has a patch embedding, pre-norm and a head on the class token; DeiT has two such tokens. For a model
with another setting an error names that setting before anything is written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.core.files import write_bytes, write_json
from seq2see.data.tokenizers.pretrained_tokenizer import PretrainedTokenizer
from seq2see.data.tokenizers.tokenizer import BOS, BOS_TEXT, EOS, EOS_TEXT, MASK_TEXT, PAD, UNK, Tokenizer
from seq2see.interop.bert_weights import (
    ARCHITECTURES,
    BASE_MODEL_PREFIX,
    bert_mappings,
    encoder_settings_of,
    num_special_tokens,
)
from seq2see.interop.causal_weights import HF_ACTIVATIONS
from seq2see.interop.exportable import ExportableModel, setting_text, unsupported
from seq2see.interop.folders import atomic_folder
from seq2see.interop.hugging_face_causal import identity_ids
from seq2see.interop.hugging_face_files import ENGINE, labels_json, stack_json
from seq2see.interop.vit_layouts import hugging_face_names, vit_mappings
from seq2see.interop.vit_weights import image_settings_of, patch_count, position_table, split_external
from seq2see.models.named_tensors import named_tensors
from seq2see.models.settings import BertEmbeddingSettings, Label, ModelSettings, Tags
from seq2see.models.transformer import TransformerSettings

# The supported values of each setting, and a hint how to train such a model; another value raises an error.
SUPPORTED_TEXTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "encoder.kind": (("transformer",), ""),
    "source.embedding.kind": (("bert",), "The recipe fill-bert has this value."),
    "encoder.norm_order": (("post",), "The recipe fill-bert has this value."),
    "encoder.norm": (("layer",), ""),
    "encoder.activation": (tuple(dict.fromkeys(HF_ACTIVATIONS.values())), ""),
    "encoder.bias": ((True,), ""),
    "encoder.kv_heads": ((0,), ""),
}


def bert_layout(settings: ModelSettings) -> str:
    """The class of `transformers` for a model with these settings; an unsupported setting raises an error."""
    supported = dict(SUPPORTED_TEXTS)
    if settings.encoder is None:
        raise unsupported(ENGINE, "numbers instead of tokens", "there is no layout for series")
    if isinstance(settings.target, Label):
        supported["target.pooling"] = (("cls",), "Train it with `--set target.pooling=cls`.")
    if isinstance(settings.target, Tags):
        supported["target.word_pooling"] = (("first",), "Train it with `--set target.word_pooling=first`.")
    for path, (values, hint) in supported.items():
        value: Any = settings
        for name in path.split("."):
            value = getattr(value, name)
        if value not in values:
            raise unsupported(
                ENGINE, f"{path}={setting_text(value)}", f"it is {' or '.join(map(setting_text, values))} in BERT", hint
            )
    return next(name for name, target in ARCHITECTURES.items() if type(settings.target) is target)


def write_bert(stored: ExportableModel, folder: Path) -> None:
    """Write a folder for the class of `transformers` that `bert_layout` returns."""
    settings = stored.config.model
    architecture, text = bert_layout(settings), stored.tokenizers.source
    labels = stored.tokenizers.labels
    id_map = text.id_map if isinstance(text, PretrainedTokenizer) else identity_ids(len(text))
    if id_map.missing:
        raise UserError("The layout of BERT needs a vocabulary with <pad>, <bos>, <eos> and <unk>.")
    layout_settings = _with_all_positions(settings)
    with atomic_folder(folder) as temporary:
        padding = {"pad_token_id": id_map.original_ids[PAD], "architectures": [architecture]}
        write_json(temporary / "config.json", _text_config(layout_settings, len(text), labels) | padding)
        _write_tokenizer(text, temporary, _max_positions(layout_settings))
        weights = _weights(stored.module, layout_settings)
        exported: dict[str, Tensor] = {}
        for mapping in bert_mappings(layout_settings, len(text), len(labels)):
            weight = weights[mapping.key]
            exported |= mapping.to_external(id_map.restore_rows(weight) if mapping.is_vocabulary_table else weight)
        if architecture == "BertModel":  # the names of an encoder without a head have no prefix
            exported = {name.removeprefix(BASE_MODEL_PREFIX): tensor for name, tensor in exported.items()}
        write_bytes(temporary / "model.safetensors", save(exported, metadata={"format": "pt"}))


def _with_all_positions(settings: ModelSettings) -> ModelSettings:
    """The settings with one position embedding for each position of the longest text: BERT shares none."""
    needed = settings.source_text.max_tokens + num_special_tokens(type(settings.target))
    return settings.with_(**{"source.embedding.max_positions": max(_max_positions(settings), needed)})


def _max_positions(settings: ModelSettings) -> int:
    assert settings.source is not None
    assert isinstance(settings.source.embedding, BertEmbeddingSettings)
    return settings.source.embedding.max_positions


@torch.no_grad()
def _weights(module: Any, layout_settings: ModelSettings) -> dict[str, Tensor]:
    weights = {name: tensor.float().cpu().clone() for name, tensor in named_tensors(module).items()}
    return weights | {
        "source.positions.embedding.weight": position_table(module.source, _max_positions(layout_settings))
    }


def _text_config(settings: ModelSettings, size: int, labels: tuple[str, ...]) -> dict[str, Any]:
    embeddings = {"max_position_embeddings": _max_positions(settings), "type_vocab_size": 2}
    kind = {"model_type": "bert", "vocab_size": size, "tie_word_embeddings": True}
    return {**kind, **stack_json(encoder_settings_of(settings)), **embeddings, **labels_json(labels)}


def _write_tokenizer(text: Tokenizer, folder: Path, max_length: int) -> None:
    """Write the tokenizer; one of seq2see adds <bos> and <eos> to each text, a pretrained one is unchanged."""
    text.save(folder / "tokenizer.json")
    names = dict(
        zip(("pad", "cls", "sep", "unk"), (text.token_name(number) for number in _special_ids(text)), strict=True)
    )
    if not isinstance(text, PretrainedTokenizer):
        document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        write_json(
            folder / "tokenizer.json", document | {"post_processor": _post_processor()} | _with_mask(document, text)
        )
    if text.has_mask:
        names["mask"] = MASK_TEXT
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{name}_token": content for name, content in names.items()},
            "model_max_length": max_length,
            "padding_side": "right",
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            # The name of a special token in a text is plain text, but a model for masked tokens must find [MASK].
            "split_special_tokens": not text.has_mask,
        },
    )


def _special_ids(text: Tokenizer) -> list[int]:
    """The ids of the four special tokens in the file."""
    special_ids = (PAD, BOS, EOS, UNK)
    if not isinstance(text, PretrainedTokenizer):
        return list(special_ids)
    return [number for number in (text.id_map.original_ids[each] for each in special_ids) if number is not None]


def _with_mask(document: dict[str, Any], text: Tokenizer) -> dict[str, Any]:
    """The added token [MASK], which includes the space before it if the tokens of words begin with a space."""
    if not text.has_mask:
        return {}
    flags = {"single_word": False, "lstrip": text.mask_lstrip, "rstrip": False, "normalized": False}
    mask = {"id": text.mask_id, "content": MASK_TEXT, **flags, "special": True}
    return {"added_tokens": [*document["added_tokens"], mask]}


def _post_processor() -> dict[str, Any]:
    """`<bos> A <eos>`, or `<bos> A <eos> B <eos>` in two sentences."""
    first, second = ({"Sequence": {"id": letter, "type_id": number}} for number, letter in enumerate("AB"))
    bos, eos = ({"SpecialToken": {"id": name, "type_id": 0}} for name in (BOS_TEXT, EOS_TEXT))
    second_eos = {"SpecialToken": {"id": EOS_TEXT, "type_id": 1}}
    specials = ((BOS_TEXT, BOS), (EOS_TEXT, EOS))
    return {
        "type": "TemplateProcessing",
        "single": [bos, first, eos],
        "pair": [bos, first, eos, second, second_eos],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in specials},
    }


# The supported values of each setting; another value raises an error.
SUPPORTED_IMAGES: dict[str, tuple[Any, ...]] = {
    "encoder.kind": ("transformer",),
    "source.embedding.kind": ("patches",),
    "target.pooling": ("cls", "distilled"),
    "encoder.norm_order": ("pre",),
    "encoder.norm": ("layer",),
    "encoder.activation": tuple(dict.fromkeys(HF_ACTIVATIONS.values())),
    "encoder.bias": (True,),
    "encoder.kv_heads": (0,),
}
IMAGE_ARCHITECTURES = {1: "ViTForImageClassification", 2: "DeiTForImageClassificationWithTeacher"}
"""The class of `transformers` by the number of prefix tokens."""
BILINEAR = 2
"""Pillow's number of bilinear interpolation."""


def vit_layout(settings: ModelSettings) -> str:
    """The class of `transformers` for a model with these settings; an unsupported setting raises an error."""
    for path, values in SUPPORTED_IMAGES.items():
        value: Any = settings
        for name in path.split("."):
            value = getattr(value, name)
        if value not in values:
            reason = f"it is {' or '.join(map(setting_text, values))} in ViT"
            raise unsupported(ENGINE, f"{path}={setting_text(value)}", reason)
    return IMAGE_ARCHITECTURES[settings.prefix_tokens]


@torch.no_grad()
def write_vit(stored: ExportableModel, folder: Path) -> None:
    """Write a folder for the class of `transformers` that `vit_layout` returns."""
    settings, labels = stored.config.model, stored.tokenizers.labels
    architecture, distilled = vit_layout(settings), settings.prefix_tokens == 2
    module: Any = stored.module
    image = image_settings_of(settings)
    own_weights = {name: tensor.float().cpu().clone() for name, tensor in named_tensors(module).items()}
    grid = (image.image_size // image.embedding.size,) * 2
    table = module.source.positions(grid)[0]  # sinusoidal positions become a table
    own_weights["source.positions.embedding.weight"] = table.expand(patch_count(settings), -1).float().cpu().clone()
    weights = split_external(own_weights, settings)
    names = hugging_face_names("deit." if distilled else "vit.", distilled)
    count = patch_count(settings) + settings.prefix_tokens
    exported: dict[str, Tensor] = {}
    for mapping in vit_mappings(names, settings, count, len(labels)):
        exported |= mapping.to_external(weights[mapping.key])
    with atomic_folder(folder) as temporary:
        kind = {"model_type": "deit" if distilled else "vit", "architectures": [architecture]}
        write_json(temporary / "config.json", kind | _image_config(settings, labels))
        write_json(temporary / "preprocessor_config.json", _preprocessor(settings, distilled))
        write_bytes(temporary / "model.safetensors", save(exported, metadata={"format": "pt"}))


def _image_config(settings: ModelSettings, labels: tuple[str, ...]) -> dict[str, Any]:
    stack, image = settings.encoder, image_settings_of(settings)
    assert isinstance(stack, TransformerSettings)
    size = {"image_size": image.image_size, "patch_size": image.embedding.size, "num_channels": image.channels}
    return {**stack_json(stack), "qkv_bias": True, **size, **labels_json(labels)}


def _preprocessor(settings: ModelSettings, distilled: bool) -> dict[str, Any]:
    """The image processor: the whole image resized to a square, and pixels normalized to 2 x - 1."""
    image = image_settings_of(settings)
    return {
        "image_processor_type": "DeiTImageProcessor" if distilled else "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": image.image_size, "width": image.image_size},
        "resample": BILINEAR,
        "do_center_crop": False,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5] * image.channels,
        "image_std": [0.5] * image.channels,
    }
