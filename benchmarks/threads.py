"""How the cores are best used: a training step, a sentence, and many lines, alone and beside a busy neighbor.

    python benchmarks/threads.py          some minutes; the rows go to results/threads.json
    python benchmarks/threads.py quick    a smaller look, and nothing is stored

OpenMP's threads spin at every barrier in case the others arrive soon. On a machine with as many threads as cores,
one busy neighbor is enough to make each barrier wait for the scheduler. Workers with a thread each have no
barriers. `core/worker_pool.py` and `cli/__init__.py` draw the conclusions.
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
"""How many lines are many."""
Case = tuple[str, str, dict[str, str]]
"""What is measured, in which way, and in which environment."""


def time_training(way: str) -> float:
    """Seconds of one training step, the first few not counted."""
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


def time_decoding(shape: str, count: int, way: str) -> float:
    """Seconds to decode some sources of 15 tokens into 20 tokens each; the way is "native 2 x 1" or "torch 1 x 2"."""
    import torch

    from seq2see.core.worker_pool import ThreadLayout, WorkerPool
    from seq2see.decoding.settings import Decoding
    from seq2see.runs.engines import GenerationRequest, TorchEngine

    kind, workers, _, threads = way.split()
    torch.set_num_threads(int(threads))
    engine = TorchEngine(transformer(*SHAPES[shape]))
    arrangement = ThreadLayout(int(workers), int(threads))
    WorkerPool.choose_layout = lambda pool, items, exact=False: arrangement  # type: ignore[method-assign,assignment]
    engine.use_optimized = lambda asked: kind == "native"  # type: ignore[method-assign,assignment]
    sources = [[5 + (7 * row + place) % 900 for place in range(15)] + [2] for row in range(count)]
    asked = GenerationRequest(sources, range(count), Decoding(max_new_tokens=20, min_new_tokens=19))
    engine.generate(asked, lambda done: None)
    repeats = SENTENCES if count == 1 else 1
    began = time.monotonic()
    for _ in range(repeats):
        engine.generate(asked, lambda done: None)
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


def cases(optimized: bool) -> list[Case]:
    """Everything that is measured."""
    cores = os.cpu_count() or 1
    found: list[Case] = [] if optimized else [("training step", name, location) for name, location in TRAINING.items()]
    for what in list(MEASURES)[1:3] if optimized else list(MEASURES)[1:]:
        for kind in ("torch", "native"):
            ways = [f"{kind} 1 x 1", f"{kind} 1 x {cores}"]
            ways += [f"{kind} {cores} x 1"] if "lines" in what else []
            found += [(what, way, PASSIVE) for way in ways]
        found.append((what, f"torch 1 x {cores}", {}))  # spinning
    return found


def run(case: Case) -> float:
    """One case in a process of its own."""
    what, way, environment = case
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    command = [sys.executable, __file__, "once", what, way]
    return float(subprocess.run(command, env=clean | environment, capture_output=True, check=True).stdout)


def measure(optimized: bool) -> list[dict[str, object]]:
    """Each case alone and beside a neighbor, taking turns so that drift hits all alike."""
    rows = []
    for busy in (False,) if optimized else (False, True):
        neighbor = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
        chosen = cases(optimized)
        times = [[run(case) for case in chosen] for _ in range(1 if optimized else REPEATS)]
        if neighbor:
            neighbor.kill()
        for place, (what, way, environment) in enumerate(chosen):
            each = [turn[place] for turn in times]
            case = f"{way}, {'never spin' if environment == PASSIVE else 'spin'}" if what != "training step" else way
            row = {"message": what, "case": case, "busy neighbor": busy}
            rows.append(row | {"seconds": statistics.median(each), "all": each})
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["once"]:
        print(MEASURES[sys.argv[2]](sys.argv[3]))
    else:
        from seq2see.core.devices import describe_machine
        from seq2see.core.files import write_json

        rows = measure(optimized=sys.argv[1:] == ["quick"])
        print("\n".join(json.dumps(row) for row in rows))
        if not sys.argv[1:]:
            about = {"environment": describe_machine(), "command": "python benchmarks/threads.py"}
            write_json(RESULTS, about | {"rows": rows})
