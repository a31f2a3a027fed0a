"""The arrays of an npz file, which is a zip archive of npy files; nothing in it is ever unpickled."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.interop.safetensors_files import check_finite, integer_weight_error
from seq2see.sequences.pretrained_tokenizer import DOWNLOAD_AGAIN

SUFFIX = ".npy"
PREFIXES = ("params/", "opt/target/", "target/")
"""What stands before the names of weights that were saved together with how they were trained."""
UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What a damaged archive is noticed by; one that is packed or locked in another way by a RuntimeError."""
STACKED_BLOCKS = "/encoderblock/"
"""In the names of weights that lie on top of each other in one array, block after block."""


class NpzFile:
    """Named tensors; of a file that holds more than a model, only those of the model."""

    def __init__(self, path: Path):
        self.location = str(path)
        try:
            self._archive = zipfile.ZipFile(path)
            names = [name.removesuffix(SUFFIX) for name in self._archive.namelist() if name.endswith(SUFFIX)]
            self._prefix = next((each for each in PREFIXES if any(name.startswith(each) for name in names)), "")
            kept = [name for name in names if name.startswith(self._prefix)]
            self._shapes, self._layers = self._unstack(
                {name.removeprefix(self._prefix): self._shape(name) for name in kept}
            )
        except UNREADABLE as error:
            raise UserError(
                f"These weights cannot be read: {error}.", location=self.location, hint=DOWNLOAD_AGAIN
            ) from None

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor; only the beginning of each is looked at."""
        return self._shapes

    def read(self, name: str) -> Tensor:
        """One tensor, in float32."""
        stored, layer = self._layers.get(name, (name, None))
        try:
            with self._archive.open(self._prefix + stored + SUFFIX) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
        except UNREADABLE as error:
            what = f"The weight '{name}' cannot be read: {error}."
            raise UserError(what, location=self.location, hint=DOWNLOAD_AGAIN) from None
        array = array if layer is None else array[layer]
        if array.dtype == np.dtype("V2"):  # bfloat16, which numpy does not know
            weight = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).float()
        elif array.dtype.kind == "f":
            weight = torch.from_numpy(np.ascontiguousarray(array, np.float32))
        else:
            raise integer_weight_error(name, array.dtype.name, self.location)
        return check_finite(weight, name, self.location)

    def _unstack(
        self, shapes: dict[str, tuple[int, ...]]
    ) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[str, int]]]:
        """The shapes with a name for every block, and where such a block lies: in which array, and at which place."""
        found, layers = {}, {}
        for name, shape in shapes.items():
            if STACKED_BLOCKS not in name or not shape:
                found[name] = shape
                continue
            for number in range(shape[0]):
                own = name.replace(STACKED_BLOCKS, f"{STACKED_BLOCKS[:-1]}_{number}/")
                found[own], layers[own] = shape[1:], (name, number)
        return found, layers

    def _shape(self, name: str) -> tuple[int, ...]:
        with self._archive.open(name + SUFFIX) as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            return tuple(read(file)[0])
