"""The tensors of a Hugging Face folder: one safetensors file, or several with an index. Pickles are refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.interop.causal_layouts import WeightMapping, format_shape
from seq2see.sequences.pretrained_tokenizer import DOWNLOAD_AGAIN

INDEX = "model.safetensors.index.json"
LEGACY_SUFFIXES = {".gamma": ".weight", ".beta": ".bias"}
"""How BERT's first files call the two weights of a norm."""
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


class TensorReader(Protocol):
    """Named tensors that lie somewhere."""

    location: str

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each, without reading any."""

    def read(self, name: str) -> Tensor:
        """One of them, in float32."""


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
    """The error for a weight whose numbers mean something else than they say: they were made of others, somehow."""
    hint = "Give the model in float32, float16 or bfloat16."
    return UserError(f"The weight '{name}' is in whole numbers ({kind}).", location=location, hint=hint)


def check_finite(weight: Tensor, name: str, location: str) -> Tensor:
    """The weight, if it can be computed with: what is no number would become answers that mean nothing."""
    if not weight.isfinite().all():
        what = f"The weight '{name}' holds something that is no finite number."
        hint = "The model was spoilt when it was trained or saved: get another."
        raise UserError(what, location=location, hint=hint)
    return weight


def _files(folder: Path) -> list[Path]:
    """The files of the weights; those of an index only if they lie in the same folder."""
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
        what = "This index has no table 'weight_map' that says in which file each weight lies."
        raise UserError(what, location=str(index), hint=DOWNLOAD_AGAIN) from None
    for name in names:
        if Path(str(name)).name != name or not (folder / name).is_file():
            what = f"The index names '{name}', which is not in this folder."
            raise UserError(what, location=str(index), hint="Put all files of the model into one folder.")
    return [folder / name for name in names]


def _no_weights(folder: Path) -> UserError:
    pickles = [path.name for pattern in PICKLES for path in sorted(folder.glob(pattern))]
    if pickles:
        return UserError(
            f"{pickles[0]} is a pickle, which can run any code when it is opened, so it is not opened.",
            location=str(folder),
            hint="Save the model as safetensors: `model.save_pretrained(folder)` in transformers writes them.",
        )
    hint = "Put the model's safetensors beside its config.json."
    return UserError("There is no model.safetensors here.", location=str(folder), hint=hint)


def match_weights(
    tensors: TensorReader, mappings: Iterable[WeightMapping], base_model_prefix: str, ignored_suffixes: tuple[str, ...]
) -> dict[str, str]:
    """The stored name of each of their weights; what is missing, has another shape or no place is told.

    Only names and shapes are looked at: nothing is read before all of them fit.
    """
    stored = tensors.shapes()
    legacy = {
        name.removesuffix(old) + new: name
        for name in stored
        for old, new in LEGACY_SUFFIXES.items()
        if name.endswith(old)
    }
    # GPT-2's own files were saved without their head, and then names begin one part later.
    dropped_prefix = base_model_prefix if not any(name.startswith(base_model_prefix) for name in stored) else ""
    names, expected = {}, {}
    for mapping in mappings:
        for name, shape in zip(mapping.external, mapping.shapes, strict=True):
            shortened = name.removeprefix(dropped_prefix)
            names[name], expected[name] = legacy.get(shortened, shortened), shape
    for name, shape in expected.items():
        found = stored.get(names[name])
        if found is None:
            raise UserError(
                f"The weight '{names[name]}' ({format_shape(shape)}) is missing.",
                location=tensors.location,
                hint="The config speaks of another model than these weights are, or a file is incomplete.",
            )
        if found != shape:
            raise UserError(
                f"The weight '{names[name]}' is {format_shape(found)}, but by its config it should be {format_shape(shape)}.",
                location=tensors.location,
                hint="The weights and the config belong to different models.",
            )
    strange = [
        name
        for name in stored
        if name not in names.values() and not name.endswith((*ignored_suffixes, "lm_head.weight"))
    ]
    if strange:
        more = f", and {len(strange) - 1} more have none" if len(strange) > 1 else ""
        raise UserError(
            f"The weight '{strange[0]}' has no place in the model that its config tells of{more}.",
            location=tensors.location,
            hint="The weights and the config belong to different models.",
        )
    return names
