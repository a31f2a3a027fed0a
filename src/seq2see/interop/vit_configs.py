"""What the files of a ViT say, as settings of ours; what we have no part for is refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite, isqrt
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError, unknown
from seq2see.core.settings import read_tree
from seq2see.interop.bert_configs import bert_labels
from seq2see.interop.causal_configs import GPT2_THINKS, Config
from seq2see.interop.npz_file import NpzFile
from seq2see.interop.vit_layouts import BIG_VISION, TIMM, VISION_TRANSFORMER, Names, hugging_face
from seq2see.interop.vit_weights import ViTFile
from seq2see.interop.weight_files import Tensors
from seq2see.models.settings import ModelSettings
from seq2see.sequences.given import AGAIN

# What we have no part for, and the value with which it does nothing; also what is meant where it is not said.
FIXED = {"qkv_bias": True}
SUMMARIES = {
    "ViTForImageClassification": "class-token",
    "DeiTForImageClassification": "distilled",
    "DeiTForImageClassificationWithTeacher": "distilled",
    "ViTModel": "",
}
"""What is asked, by the name of the architecture; a body alone is asked nothing."""
HALF = (0.5, 0.5, 0.5)
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and spread of the channels of its pictures, which many models take away and divide by."""
FLAX_EPSILON = 1e-6
"""JAX's and timm's layer norms add so much."""
ARGUMENTS = (
    "img_size", "patch_size", "in_chans", "num_classes", "embed_dim", "depth", "num_heads", "mlp_ratio", "global_pool"
)  # fmt: skip
"""What may be said when a model of timm's is made: the weights tell it as well, or we look at it."""
WIDE_HEADS = {"huge": 80, "giant": 88, "gigantic": 104, "so400m": 72}
"""Numbers of a head where they are not 64, by a word in the name of a ViT (Zhai et al. 2022, table 2)."""


def hugging_face_vit(folder: Path, config: Config, weights: Tensors) -> ViTFile:
    """A ViT or DeiT of `transformers`."""
    config.check(FIXED)
    kind = config.need("model_type")
    name = str((config.get("architectures", None) or ["ViTModel"])[0])
    if name not in SUMMARIES:
        raise unknown("head that we have", name, SUMMARIES, where=config.where)
    curve = config.get("hidden_act", "gelu")
    if curve not in GPT2_THINKS:
        raise config.refuse("hidden_act", curve, f"there are {', '.join(GPT2_THINKS)}")
    width = config.number("hidden_size", 768)
    encoder = {
        "width": width,
        "depth": config.number("num_hidden_layers", 12),
        "heads": config.number("num_attention_heads", 12),
        "expansion": config.number("intermediate_size", 3072) / width,
        "epsilon": config.get("layer_norm_eps", 1e-12),
        "think": GPT2_THINKS[curve],
        "dropout": config.get("hidden_dropout_prob", 0.0),
    }
    side, size, channels = (
        config.number(*each) for each in (("image_size", 224), ("patch_size", 16), ("num_channels", 3))
    )
    names = hugging_face(f"{kind}." if SUMMARIES[name] else "", name.endswith("WithTeacher"))
    answers = weights.shapes().get(f"{names.heads[0]}.bias", (0,))[0]
    settings = vit_settings((side, size, channels), encoder, SUMMARIES[name], config.where)
    labels = bert_labels(config, answers) if SUMMARIES[name] else ()
    return ViTFile(weights, names, settings, labels, *_tones(folder, str(kind), channels))


def _tones(folder: Path, kind: str, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What is taken away from pixels and what they are divided by, as the preprocessor's file says."""
    path = folder / "preprocessor_config.json"
    # A file that names none means a half; where there is no file, DeiT saw ImageNet's own.
    usual = IMAGENET if kind == "deit" and not path.exists() else (HALF, HALF)
    try:
        told = json.loads(path.read_bytes()) if path.exists() else {}
        if not told.get("do_rescale", True) or abs(told.get("rescale_factor", 1 / 255) * 255 - 1) > 1e-3:
            raise ValueError("pixels are brought to other numbers than from 0 to 1 first")
        if not told.get("do_normalize", True):
            return (0.0,) * channels, (1.0,) * channels
        mean, spread = (told.get(name, each) for name, each in zip(("image_mean", "image_std"), usual, strict=True))
        return _numbers(mean, channels), _divisors(spread, channels)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"This cannot be read: {error}.", where=str(path), remedy=AGAIN) from None


def _numbers(values: Any, channels: int) -> tuple[float, ...]:
    """A number for each channel; of a grey picture the first counts."""
    numbers = [float(value) for value in values][:channels]
    if len(numbers) != channels or not all(map(isfinite, numbers)):
        raise ValueError(f"{values} are not the numbers of {channels} channels")
    return tuple(numbers)


def _divisors(values: Any, channels: int) -> tuple[float, ...]:
    """The same, of what pixels are divided by."""
    numbers = _numbers(values, channels)
    if 0 in numbers:
        raise ValueError(f"pixels cannot be divided by {values}")
    return numbers


