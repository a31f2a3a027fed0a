"""Thread layouts for a training step, one sentence, and many lines, without and with background load.

    python benchmarks/threads.py          some minutes; the rows are stored in results/threads.json
    python benchmarks/threads.py quick    a part of it; nothing is stored

OpenMP's threads spin at every barrier, because the other threads may arrive soon. If every core has a thread, one
other busy process is enough to delay each barrier until the scheduler switches. Workers with one thread each have no
barriers. `core/worker_pool.py` and `cli/__init__.py` apply these results.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

STEPS, REPEATS, SENTENCES = 20, 2, 8
RESULTS = Path(__file__).parent / "results" / "threads.json"
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}
TRAINING = {"one thread": {"OMP_NUM_THREADS": "1"}, "default": {}, "spin 10,000": {"GOMP_SPINCOUNT": "10000"}}
TRAINING["never spin"] = PASSIVE
SHAPES = {"small": (128, 2, 4, 1000), "base": (512, 6, 8, 8000)}
"""Width, depth, heads and vocabulary of the Transformers that decode."""
LINES = {"small": 256, "base": 48}
"""The number of lines in a large input."""
Case = tuple[str, str, dict[str, str]]
"""Workload, configuration and environment variables."""


def time_training(configuration: str) -> float:
    """Seconds of one training step after a warm-up."""
    from seq2see.recipes.registry import recipe
    from seq2see.runs.prepare import prepare
    from seq2see.runs.train import batches, new_trainer

    chosen = recipe("pocket-transformer").with_(**{"corpus.size": 3000})
    prepared = prepare(chosen, lambda text: None)
    trainer, batch_at = new_trainer(chosen, prepared), batches(chosen, prepared)
    for step in range(1, 4):
        trainer.train_step(batch_at(step))
    began = time.monotonic()
    for step in range(4, 4 + STEPS):
        trainer.train_step(batch_at(step))
    return (time.monotonic() - began) / STEPS


def time_decoding(shape: str, count: int, configuration: str) -> float:
    """Seconds to decode sources of 15 tokens into 20 tokens each; `configuration` is "native 2 x 1" or similar."""
    import torch

    from seq2see.acceleration.swaps import Conditions, accelerate
    from seq2see.core.worker_pool import ThreadLayout, WorkerPool
    from seq2see.decoding.engine import Decoding
    from seq2see.runs.load import TorchEngine
    from seq2see.tasks.model import GenerationRequest

    kind, workers, _, threads = configuration.split()
    torch.set_num_threads(int(threads))
    engine = TorchEngine(accelerate(transformer(*SHAPES[shape]), Conditions("cpu")))  # type: ignore[arg-type]
    layout = ThreadLayout(int(workers), int(threads))
    WorkerPool.choose_layout = lambda pool, items, exact=False: layout  # type: ignore[method-assign,assignment]
    engine.use_optimized = lambda request: kind == "native"  # type: ignore[method-assign,assignment]
    sources = [[5 + (7 * row + place) % 900 for place in range(15)] + [2] for row in range(count)]
    request = GenerationRequest(sources, range(count), Decoding(max_new_tokens=20, min_new_tokens=19))
    engine.generate(request, lambda done: None)
    repeats = SENTENCES if count == 1 else 1
    began = time.monotonic()
    for _ in range(repeats):
        engine.generate(request, lambda done: None)
    return (time.monotonic() - began) / repeats


def transformer(width: int, depth: int, heads: int, vocabulary: int):
    """A model with random weights."""
    from seq2see.models.build import fresh_model
    from seq2see.models.settings import ModelSettings, Text, TextTarget
    from seq2see.models.transformer import TransformerSettings

    part = TransformerSettings(width=width, depth=depth, heads=heads)
    shape = ModelSettings(source=Text(), target=TextTarget(), encoder=part, decoder=part)
    return fresh_model(shape, (vocabulary, vocabulary), "xavier", 1).eval()


MEASURES: dict[str, Callable[[str], float]] = {
    "training step": time_training,
    **{f"one sentence, {shape}": partial(time_decoding, shape, 1) for shape in SHAPES},
    **{f"{count} lines, {shape}": partial(time_decoding, shape, count) for shape, count in LINES.items()},
}


def cases(quick: bool) -> list[Case]:
    """All cases; only the single sentences if `quick`."""
    cores = os.cpu_count() or 1
    measured: list[Case] = [] if quick else [("training step", name, variables) for name, variables in TRAINING.items()]
    for workload in list(MEASURES)[1:3] if quick else list(MEASURES)[1:]:
        for kind in ("torch", "native"):
            configurations = [f"{kind} 1 x 1", f"{kind} 1 x {cores}"]
            configurations += [f"{kind} {cores} x 1"] if "lines" in workload else []
            measured += [(workload, configuration, PASSIVE) for configuration in configurations]
        measured.append((workload, f"torch 1 x {cores}", {}))  # spinning
    return measured


def run(case: Case) -> float:
    """Seconds of one case, measured in a new process."""
    workload, configuration, environment = case
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    command = [sys.executable, __file__, "once", workload, configuration]
    return float(subprocess.run(command, env=clean | environment, capture_output=True, check=True).stdout)


def measure(quick: bool) -> list[dict[str, object]]:
    """Each case without and with background load; the cases alternate, so that drift affects all equally."""
    rows = []
    for loaded in (False,) if quick else (False, True):
        load = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if loaded else None
        measured = cases(quick)
        times = [[run(case) for case in measured] for _ in range(1 if quick else REPEATS)]
        if load:
            load.kill()
        for index, (workload, configuration, environment) in enumerate(measured):
            seconds = [repeat[index] for repeat in times]
            spin = "never spin" if environment == PASSIVE else "spin"
            name = configuration if workload == "training step" else f"{configuration}, {spin}"
            row = {"workload": workload, "configuration": name, "background load": loaded}
            rows.append(row | {"seconds": statistics.median(seconds), "all": seconds})
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["once"]:
        print(MEASURES[sys.argv[2]](sys.argv[3]))
    else:
        from seq2see.core.devices import describe_machine
        from seq2see.core.files import write_json

        rows = measure(quick=sys.argv[1:] == ["quick"])
        print("\n".join(json.dumps(row) for row in rows))
        if not sys.argv[1:]:
            about = {"environment": describe_machine(), "command": "python benchmarks/threads.py"}
            write_json(RESULTS, about | {"rows": rows})
