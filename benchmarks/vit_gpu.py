"""ViT-B/16 on one GPU, compared with timm and Hugging Face: training steps, the forward pass, and memory.

python benchmarks/vit_gpu.py        writes results/vit_gpu.json; needs a GPU, `timm` and `transformers`

128 images of 224 x 224 pixels, 1,000 classes, bf16, fused AdamW, clipping. Peers are compiled, without and with a CUDA
graph; seq2see trains uncompiled, and its forward pass is compiled. The inputs are pixels as bytes, which each model
normalizes. Memory is the peak of a training step without a CUDA graph, in MiB.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from train_gpu import Step, add_ratios, modes_of, peer, run_in_turns, seq2see_steps, tokens_per_second

from seq2see.acceleration.support import side_stream
from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.core.batch import Batch, Images
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.training.objectives import Classification

RESULTS = Path(__file__).parent / "results" / "vit_gpu.json"
ROWS, SIDE, PATCH, WIDTH, DEPTH, HEADS, CLASSES = 128, 224, 16, 768, 12, 12, 1000


def images() -> Batch:
    """Random pixels and labels."""
    rng = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (ROWS, 3, SIDE, SIDE), generator=rng, dtype=torch.uint8)
    labels = torch.randint(0, CLASSES, (ROWS, 1), generator=rng)
    return Batch(Images(pixels), None, labels, torch.arange(ROWS)).to("cuda")


class Peer(nn.Module):
    """A peer with the normalization of pixels and the loss."""

    def logits(self, batch: Batch) -> Tensor:
        """The logits of the classes."""
        return self.forward_pixels((batch.source.values / 255 - 0.5) / 0.5)

    def forward_pixels(self, pixels: Tensor) -> Tensor:
        """The logits of the classes from normalized pixels."""
        raise NotImplementedError

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the labels."""
        return functional.cross_entropy(self.logits(batch), batch.labels.flatten())


class Timm(Peer):
    """timm's ViT."""

    def __init__(self) -> None:
        super().__init__()
        from timm.models.vision_transformer import VisionTransformer

        shape = {"patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS, "num_classes": CLASSES}
        self.model = VisionTransformer(img_size=SIDE, **shape)

    def forward_pixels(self, pixels: Tensor) -> Tensor:
        """The logits of the classes."""
        return self.model(pixels)


class HuggingFace(Peer):
    """Hugging Face's ViT."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import ViTConfig, ViTForImageClassification

        shape = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS}
        size = {"image_size": SIDE, "patch_size": PATCH, "num_labels": CLASSES, "intermediate_size": 4 * WIDTH}
        dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        self.model = ViTForImageClassification(ViTConfig(**shape, **size, **dropout, attn_implementation="sdpa"))

    def forward_pixels(self, pixels: Tensor) -> Tensor:
        """The logits of the classes."""
        return self.model(pixels).logits


PEERS = {"timm": Timm, "Hugging Face ViT": HuggingFace}


def seq2see_model() -> nn.Module:
    """seq2see's ViT of the same size."""
    stack = TransformerSettings(width=WIDTH, depth=DEPTH, heads=HEADS, dropout=0.0, activation="gelu")
    source = ImageSource(image_size=SIDE, embedding=PatchEmbeddingSettings(size=PATCH))
    settings = ModelSettings(source=source, encoder=stack, target=ImageLabel())
    return fresh_model(settings, (0, CLASSES), "xavier", seed=1)


def forward(model: Any) -> tuple[Step, Step]:
    """The compiled forward pass, without and with a CUDA graph."""
    model = model.cuda().eval()
    compiled = torch.compile(model.logits if isinstance(model, Peer) else accelerate(model, Conditions("cuda")))

    @torch.no_grad()
    def logits(batch: Batch) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return compiled(batch)

    graph = torch.cuda.CUDAGraph()

    def graphed(batch: Batch) -> Tensor:
        if not graphed.ready:
            with side_stream():
                for _ in range(3):
                    logits(batch)
            with torch.cuda.graph(graph):
                logits(batch)
            graphed.ready = True
        graph.replay()

    graphed.ready = False
    return logits, graphed


def measure(name: str, benchmark: str) -> None:
    """The process of one model: compile, print "ready", read a line, and print the speed of all modes."""
    model, data = PEERS[name]() if name in PEERS else seq2see_model(), images()
    if benchmark == "training":
        plain, graphed = peer(model) if name in PEERS else seq2see_steps(model, Classification())
    else:
        plain, graphed = forward(model)
    torch.cuda.reset_peak_memory_stats()
    # The graph first: torch accumulates a gradient on the stream of its first use, and captures on another stream.
    steps_by_mode = dict(zip(modes_of(name if benchmark == "training" else "compiled"), (graphed, plain), strict=False))
    for step in steps_by_mode.values():
        step(data)
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        plain(data)
    memory = torch.cuda.max_memory_allocated() / 2**20
    print("ready", flush=True)
    input()
    rows = []
    for mode, step in steps_by_mode.items():
        rate, relative_range = tokens_per_second(step, data)
        row = {"benchmark": benchmark, "name": name, "mode": mode, "value": round(rate)}
        rows.append(row | {"relative_range": round(relative_range, 3)})
    if benchmark == "training":
        rows[-1]["memory"] = round(memory)
    print(json.dumps(rows), flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(*sys.argv[1:])
    else:
        rows = run_in_turns(
            [(__file__, name, benchmark) for benchmark in ("training", "forward") for name in (*PEERS, "seq2see")]
        )
        add_ratios(rows)
        about = {"environment": describe_machine(), "command": "python benchmarks/vit_gpu.py"}
        write_json(RESULTS, about | {"rows": rows})