def timm_vit(config: Config, weights: Tensors) -> ViTFile:
    """A ViT or DeiT of timm: most of its shape is told by its weights alone."""
    name, shapes = str(config.need("architecture")), weights.shapes()
    if not name.startswith(("vit_", "deit_")):
        what = f"We have no layers for timm's '{name}'; there are those that begin with vit_ or deit_."
        raise UserError(what, where=config.where)
    known = _told_by_timm(config)
    width, channels, size, _ = _shape(shapes, "patch_embed.proj.weight", 4, config.where)
    encoder = _stack(shapes, r"blocks\.(\d+)\.", "blocks.0.mlp.fc1.bias", width, config.where) | {
        "heads": width // next((wide for word, wide in WIDE_HEADS.items() if word in name), 64),
        "think": "gelu",
    }
    heads = known.get("num_heads", None)
    encoder |= {"heads": heads} if heads else {}
    summary = "distilled" if "dist_token" in shapes else "class-token"
    side, mean, spread = _timm_tones(known, channels)
    settings = vit_settings((side, size, channels), encoder, summary, config.where)
    named = known.get("label_names", None)
    count = shapes.get("head.bias", (0,))[0]
    told = {"id2label": {str(number): label for number, label in enumerate(named)}} if named else {}
    labels = bert_labels(Config(told, config.where), count)
    return ViTFile(weights, TIMM, settings, labels, mean, spread)


def _told_by_timm(config: Config) -> Config:
    """All that timm's file says in one table; what we have no part for is refused."""
    arguments = config.table("model_args")
    for name, value in arguments.items():
        if name not in ARGUMENTS and not name.endswith("_rate"):  # a rate of dropping matters in training alone
            raise config.refuse(f"model_args.{name}", value, f"there are {', '.join(ARGUMENTS)}")
    known = Config({**config.tree, **config.table("pretrained_cfg"), **arguments}, config.where)
    known.check({"global_pool": "token"})
    return known


def _timm_tones(known: Config, channels: int) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
    """The side of a picture, what is taken away from its pixels and what they are divided by."""
    try:
        side, (mean, spread) = int(known.need("input_size")[1]), IMAGENET
        return side, _numbers(known.get("mean", mean), channels), _divisors(known.get("std", spread), channels)
    except (ValueError, TypeError, LookupError) as error:
        raise UserError(f"This cannot be read: {error}.", where=known.where, remedy=AGAIN) from None


def google_vit(path: Path) -> ViTFile:
    """A ViT of Google's, in the layout of vision_transformer or of big_vision: its weights tell its whole shape."""
    weights, where = NpzFile(path), str(path)
    shapes = weights.shapes()
    names = BIG_VISION if BIG_VISION.positions in shapes else VISION_TRANSFORMER
    size, _, channels, width = _shape(shapes, f"{names.patches}/kernel", 4, where)
    positions = _shape(shapes, names.positions, 3, where)[1]
    first = names.block.format(0)
    _, heads, _ = _shape(shapes, f"{first}{names.look[0]}/kernel", 3, where)
    encoder = _stack(shapes, r"encoderblock_(\d+)/", f"{first}{names.widen}/bias", width, where)
    encoder |= {"heads": heads, "think": "gelu-tanh"}
    summary = _summary(names, shapes)
    grid = isqrt(positions)  # one that is no square has a class token among them
    settings = vit_settings((grid * size, size, channels), encoder, summary, where)
    count = shapes.get("head/bias", (0,))[0]
    labels = bert_labels(Config({}, where), count) if summary else ()
    return ViTFile(weights, names, settings, labels, HALF[:channels], HALF[:channels])


def _summary(names: Names, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """What a label is told from; without a head nothing is asked."""
    if "head/kernel" not in shapes:
        return ""
    if f"{names.pool}probe" in shapes:
        return "attention"
    if "cls" not in shapes:
        return "mean"
    return "pre-logits" if f"{names.sum_up}/kernel" in shapes else "class-token"


def _shape(shapes: Mapping[str, tuple[int, ...]], name: str, axes: int, where: str) -> tuple[int, ...]:
    """The shape of a weight that every ViT has."""
    found = shapes.get(name, ())
    if len(found) != axes:
        what = f"There is no weight '{name}' with {axes} axes, so this is no ViT."
        raise UserError(what, where=where, remedy="Give the file of a Vision Transformer.")
    return found


def _stack(
    shapes: Mapping[str, tuple[int, ...]], block: str, hidden: str, width: int, where: str
) -> dict[str, int | float | str]:
    """The shape of the blocks, as the names and shapes of their weights tell it."""
    numbers = {int(found[1]) for name in shapes if (found := re.search(block, name))}
    expansion = _shape(shapes, hidden, 1, where)[0] / width
    return {"width": width, "depth": len(numbers), "expansion": expansion, "epsilon": FLAX_EPSILON, "dropout": 0.0}


def vit_settings(picture: tuple[int, int, int], encoder: Mapping[str, Any], summary: str, where: str) -> ModelSettings:
    """The settings of a ViT; `picture` is its side, that of a patch, and the channels of a pixel."""
    side, size, channels = picture
    target = {"kind": "picture-label", "summary": summary} if summary else {"kind": "vector", "summary": "first"}
    source = {"kind": "picture", "side": side, "channels": channels, "frontend": {"kind": "patches", "size": size}}
    tree = {"source": source, "target": target, "encoder": {"kind": "transformer", **encoder}}
    return read_tree(ModelSettings, tree, where=where)
