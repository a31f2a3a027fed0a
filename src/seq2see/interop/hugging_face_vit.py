"""Export of ViTs to folders that Hugging Face `transformers` loads, in the layout of ViT, or of DeiT with two tokens.

That layout is fixed: patch embedding, pre-norm, a head on the class token. For a model with another setting an error
names that setting before anything is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from seq2see.core.files import write_bytes, write_json
from seq2see.interop.causal_configs import HF_ACTIVATIONS
from seq2see.interop.exportable import ExportableModel, setting_text, unsupported
from seq2see.interop.folders import atomic_folder
from seq2see.interop.hugging_face_config import ENGINE, labels_json, stack_json
from seq2see.interop.vit_layouts import hugging_face_names, vit_mappings
from seq2see.interop.vit_weights import image_settings_of, patch_count, split_external
from seq2see.models.named_tensors import named_tensors
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings

# The supported values of each setting; another value raises an error.
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "encoder.kind": ("transformer",),
    "source.embedding.kind": ("patches",),
    "target.pooling": ("cls", "distilled"),
    "encoder.norm_order": ("pre",),
    "encoder.norm": ("layer",),
    "encoder.activation": tuple(dict.fromkeys(HF_ACTIVATIONS.values())),
    "encoder.bias": (True,),
    "encoder.kv_heads": (0,),
}
ARCHITECTURES = {1: "ViTForImageClassification", 2: "DeiTForImageClassificationWithTeacher"}
"""The class of `transformers` by the number of prefix tokens."""
BILINEAR = 2
"""Pillow's number of bilinear interpolation."""


def vit_layout(settings: ModelSettings) -> str:
    """The class of `transformers` for a model with these settings; an unsupported setting raises an error."""
    for path, values in SUPPORTED.items():
        value: Any = settings
        for name in path.split("."):
            value = getattr(value, name)
        if value not in values:
            reason = f"it is {' or '.join(map(setting_text, values))} in ViT"
            raise unsupported(ENGINE, f"{path}={setting_text(value)}", reason)
    return ARCHITECTURES[settings.prefix_tokens]


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
        write_json(temporary / "config.json", kind | _config(settings, labels))
        write_json(temporary / "preprocessor_config.json", _preprocessor(settings, distilled))
        write_bytes(temporary / "model.safetensors", save(exported, metadata={"format": "pt"}))


def _config(settings: ModelSettings, labels: tuple[str, ...]) -> dict[str, Any]:
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
