"""Ablation of acceleration: how much slower a training step is with one fast form switched off.

python benchmarks/ablation.py cpu     writes the table of a CPU in results/ablation.json
python benchmarks/ablation.py gpu     that of a GPU

A cell is a model with a batch: the cells of `train_cpu.py`, `vit_cpu.py`, `train_gpu.py`, `gpt2_gpu.py` and
`vit_gpu.py`, and a language model with rotary positions and gates. The entries are those of the table in
`seq2see/acceleration/swaps.py`. For each cell there is a trainer with everything, one without each entry, and the
definition alone. Each of the others takes turns with the first in short rounds, so that background load affects both;
the number is the median over rounds of time without the entry divided by time with everything, minus 1, in percent.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.append(str(Path(__file__).parent))

import train_cpu
import vit_cpu

from seq2see.acceleration.swaps import PARTS, SWAPS, Conditions, accelerate, parts_for, restore
from seq2see.acceleration.trainer import AcceleratedTrainer, training_conditions
from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import describe_machine, plain_class
from seq2see.core.files import write_json
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.training.loop import Trainer
from seq2see.training.objectives import Classification, NextToken, Objective
from seq2see.training.settings import Training

RESULTS = Path(__file__).parent / "results" / "ablation.json"
ROUNDS = {"cpu": 11, "cuda": 7}
STEPS = {"cpu": 1, "cuda": 10}
EVERYTHING, DEFINITION = "", "all of them (the definition)"
"""The trainer with every fast form, and the name of the row without any."""
LLAMA = TransformerSettings(
    width=192, depth=3, heads=6, dropout=0.1, norm="rms", activation="swiglu", bias=False, kv_heads=2
)

Cell = tuple[Callable[[], nn.Module], Objective, Batch]
"""A function that creates the model, the objective, and the batch."""


def translator(size: train_cpu.Size) -> nn.Module:
    """The translator of train_cpu.py."""
    stack = TransformerSettings(width=size.width, depth=size.depth, heads=size.heads, dropout=0.1, norm_order="post")
    shape = ModelSettings(source=Text(), encoder=stack, decoder=stack, target=TextTarget(vocabulary="shared"))
    return fresh_model(shape, (size.vocabulary, size.vocabulary), "xavier", seed=1)


def language_model() -> nn.Module:
    """A small language model in the form of Llama."""
    target = TextTarget(embedding=TokenEmbeddingSettings(positions="rotary"))
    return fresh_model(ModelSettings(target=target, decoder=LLAMA), (2000, 2000), "xavier", seed=1)


def text() -> Batch:
    """Rows of running text without padding, of random tokens."""
    tokens = torch.randint(3, 2000, (8, 129), generator=torch.Generator().manual_seed(1))
    lengths = torch.full((len(tokens),), tokens.size(1) - 1)
    return Batch(None, Sequences(tokens[:, :-1], lengths), tokens[:, 1:], torch.arange(len(tokens)))


def cpu_cells() -> dict[str, Cell]:
    """The cells of a CPU."""
    size = train_cpu.SIZES["small"]
    pairs = {f"translator, {name}": batch for name, batch in train_cpu.batches().items()}
    cells: dict[str, Cell] = {name: (lambda: translator(size), NextToken(), batch) for name, batch in pairs.items()}
    cells["ViT"] = (vit_cpu.seq2see_model, Classification(), vit_cpu.images())
    cells["Llama"] = (language_model, NextToken(), text())
    return cells


def gpu_cells() -> dict[str, Cell]:
    """The cells of a GPU."""
    import gpt2_gpu
    import train_gpu
    import vit_gpu

    stack = TransformerSettings(
        width=train_gpu.WIDTH, depth=train_gpu.DEPTH, heads=train_gpu.HEADS, dropout=0.1, norm_order="post"
    )
    shape = ModelSettings(source=Text(), encoder=stack, decoder=stack, target=TextTarget(vocabulary="shared"))
    sizes = (train_gpu.VOCABULARY, train_gpu.VOCABULARY)
    batch, _ = train_gpu.full_sequences()
    return {
        "translator, full rows": (lambda: fresh_model(shape, sizes, "xavier", seed=1), NextToken(), batch),
        "GPT-2": (gpt2_gpu.fresh, NextToken(), gpt2_gpu.texts()),
        "ViT-B/16": (vit_gpu.seq2see_model, Classification(), vit_gpu.images()),
        "Llama": (language_model, NextToken(), text()),
    }


def entries_of(model: nn.Module, conditions: Conditions) -> list[str]:
    """The names of all entries that change something for this model under these conditions."""
    fast = {type(each) for each in accelerate(model, conditions).modules() if plain_class(each) is not type(each)}
    restore(model)
    layers = [swap.name for swap in SWAPS if fast & set(swap.fast)]
    return [*layers, *(part.name for part in PARTS if part.name in parts_for(conditions))]


def measure(cell: Cell, precision: Any, device: torch.device) -> dict[str, float]:
    """For each entry, the percentage by which a step is slower without it."""
    create, objective, batch = cell
    settings = Training(precision=precision, max_grad_norm=1.0, steps=100_000, learning_rate=1e-4)
    batch, steps = batch.to(device), STEPS[device.type]

    def trainer_without(name: str) -> Trainer:
        if name == DEFINITION:
            trainer = Trainer(create(), objective, settings, device)
        else:
            trainer = AcceleratedTrainer(create(), objective, settings, device, without=[name] if name else [])
        seconds_of(trainer, batch, steps)  # warm-up
        return trainer

    everything, cells = trainer_without(EVERYTHING), {}
    for name in [*entries_of(create(), training_conditions(settings, device)), DEFINITION]:
        trainer = trainer_without(name)
        rounds = [
            (seconds_of(everything, batch, steps), seconds_of(trainer, batch, steps))
            for _ in range(ROUNDS[device.type])
        ]
        cells[name] = round(100 * statistics.median(ratio(without, all_parts) for all_parts, without in rounds), 1)
        del trainer
        free_memory(device)
    return cells


def free_memory(device: torch.device) -> None:
    """Free what trainers with CUDA graphs hold: they refer to themselves."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def ratio(without: float, everything: float) -> float:
    """The additional time without an entry, as a fraction of the time with everything, in one round."""
    return without / everything - 1


