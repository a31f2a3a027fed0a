"""Our ViTs as folders that stock Hugging Face `transformers` opens, in the layout of ViT, or of DeiT with two tokens.

That layout has one form: cut patches, norms before the parts, a head on the class token. What has another is refused by
its setting before anything is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from seq2see.core.files import write_bytes, write_json
from seq2see.interop.causal_configs import GPT2_THINKS
from seq2see.interop.folders import new_folder
from seq2see.interop.hugging_face_config import ENGINE, labels_json, stack_json
from seq2see.interop.stored import Stored, cannot
from seq2see.interop.vit_layouts import hugging_face, vit_places
from seq2see.interop.vit_weights import picture_of, places_of, unsettled
from seq2see.models.packing import pack_model
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings

# What the layout has; a setting with another value is refused.
HELD: dict[str, tuple[Any, ...]] = {
    "encoder.kind": ("transformer",),
    "source.frontend.kind": ("patches",),
    "target.summary": ("class-token", "distilled"),
    "encoder.order": ("pre",),
    "encoder.norm": ("layer",),
    "encoder.think": tuple(dict.fromkeys(GPT2_THINKS.values())),
    "encoder.matrices": ("biased",),
    "encoder.key_heads": (0,),
}
ARCHITECTURES = {1: "ViTForImageClassification", 2: "DeiTForImageClassificationWithTeacher"}
"""The class that opens a model with so many tokens in front."""
BILINEAR = 2
"""Pillow's number for how pixels of another size are found."""


def vit_layout(settings: ModelSettings) -> str:
    """The class that opens a model with these settings there; the error for one that none of them holds."""
    for path, values in HELD.items():
        value: Any = settings
        for name in path.split("."):
            value = getattr(value, name)
        if value not in values:
            raise cannot(ENGINE, f"{path}={value}", f"it is {' or '.join(map(str, values))} in ViT")
    return ARCHITECTURES[settings.in_front]


@torch.no_grad()
def write_vit(stored: Stored, folder: Path) -> None:
    """Write a folder that `transformers` opens with the class that `vit_layout` names."""
    settings, labels = stored.config.model, stored.tokenisers.labels
    architecture, taught = vit_layout(settings), settings.in_front == 2
    module: Any = stored.module
    picture = picture_of(settings)
    ours = {name: tensor.float().cpu().clone() for name, tensor in pack_model(module).items()}
    grid = (picture.side // picture.frontend.size,) * 2
    table = module.source.positions(grid)[0]  # written out, if it is a formula
    ours["source.positions.table.weight"] = table.expand(places_of(settings), -1).float().cpu().clone()
    found = unsettled(ours, settings)
    names = hugging_face("deit." if taught else "vit.", taught)
    count = places_of(settings) + settings.in_front
    theirs: dict[str, Tensor] = {}
    for place in vit_places(names, settings, count, len(labels)):
        theirs |= place.part(found[place.ours])
    with new_folder(folder) as temporary:
        kind = {"model_type": "deit" if taught else "vit", "architectures": [architecture]}
        write_json(temporary / "config.json", kind | _config(settings, labels))
        write_json(temporary / "preprocessor_config.json", _preprocessor(settings, taught))
        write_bytes(temporary / "model.safetensors", save(theirs, metadata={"format": "pt"}))


def _config(settings: ModelSettings, labels: tuple[str, ...]) -> dict[str, Any]:
    stack, picture = settings.encoder, picture_of(settings)
    assert isinstance(stack, TransformerSettings)
    size = {"image_size": picture.side, "patch_size": picture.frontend.size, "num_channels": picture.channels}
    return {**stack_json(stack), "qkv_bias": True, **size, **labels_json(labels)}


def _preprocessor(settings: ModelSettings, taught: bool) -> dict[str, Any]:
    """How a picture becomes numbers there: the whole of it in one size, and 2 x - 1."""
    picture = picture_of(settings)
    return {
        "image_processor_type": "DeiTImageProcessor" if taught else "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": picture.side, "width": picture.side},
        "resample": BILINEAR,
        "do_center_crop": False,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5] * picture.channels,
        "image_std": [0.5] * picture.channels,
    }
