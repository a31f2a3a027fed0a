"""The time of `seq2see --help`, and of translating one sentence with a small model: rows in results/startup.json.

    python benchmarks/startup.py      about two minutes

The import of torch is a lower bound for a translation, so it is measured too; the commands alternate.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2see.api import train
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json

REPEATS = 15
RESULTS = Path(__file__).parent / "results" / "startup.json"
PROGRAM = str(Path(sys.executable).with_name("seq2see"))
SMALL = {"training.steps": 2, "corpus.size": 200}
"""Two steps of pocket-transformer: an untrained model of the usual size."""


def wait(command: list[str]) -> float:
    """Seconds of one call."""
    began = time.monotonic()
    subprocess.run(command, capture_output=True, check=True)
    return time.monotonic() - began


def measure(run: str) -> list[dict[str, object]]:
    """The median of each command; the commands alternate, so that drift affects all equally."""
    commands = {
        "seq2see --help": [PROGRAM, "--help"],
        "seq2see train --help": [PROGRAM, "train", "--help"],
        "python -c 'import torch'": [sys.executable, "-c", "import torch"],
        "seq2see predict RUN 我有一支笔": [PROGRAM, "predict", run, "我有一支笔"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for repeat in range(REPEATS + 1):
        for name, command in commands.items():
            seconds = wait(command)
            if repeat:  # the first call reads the files from the disk
                times[name].append(seconds)
    return [{"command": name, "seconds": statistics.median(each), "all": each} for name, each in times.items()]


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        train("pocket-transformer", out=f"{folder}/run", set=SMALL)
        rows = measure(f"{folder}/run")
    print("\n".join(json.dumps(row | {"all": None}, ensure_ascii=False) for row in rows))
    write_json(RESULTS, {"environment": describe_machine(), "command": "python benchmarks/startup.py", "rows": rows})
