"""Linear layers by size: the time of one vector with the weights of torch and with packed weights, on one core.

python benchmarks/packed_layers.py        writes results/packed_layers.json; takes about a minute

As in decoding, each layer is read once per token after many others, so there are as many copies of a layer as do not
fit into the cache of the processor. The kinds take turns; the time is that of the processor, of the fastest round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.acceleration.four_bit_weights import find_four_bit_weight
from seq2see.acceleration.packed_weights import (
    MIN_PACKED_SIZE,
    PackedLinearBfloat16,
    PackedLinearFloat32,
    PackedLinearFourBit,
    PackedLinearInt8,
)
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json

RESULTS = Path(__file__).parent / "results" / "packed_layers.json"
WIDTHS = (128, 256, 384, 512, 640, 768, 1024)
"""Layers have equal numbers of inputs and outputs."""
BYTES = 1 << 26
"""The size of all copies of a layer in float32: 64 MiB."""
ROUNDS = 6
COLUMNS = [
    {"key": "width", "title": "inputs and outputs", "digits": 0},
    {"key": "weights", "title": "weights / 2^18", "digits": 2},
    *(
        {"key": name, "title": f"{name}, µs", "digits": 1}
        for name in ("torch", "packed float32", "packed bf16", "packed int8", "packed 4 bits")
    ),
]


def four_bit_layer(weight: Tensor, bias: Tensor | None) -> PackedLinearFourBit:
    """A layer with random weights of four bits, of the size of this weight."""
    integers = (weight.abs() * 1e3).int() % 16
    values = integers.float() / 64
    values[:, ::32], values[:, 1::32] = 0, 15 / 64
    parts = find_four_bit_weight(values)
    assert parts is not None
    return PackedLinearFourBit(values, bias, parts)


def torch_layer(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """The layer of torch."""
    layer = nn.Linear(weight.size(1), weight.size(0), bias=False)
    layer.weight.data = weight.clone()
    return layer


KINDS: dict[str, Callable[[Tensor, Tensor | None], nn.Module]] = {
    "torch": torch_layer,
    "packed float32": PackedLinearFloat32,
    "packed bf16": PackedLinearBfloat16,
    "packed int8": PackedLinearInt8,
    "packed 4 bits": four_bit_layer,
}


@torch.inference_mode()
def row_of(width: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """Microseconds of one layer of each kind."""
    count = max(1, BYTES // (4 * width * width))
    weights = [torch.randn(width, width) for _ in range(count)]
    vector = torch.randn(1, width)
    layers = {name: [make(each, None) for each in weights] for name, make in KINDS.items()}
    best = dict.fromkeys(KINDS, float("inf"))
    for _ in range(rounds):
        for name, copies in layers.items():
            began = time.process_time()
            for layer in copies:
                layer(vector)
            best[name] = min(best[name], 1e6 * (time.process_time() - began) / count)
    return {"width": width, "weights": width * width / MIN_PACKED_SIZE, **best}


def main() -> None:
    """Measure all widths, and store the table."""
    torch.set_num_threads(1)
    rows = []
    for width in WIDTHS:
        rows.append(row_of(width))
        print(rows[-1], flush=True)
    environment = {**describe_machine(), "note": "the machine did other work too"}
    results = {"environment": environment, "command": "python benchmarks/packed_layers.py", "rows": rows}
    write_json(RESULTS, {**results, "columns": COLUMNS})


if __name__ == "__main__":
    main()
