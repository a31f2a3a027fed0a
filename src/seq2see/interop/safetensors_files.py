"""The tensors of a Hugging Face folder: one safetensors file, or several with an index. Pickles are not loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.data.tokenizers.pretrained_tokenizer import DOWNLOAD_AGAIN
from seq2see.interop.causal_weights import WeightMapping, format_shape

INDEX = "model.safetensors.index.json"
LEGACY_SUFFIXES = {".gamma": ".weight", ".beta": ".bias"}
"""The names of weight and bias of a layer norm in the first BERT checkpoints."""
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


class TensorReader(Protocol):
    """A source of named tensors."""

    location: str

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor, without reading any."""

    def read(self, name: str) -> Tensor:
        """One tensor, in float32."""


class SafetensorsFiles:
    """The safetensors files of a folder."""

    def __init__(self, folder: Path):
        self.location = str(folder)
        self._files: dict[str, Any] = {}
        for path in _files(folder):
            try:
                opened = safe_open(path, framework="pt")
            except (OSError, SafetensorError) as error:
                raise UserError(
                    f"These weights cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN
                ) from None
            self._files |= dict.fromkeys(opened.keys(), opened)

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor, without reading any."""
        return {name: tuple(opened.get_slice(name).get_shape()) for name, opened in self._files.items()}

    def read(self, name: str) -> Tensor:
        """One tensor, in float32."""
        tensor = self._files[name].get_tensor(name)
        if not tensor.is_floating_point():
            raise integer_weight_error(name, str(tensor.dtype).removeprefix("torch."), self.location)
        return check_finite(tensor.float(), name, self.location)


def integer_weight_error(name: str, kind: str, location: str) -> UserError:
    """The error for a weight of integers: it is quantized in an unsupported way."""
    hint = "Give the model in float32, float16 or bfloat16."
    return UserError(f"The weight '{name}' has integers ({kind}).", location=location, hint=hint)


def check_finite(weight: Tensor, name: str, location: str) -> Tensor:
    """The weight itself; NaN or infinity raises an error, because every output of the model would be NaN."""
    if not weight.isfinite().all():
        message = f"The weight '{name}' has a value that is not finite."
        hint = "The model was damaged in training or when it was saved; use another."
        raise UserError(message, location=location, hint=hint)
    return weight


def _files(folder: Path) -> list[Path]:
    """The weight files; the files of an index must be in the same folder."""
    if (folder / "model.safetensors").exists():
        return [folder / "model.safetensors"]
    index = folder / INDEX
    if not index.exists():
        raise _no_weights(folder)
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (OSError, ValueError) as error:
        raise UserError(f"This index cannot be read: {error}.", location=str(index), hint=DOWNLOAD_AGAIN) from None
    except (KeyError, TypeError, AttributeError):
        message = "This index has no table 'weight_map' with the file of each weight."
        raise UserError(message, location=str(index), hint=DOWNLOAD_AGAIN) from None
    for name in names:
        if Path(str(name)).name != name or not (folder / name).is_file():
            message = f"The index names '{name}', which is not in this folder."
            raise UserError(message, location=str(index), hint="Put all files of the model into one folder.")
    return [folder / name for name in names]


def _no_weights(folder: Path) -> UserError:
    pickles = [path.name for pattern in PICKLES for path in sorted(folder.glob(pattern))]
    if pickles:
        return UserError(
            f"{pickles[0]} is a pickle, which can run any code when it is loaded, so it is not loaded.",
            location=str(folder),
            hint="Save the model as safetensors: `model.save_pretrained(folder)` in transformers writes them.",
        )
    hint = "Put the model's safetensors into the folder of its config.json."
    return UserError("There is no model.safetensors here.", location=str(folder), hint=hint)


def match_weights(
    tensors: TensorReader, mappings: Iterable[WeightMapping], base_model_prefix: str, ignored_suffixes: tuple[str, ...]
) -> dict[str, str]:
    """The stored name of each external weight; a weight that is missing, unused or of another shape raises an error.

    Only names and shapes are checked: no tensor is read before all of them match.
    """
    stored = tensors.shapes()
    legacy = {
        name.removesuffix(old) + new: name
        for name in stored
        for old, new in LEGACY_SUFFIXES.items()
        if name.endswith(old)
    }
    # OpenAI's GPT-2 files were saved without a head, so their names have no prefix.
    dropped_prefix = base_model_prefix if not any(name.startswith(base_model_prefix) for name in stored) else ""
    names, expected = {}, {}
    for mapping in mappings:
        for name, shape in zip(mapping.external, mapping.shapes, strict=True):
            shortened = name.removeprefix(dropped_prefix)
            names[name], expected[name] = legacy.get(shortened, shortened), shape
    for name, shape in expected.items():
        stored_shape = stored.get(names[name])
        if stored_shape is None:
            raise UserError(
                f"The weight '{names[name]}' ({format_shape(shape)}) is missing.",
                location=tensors.location,
                hint="The config belongs to another model than the weights, or a file is incomplete.",
            )
        if stored_shape != shape:
            shapes = f"{format_shape(stored_shape)}, but by its config it should be {format_shape(shape)}"
            raise UserError(
                f"The weight '{names[name]}' is {shapes}.",
                location=tensors.location,
                hint="The weights and the config belong to different models.",
            )
    unused = [
        name
        for name in stored
        if name not in names.values() and not name.endswith((*ignored_suffixes, "lm_head.weight"))
    ]
    if unused:
        more = f", nor are {len(unused) - 1} more" if len(unused) > 1 else ""
        raise UserError(
            f"The weight '{unused[0]}' is not part of the model in its config{more}.",
            location=tensors.location,
            hint="The weights and the config belong to different models.",
        )
    return names
