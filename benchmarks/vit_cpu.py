"""A ViT of CIFAR's size on two CPU cores, compared with timm, vit-pytorch and Hugging Face: training, and forward.

python benchmarks/vit_cpu.py        writes results/vit_cpu.json; takes about six minutes

needs `transformers`, and in PYTHONPATH the wheels of the other peers, which are not installed:

pip download --no-deps --dest wheels timm vit-pytorch einops
PYTHONPATH=$(echo wheels/*.whl | tr ' ' ':') python benchmarks/vit_cpu.py

32 images of 32 x 32 pixels in patches of 4 x 4, 256 wide, 8 layers, 8 heads, 10 classes, fused AdamW, clipping, no
dropout. The inputs are pixels as bytes. Each implementation has its own process with two threads, which waits while
another is measured; the measurements alternate in short rounds, so that background load affects all equally.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch
from processors import COLUMN, replace_rows
from torch import Tensor, nn
from torch.nn import functional
from train_cpu import CPU, peer

from seq2see.acceleration.inference import optimize_for_inference
from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.core.batch import Batch, Images
from seq2see.core.devices import autocast, describe_machine
from seq2see.core.files import write_json
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.training.objectives import Classification
from seq2see.training.settings import Training

RESULTS = Path(__file__).parent / "results" / "vit_cpu.json"
ROWS, SIDE, PATCH, WIDTH, DEPTH, HEADS, CLASSES = 32, 32, 4, 256, 8, 8, 10
THREADS, ROUNDS = 2, 15
BENCHMARKS = {"training": 3, "forward": 6}
"""The benchmarks, and the number of steps per round: the first step refills the caches."""
PRECISIONS = ("float32", "bf16")
COLUMNS = [
    {"key": "benchmark", "title": "benchmark"},
    {"key": "precision", "title": "precision"},
    {"key": "name", "title": "implementation"},
    {"key": "value", "title": "images/s", "digits": 0},
    {"key": "min", "digits": 0},
    {"key": "max", "digits": 0},
    {"key": "ratio", "title": "relative to the fastest peer", "digits": 2},
]


class StubImporter(MetaPathFinder, Loader):
    """Replaces torchvision, which both packages import for functions that are not measured here."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "torchvision" else None

    def create_module(self, spec: ModuleSpec) -> Any:
        return MagicMock(name=spec.name, __path__=[], __spec__=spec)

    def exec_module(self, module: Any) -> None:
        """Do nothing: the module is a mock."""


def images() -> Batch:
    """Random pixels and labels."""
    rng = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (ROWS, 3, SIDE, SIDE), generator=rng, dtype=torch.uint8)
    labels = torch.randint(0, CLASSES, (ROWS, 1), generator=rng)
    return Batch(Images(pixels), None, labels, torch.arange(ROWS))


