"""Reading the arrays of an npz file, which is a zip archive of npy files; pickled arrays are never loaded."""

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
"""Prefixes of weight names in files that also hold the state of the optimizer."""
UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Exceptions of a damaged archive; an encrypted archive raises a RuntimeError."""
STACKED_BLOCKS = "/encoderblock/"
"""The mark in the name of an array in which the weights of all blocks are stacked."""


class NpzFile:
    """The named tensors of a model; other arrays of the file are left out."""

    def __init__(self, path: Path):
        self.location = str(path)
        try:
            self._archive = zipfile.ZipFile(path)
            names = [name.removesuffix(SUFFIX) for name in self._archive.namelist() if name.endswith(SUFFIX)]
            self._prefix = next((each for each in PREFIXES if any(name.startswith(each) for name in names)), "")
            model_names = [name for name in names if name.startswith(self._prefix)]
            self._shapes, self._layers = self._unstack(
                {name.removeprefix(self._prefix): self._shape(name) for name in model_names}
            )
        except UNREADABLE as error:
            raise UserError(
                f"These weights cannot be read: {error}.", location=self.location, hint=DOWNLOAD_AGAIN
            ) from None

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor, from the header of its array."""
        return self._shapes

    def read(self, name: str) -> Tensor:
        """One tensor, in float32."""
        stored, layer = self._layers.get(name, (name, None))
        try:
            with self._archive.open(self._prefix + stored + SUFFIX) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
        except UNREADABLE as error:
            message = f"The weight '{name}' cannot be read: {error}."
            raise UserError(message, location=self.location, hint=DOWNLOAD_AGAIN) from None
        array = array if layer is None else array[layer]
        if array.dtype == np.dtype("V2"):  # bfloat16, which numpy does not support
            weight = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).float()
        elif array.dtype.kind == "f":
            weight = torch.from_numpy(np.ascontiguousarray(array, np.float32))
        else:
            raise integer_weight_error(name, array.dtype.name, self.location)
        return check_finite(weight, name, self.location)

    def _unstack(
        self, shapes: dict[str, tuple[int, ...]]
    ) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[str, int]]]:
        """The shapes with one name per block, and for each such name its array and its index in it."""
        unstacked, layers = {}, {}
        for name, shape in shapes.items():
            if STACKED_BLOCKS not in name or not shape:
                unstacked[name] = shape
                continue
            for number in range(shape[0]):
                block_name = name.replace(STACKED_BLOCKS, f"{STACKED_BLOCKS[:-1]}_{number}/")
                unstacked[block_name], layers[block_name] = shape[1:], (name, number)
        return unstacked, layers

    def _shape(self, name: str) -> tuple[int, ...]:
        with self._archive.open(name + SUFFIX) as file:
            version = np.lib.format.read_magic(file)
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            return tuple(read_header(file)[0])
