"""How long waiting threads should spin: a training step of pocket-transformer, alone and beside a busy neighbour.

    python benchmarks/threads.py      about two minutes; the rows go to results/threads.json

OpenMP's threads spin at every barrier in case the others arrive soon. On a machine with as many threads as cores,
one busy neighbour is enough to make each barrier wait for the scheduler.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

STEPS, REPEATS = 30, 3
RESULTS = Path(__file__).parent / "results" / "threads.json"
CASES = {"one thread": {"OMP_NUM_THREADS": "1"}, "default": {}, "spin 10,000": {"GOMP_SPINCOUNT": "10000"}}
CASES["never spin"] = {"OMP_WAIT_POLICY": "PASSIVE"}


def time_steps() -> float:
    """Seconds of one training step, the first few not counted."""
    from seq2see.recipes.table import recipe
    from seq2see.workbench.prepare import prepare
    from seq2see.workbench.train import batches, new_trainer

    chosen = recipe("pocket-transformer").with_(**{"corpus.size": 3000})
    prepared = prepare(chosen, lambda text: None)
    trainer, batch_at = new_trainer(chosen, prepared), batches(chosen, prepared)
    for step in range(1, 4):
        trainer.advance(batch_at(step))
    began = time.monotonic()
    for step in range(4, 4 + STEPS):
        trainer.advance(batch_at(step))
    return (time.monotonic() - began) / STEPS


def run(environment: dict[str, str]) -> float:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "once"]
    return float(subprocess.run(command, env=os.environ | environment, capture_output=True, check=True).stdout)


def measure() -> list[dict[str, object]]:
    """Each case alone and beside a neighbour, taking turns so that drift hits all alike."""
    times: dict[tuple[str, bool], list[float]] = {}
    for busy in (False, True):
        neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
        for _ in range(REPEATS):
            for name, environment in CASES.items():
                times.setdefault((name, busy), []).append(run(environment))
        if neighbour:
            neighbour.kill()
    return [
        {"case": name, "busy neighbour": busy, "seconds": statistics.median(each), "all": each}
        for (name, busy), each in times.items()
    ]


if __name__ == "__main__":
    if sys.argv[1:] == ["once"]:
        print(time_steps())
    else:
        from seq2see.core.devices import describe_machine
        from seq2see.core.files import write_json

        rows = measure()
        print("\n".join(json.dumps(row) for row in rows))
        write_json(
            RESULTS, {"environment": describe_machine(), "command": "python benchmarks/threads.py", "rows": rows}
        )
