"""Export of image classifiers to one ONNX graph: pixels in, logits of the labels out.

The input of `classifier.onnx` is bytes, and the graph includes their normalization. The number of images is dynamic,
their size is that of the training images. `model.json` lists the labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from seq2see.core.batch import Batch, Images
from seq2see.core.files import sync_folder, write_json
from seq2see.interop.exportable import ExportableModel, unsupported
from seq2see.interop.folders import atomic_folder, require_packages
from seq2see.interop.onnx_seq2seq import ENGINE, export_graph, to_cpu_float32
from seq2see.interop.vit_weights import image_settings_of
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.settings import ImageLabel, ModelSettings

FILE = "classifier.onnx"
NAMES = {"inputs": ["pixels"], "outputs": ["logits"]}
KINDS = ("transformer", "resnet")
"""Encoders that process all positions in parallel; a recurrent one has a loop over time, which is not exported."""


def check_classifier(settings: ModelSettings) -> None:
    """Raise an error for settings that this export does not support."""
    if not isinstance(settings.target, ImageLabel):
        raise unsupported(
            ENGINE, f"target.kind={settings.target.kind}", "only classifiers of images are supported there"
        )
    assert settings.encoder is not None
    if settings.encoder.kind not in KINDS:
        raise unsupported(ENGINE, f"encoder.kind={settings.encoder.kind}", f"it is {' or '.join(KINDS)} there")


class ClassifierGraph(nn.Module):
    """pixels -> the logits of the labels."""

    def __init__(self, model: EncoderModel):
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """The logits of each image."""
        rows = torch.zeros_like(pixels[:, 0, 0, 0], dtype=torch.long)
        return self.model(Batch(Images(pixels), None, rows[:, None], rows))[:, 0]


@torch.no_grad()
def write_onnx_classifier(stored: ExportableModel, folder: Path) -> None:
    """Write `classifier.onnx` and `model.json`."""
    settings = stored.config.model
    check_classifier(settings)
    require_packages("onnx", "onnx", "onnxscript")
    image = image_settings_of(settings)
    module: Any = to_cpu_float32(stored.module)
    pixels = torch.zeros(3, image.channels, image.image_size, image.image_size, dtype=torch.uint8)
    with atomic_folder(folder) as temporary:
        write_json(temporary / "model.json", _description(stored))
        export_graph(ClassifierGraph(module), (pixels,), ({0: Dim.DYNAMIC},), NAMES, temporary / FILE)
        sync_folder(temporary)


def _description(stored: ExportableModel) -> dict[str, Any]:
    image = image_settings_of(stored.config.model)
    shape = f"(row, {image.channels}, {image.image_size}, {image.image_size})"
    return {
        "format": 1,
        "graphs": {FILE: NAMES},
        "shapes": {
            "pixels": f"{shape} uint8, channel by channel from the top left",
            "logits": "(row, label) float32; the softmax gives probabilities",
        },
        "labels": list(stored.tokenizers.labels),
    }