def seconds_of(trainer: Trainer, batch: Batch, steps: int) -> float:
    """The seconds of a few steps."""
    if trainer.device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        trainer.enqueue(batch)
    trainer.fetch_metrics()  # waits for all of them
    return time.perf_counter() - began


def table(columns: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """Rows of entries: the percentage in each cell, and the largest of them."""
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = []
    for name in sorted(names, key=lambda each: each == DEFINITION):
        cells = {title: column[name] for title, column in columns.items() if name in column}
        rows.append({"name": name, **cells, "best": max(cells.values())})
    return rows


def main(arguments: Sequence[str]) -> None:
    """Measure the cells of one device, and store their table beside that of the other device."""
    device = torch.device({"cpu": "cpu", "gpu": "cuda"}[arguments[0]])
    cells = gpu_cells() if device.type == "cuda" else cpu_cells()
    columns = {}
    for name, cell in cells.items():
        for precision in ("bf16",) if device.type == "cuda" else ("float32", "bf16"):
            title = f"{name}, {precision}"
            columns[title] = measure(cell, precision, device)
            print(title, columns[title], flush=True)
            free_memory(device)
    keys = [{"key": title, "digits": 1, "sign": True} for title in (*columns, "best")]
    part = {"rows": table(columns), "columns": [{"key": "name", "title": "without"}, *keys]}
    about = {"command": f"python benchmarks/ablation.py {arguments[0]}", "environment": describe_machine()}
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"tables": {}}
    write_json(RESULTS, {"tables": stored["tables"] | {arguments[0]: part | about}})


if __name__ == "__main__":
    main(sys.argv[1:])
