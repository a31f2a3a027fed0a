"""How long a user waits for `seq2see --help`: the rows go to results/startup.json.

python benchmarks/startup.py      a few seconds
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json

REPEATS = 15
RESULTS = Path(__file__).parent / "results" / "startup.json"
PROGRAM = Path(sys.executable).with_name("seq2see")


def wait(arguments: list[str]) -> float:
    """Seconds of one call."""
    began = time.monotonic()
    subprocess.run([PROGRAM, *arguments], capture_output=True, check=True)
    return time.monotonic() - began


if __name__ == "__main__":
    rows = []
    for arguments in (["--help"], ["train", "--help"]):
        wait(arguments)  # the first call reads the files from the disk
        times = [wait(arguments) for _ in range(REPEATS)]
        rows.append({"command": " ".join(["seq2see", *arguments]), "seconds": statistics.median(times), "all": times})
        print(json.dumps(rows[-1] | {"all": None}))
    write_json(RESULTS, {"environment": describe_machine(), "command": "python benchmarks/startup.py", "rows": rows})
