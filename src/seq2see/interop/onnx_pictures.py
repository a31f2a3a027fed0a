"""Our models that look at pictures as one ONNX graph: pixels in, scores of the labels out.

`classifier.onnx` takes bytes as they lie in a file, so whoever uses it need not know what the model makes of them. The
number of pictures is free, their size is the one that the model learnt from. `model.json` names the labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from seq2see.core.batch import Batch, Pictures
from seq2see.core.files import sync_folder, write_json
from seq2see.interop.folders import need, new_folder
from seq2see.interop.onnx import ENGINE, export_graph, portable
from seq2see.interop.stored import Stored, cannot
from seq2see.interop.vit_weights import picture_of
from seq2see.models.reader import Reader
from seq2see.models.settings import ModelSettings, PictureLabel

FILE = "classifier.onnx"
NAMES = {"inputs": ["pixels"], "outputs": ["scores"]}
KINDS = ("transformer", "resnet")
"""Encoders that take all places at once; a recurrent one walks through time one step after the other."""


def check_pictures(settings: ModelSettings) -> None:
    """Refuse what has no such graph."""
    if not isinstance(settings.target, PictureLabel):
        raise cannot(ENGINE, f"target.kind={settings.target.kind}", "pictures are given labels there")
    assert settings.encoder is not None
    if settings.encoder.kind not in KINDS:
        raise cannot(ENGINE, f"encoder.kind={settings.encoder.kind}", f"it is {' or '.join(KINDS)} there")


class PictureGraph(nn.Module):
    """pixels -> the score of every label."""

    def __init__(self, model: Reader):
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Look at the pictures."""
        rows = torch.zeros_like(pixels[:, 0, 0, 0], dtype=torch.long)
        return self.model(Batch(Pictures(pixels), None, rows[:, None], rows))[:, 0]


@torch.no_grad()
def write_onnx_pictures(stored: Stored, folder: Path) -> None:
    """Write `classifier.onnx` and `model.json`."""
    settings = stored.config.model
    check_pictures(settings)
    need("onnx", "onnx", "onnxscript")
    picture = picture_of(settings)
    module: Any = portable(stored.module)
    pixels = torch.zeros(3, picture.channels, picture.side, picture.side, dtype=torch.uint8)
    with new_folder(folder) as temporary:
        write_json(temporary / "model.json", _description(stored))
        export_graph(PictureGraph(module), (pixels,), ({0: Dim.DYNAMIC},), NAMES, temporary / FILE)
        sync_folder(temporary)


def _description(stored: Stored) -> dict[str, Any]:
    picture = picture_of(stored.config.model)
    shape = f"(row, {picture.channels}, {picture.side}, {picture.side})"
    return {
        "format": 1,
        "graphs": {FILE: NAMES},
        "shapes": {
            "pixels": f"{shape} uint8, channel by channel from the top left",
            "scores": "(row, label) float32; their softmax are probabilities",
        },
        "labels": list(stored.tokenisers.labels),
    }
