"""The tensors of a Hugging Face folder: one safetensors file, or several with an index. Pickles are refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.interop.causal_layouts import Place, shown
from seq2see.sequences.given import AGAIN

INDEX = "model.safetensors.index.json"
OLD = {".gamma": ".weight", ".beta": ".bias"}
"""How BERT's first files call the two weights of a norm."""
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


class Tensors(Protocol):
    """Named tensors that lie somewhere."""

    where: str

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each, without reading any."""

    def read(self, name: str) -> Tensor:
        """One of them, in float32."""


class WeightFiles:
    """The safetensors files of a folder."""

    def __init__(self, folder: Path):
        self.where = str(folder)
        self._files: dict[str, Any] = {}
        for path in _files(folder):
            try:
                opened = safe_open(path, framework="pt")
            except (OSError, SafetensorError) as error:
                raise UserError(f"These weights cannot be read: {error}.", where=str(path), remedy=AGAIN) from None
            self._files |= dict.fromkeys(opened.keys(), opened)

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor, without reading any."""
        return {name: tuple(opened.get_slice(name).get_shape()) for name, opened in self._files.items()}

    def read(self, name: str) -> Tensor:
        """One tensor, in float32."""
        tensor = self._files[name].get_tensor(name)
        if not tensor.is_floating_point():
            raise whole_numbers(name, str(tensor.dtype).removeprefix("torch."), self.where)
        return finite(tensor.float(), name, self.where)


def whole_numbers(name: str, kind: str, where: str) -> UserError:
    """The error for a weight whose numbers mean something else than they say: they were made of others, somehow."""
    remedy = "Give the model in float32, float16 or bfloat16."
    return UserError(f"The weight '{name}' is in whole numbers ({kind}).", where=where, remedy=remedy)


def finite(weight: Tensor, name: str, where: str) -> Tensor:
    """The weight, if it can be computed with: what is no number would become answers that mean nothing."""
    if not weight.isfinite().all():
        what = f"The weight '{name}' holds something that is no finite number."
        remedy = "The model was spoilt when it was trained or saved: get another."
        raise UserError(what, where=where, remedy=remedy)
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
        raise UserError(f"This index cannot be read: {error}.", where=str(index), remedy=AGAIN) from None
    except (KeyError, TypeError, AttributeError):
        what = "This index has no table 'weight_map' that says in which file each weight lies."
        raise UserError(what, where=str(index), remedy=AGAIN) from None
    for name in names:
        if Path(str(name)).name != name or not (folder / name).is_file():
            what = f"The index names '{name}', which is not in this folder."
            raise UserError(what, where=str(index), remedy="Put all files of the model into one folder.")
    return [folder / name for name in names]


def _no_weights(folder: Path) -> UserError:
    pickles = [path.name for pattern in PICKLES for path in sorted(folder.glob(pattern))]
    if pickles:
        return UserError(
            f"{pickles[0]} is a pickle, which can run any code when it is opened, so it is not opened.",
            where=str(folder),
            remedy="Save the model as safetensors: `model.save_pretrained(folder)` in transformers writes them.",
        )
    remedy = "Put the model's safetensors beside its config.json."
    return UserError("There is no model.safetensors here.", where=str(folder), remedy=remedy)


def matched(tensors: Tensors, places: Iterable[Place], body: str, ignored: tuple[str, ...]) -> dict[str, str]:
    """The stored name of each of their weights; what is missing, has another shape or no place is told.

    Only names and shapes are looked at: nothing is read before all of them fit.
    """
    stored = tensors.shapes()
    aged = {name.removesuffix(old) + new: name for name in stored for old, new in OLD.items() if name.endswith(old)}
    # GPT-2's own files were saved without their head, and then names begin one part later.
    bare = body if not any(name.startswith(body) for name in stored) else ""
    names, expected = {}, {}
    for place in places:
        for name, shape in zip(place.theirs, place.shapes, strict=True):
            bared = name.removeprefix(bare)
            names[name], expected[name] = aged.get(bared, bared), shape
    for name, shape in expected.items():
        found = stored.get(names[name])
        if found is None:
            raise UserError(
                f"The weight '{names[name]}' ({shown(shape)}) is missing.",
                where=tensors.where,
                remedy="The config speaks of another model than these weights are, or a file is incomplete.",
            )
        if found != shape:
            raise UserError(
                f"The weight '{names[name]}' is {shown(found)}, but by its config it should be {shown(shape)}.",
                where=tensors.where,
                remedy="The weights and the config belong to different models.",
            )
    strange = [
        name for name in stored if name not in names.values() and not name.endswith((*ignored, "lm_head.weight"))
    ]
    if strange:
        more = f", and {len(strange) - 1} more have none" if len(strange) > 1 else ""
        raise UserError(
            f"The weight '{strange[0]}' has no place in the model that its config tells of{more}.",
            where=tensors.where,
            remedy="The weights and the config belong to different models.",
        )
    return names