def timm() -> nn.Module:
    sys.meta_path.append(StubImporter())
    from timm.models.vision_transformer import VisionTransformer

    shape = {"patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS, "num_classes": CLASSES}
    return VisionTransformer(img_size=SIDE, **shape)


def vit_pytorch() -> nn.Module:
    sys.meta_path.append(StubImporter())
    from vit_pytorch import ViT

    shape = {"patch_size": PATCH, "dim": WIDTH, "depth": DEPTH, "heads": HEADS, "dim_head": WIDTH // HEADS}
    return ViT(image_size=SIDE, num_classes=CLASSES, mlp_dim=4 * WIDTH, **shape)


def hugging_face() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    shape = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS}
    size = {"image_size": SIDE, "patch_size": PATCH, "num_labels": CLASSES, "intermediate_size": 4 * WIDTH}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return ViTForImageClassification(ViTConfig(**shape, **size, **dropout, attn_implementation="sdpa"))


PEERS: dict[str, Callable[[], nn.Module]] = {
    "timm": timm,
    "vit-pytorch": vit_pytorch,
    "Hugging Face ViT": hugging_face,
}


TORCH_MATMUL = "seq2see, torch matmul"
"""seq2see with `training.custom_kernels=false`: by default, oneDNN computes the matmuls of training in float32."""
CONFIGURATIONS = [(name, precision) for precision in PRECISIONS for name in (*PEERS, "seq2see")] + [
    (TORCH_MATMUL, "float32")
]


class Peer(nn.Module):
    """A peer with the normalization of pixels and the loss."""

    def __init__(self, name: str):
        super().__init__()
        self.model = PEERS[name]()

    def forward(self, batch: Batch) -> Tensor:
        """The logits of the classes."""
        output = self.model((batch.source.values / 255 - 0.5) / 0.5)
        return getattr(output, "logits", output)

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the labels."""
        return functional.cross_entropy(self(batch).float(), batch.labels.flatten())


def seq2see_model() -> nn.Module:
    """seq2see's ViT of the same size."""
    stack = TransformerSettings(width=WIDTH, depth=DEPTH, heads=HEADS, dropout=0.0, activation="gelu")
    source = ImageSource(image_size=SIDE, embedding=PatchEmbeddingSettings(size=PATCH))
    return fresh_model(ModelSettings(source=source, encoder=stack, target=ImageLabel()), (0, CLASSES), "xavier", seed=1)


def steps_of(name: str, precision: Any) -> tuple[dict[str, Callable[[Batch], Any]], nn.Module]:
    """The training step and the forward pass of an implementation."""
    if name in PEERS:
        training, model = peer(Peer(name), precision)
    else:
        model = seq2see_model()
        training_settings = Training(
            precision=precision,
            max_grad_norm=1.0,
            steps=10_000,
            learning_rate=1e-4,
            custom_kernels=name != TORCH_MATMUL,
        )
        training = AcceleratedTrainer(model, Classification(), training_settings, CPU).train_step

    # seq2see runs the forward pass as `predict` does with many images.
    inference_model = model if name in PEERS else optimize_for_inference(model, precision).eval()

    def forward(batch: Batch) -> Tensor:
        model.eval()
        with torch.inference_mode(), autocast(CPU, precision):
            logits = inference_model(batch)
        model.train()
        return logits

    return {"training": training, "forward": forward}, model


def serve_measurements(name: str, precision: str) -> None:
    """The process of one implementation: for each line on stdin with a benchmark, it prints the images per second."""
    torch.set_num_threads(THREADS)
    steps, model = steps_of(name, precision)
    data = images()
    for step in steps.values():
        step(data)
    print(sum(weight.numel() for weight in model.parameters()), flush=True)
    for line in sys.stdin:
        benchmark = line.strip()
        began = time.perf_counter()
        for _ in range(BENCHMARKS[benchmark]):
            steps[benchmark](data)
        print(BENCHMARKS[benchmark] * ROWS / (time.perf_counter() - began), flush=True)


def measure() -> list[dict[str, Any]]:
    """Rows of all implementations: the median, the minimum and the maximum over all rounds."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = {each: subprocess.Popen([sys.executable, __file__, *each], **pipes) for each in CONFIGURATIONS}
    weights = {each: int(process.stdout.readline()) for each, process in running.items()}
    rates: dict[tuple[str, str, str], list[float]] = {}
    for _ in range(ROUNDS):
        for benchmark in BENCHMARKS:
            for each, process in running.items():
                process.stdin.write(f"{benchmark}\n")
                process.stdin.flush()
                rates.setdefault((benchmark, *each), []).append(float(process.stdout.readline()))
    for process in running.values():
        process.communicate()
    rows = []
    for benchmark in BENCHMARKS:
        for name, precision in sorted(CONFIGURATIONS, key=lambda each: PRECISIONS.index(each[1])):
            if (benchmark, name) == ("forward", TORCH_MATMUL):
                continue
            each = rates[benchmark, name, precision]
            best = max(statistics.median(rates[benchmark, peer_name, precision]) for peer_name in PEERS)
            rows.append(
                {"benchmark": benchmark, "precision": precision, "name": name}
                | {"value": round(statistics.median(each), 1)}
                | {"min": round(min(each), 1), "max": round(max(each), 1)}
                | {"ratio": round(statistics.median(each) / best, 3), "weights": weights[name, precision]}
                | {"all": [round(rate, 1) for rate in each]}
            )
    return rows


if __name__ == "__main__":
    if sys.argv[1:]:
        serve_measurements(*sys.argv[1:])
    else:
        rows = measure()
        for row in rows:
            print(json.dumps(row))
        about = {"environment": describe_machine(), "command": "python benchmarks/vit_cpu.py"}
        stored = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []
        write_json(RESULTS, about | {"columns": [COLUMN, *COLUMNS], "rows": replace_rows(stored, rows)})
