"""The files of other libraries' checkpoints: options in JSON, tensors, and the mappings of their names to ours.

`JsonConfig` is a `config.json`: an unsupported option raises an error with its name. The tensors are one safetensors
file, or several with an index; pickles are not loaded. A layout is a list of mappings, one for each weight of seq2see,
from external weight names to state-dict keys. Import concatenates the external tensors, export splits the tensor of
seq2see, and both use the shapes that are stored in the mapping, so there is one list for both directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from seq2see.core.documents import load_json
from seq2see.core.errors import UserError
from seq2see.core.files import MANIFEST
from seq2see.data.tokenizers.pretrained_tokenizer import DOWNLOAD_AGAIN

HF_ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu", "relu": "relu"}


LAYER_COUNTS = ("num_hidden_layers", "n_layer")
MAX_LAYERS = 1 << 10
"""No model has more blocks; the largest have some hundred."""
MAX_SIZE = 1 << 22
"""No model has a larger width, vocabulary or number of positions: four million."""


class JsonConfig:
    """A `config.json` with typed access to its values."""

    def __init__(self, tree: dict[str, Any], location: str):
        self.tree, self.location = tree, location

    def require(self, name: str) -> Any:
        """A required value."""
        if self.tree.get(name) is None:
            raise UserError(f"There is no '{name}' here.", location=self.location)
        return self.tree[name]

    def positive_int(self, name: str, default: int | None = None) -> int:
        """An integer of at least 1, which is required if there is no default."""
        value = self.require(name) if default is None else self.get(name, default)
        if type(value) is not int or value < 1:
            raise UserError(
                f"'{name}' is {repr(value)[:40]}, but it should be a whole number from 1 on.", location=self.location
            )
        largest = MAX_LAYERS if name in LAYER_COUNTS else MAX_SIZE
        if value > largest:  # the names and shapes of so many weights would fill the memory before they are compared
            message = f"'{name}' is {str(value)[:40]}, and at most {largest:,} is supported."
            raise UserError(message, location=self.location, hint=DOWNLOAD_AGAIN)
        return value

    def boolean(self, name: str, default: bool) -> bool:
        """True or false, or the default if the key is missing."""
        value = self.get(name, default)
        if type(value) is not bool:
            hint = f"Write true or false; the default is {str(default).lower()}."
            raise UserError(f"'{name}' is {value!r}, but it must be true or false.", location=self.location, hint=hint)
        return value

    def get(self, name: str, default: Any) -> Any:
        """A value, or the default if the key is missing."""
        value = self.tree.get(name)
        return default if value is None else value

    def table(self, name: str) -> dict[str, Any]:
        """A table of values, which is empty if the key is missing."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            raise UserError(f"'{name}' is {value!r}, but it should be a table.", location=self.location)
        return value

    def unsupported(self, name: str, value: Any, reason: str) -> UserError:
        """The error for a model that the layers of seq2see do not support."""
        return UserError(f"{name}={value!r} is not supported: {reason}.", location=self.location)

    def check(self, required: dict[str, Any]) -> None:
        """Raise an error for an option that has another value than the required one."""
        for name, expected in required.items():
            if self.get(name, expected) != expected:
                raise self.unsupported(name, self.tree[name], f"only {expected!r} is supported")


@dataclass(frozen=True)
class WeightMapping:
    """One weight of seq2see and its external tensors: several of them are concatenated along the first axis."""

    key: str
    external: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the external tensors."""
    transpose: bool = False
    """Whether the external tensors are (in, out), as in GPT-2's Conv1D, instead of (out, in)."""
    is_vocabulary_table: bool = False
    """Whether there is one row per token: rows are reordered by the map of token ids."""
    flip: bool = False
    """Whether the order of the rows is reversed."""

    def from_external(self, tensors: list[Tensor]) -> Tensor:
        """The weight of seq2see, from the external tensors."""
        weight = torch.cat([tensor.T if self.transpose else tensor for tensor in tensors])
        return (weight.flip(0) if self.flip else weight).contiguous()

    def to_external(self, tensor: Tensor) -> dict[str, Tensor]:
        """The external tensors by name, from the weight of seq2see."""
        dim, tensor = -1 if self.transpose else 0, tensor.flip(0) if self.flip else tensor
        chunks = tensor.split([shape[dim] for shape in self.shapes])
        return {
            name: (chunk.T if self.transpose else chunk).contiguous()
            for name, chunk in zip(self.external, chunks, strict=True)
        }


def norm_mappings(key: str, external: str, width: int) -> Iterator[WeightMapping]:
    """Weight and bias of a layer norm."""
    for part in ("weight", "bias"):
        yield WeightMapping(f"{key}.{part}", (f"{external}.{part}",), ((width,),))


def format_shape(shape: tuple[int, ...] | list[int]) -> str:
    """A shape as text.

    >>> format_shape((3, 4))
    '3 x 4'
    """
    return " x ".join(map(str, shape)) if prod(shape) and shape else str(tuple(shape))


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
        names = sorted(set(load_json(index)["weight_map"].values()))
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


def is_pretrained(path: Path) -> bool:
    """Whether this path is a pretrained model: a folder whose `config.json` has a model type, a GGUF or an npz file."""
    if path.suffix in (".gguf", ".npz"):
        return path.is_file()
    try:
        tree = load_json(path / "config.json")
        return "model_type" in tree or is_timm(tree)
    except ValueError:
        return not (path / MANIFEST).exists()  # damaged, and no folder of seq2see: reading it raises the error
    except (OSError, TypeError):
        return False


def is_timm(tree: dict[str, Any]) -> bool:
    """Whether a `config.json` is timm's: it has `architecture` and `pretrained_cfg`."""
    return "architecture" in tree and "pretrained_cfg" in tree
