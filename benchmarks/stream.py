"""`seq2see predict` on 100,000 lines: speed, and memory at 10,000 and at 100,000 lines; rows in results/stream.json.

    python benchmarks/stream.py            some minutes
    python benchmarks/stream.py 5000       fewer lines, and nothing is stored

The model is pocket-transformer after 300 steps: its translations have the usual length, but need not be correct.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2see.api import train
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus

LINES = 100_000
RESULTS = Path(__file__).parent / "results" / "stream.json"
PROGRAM = str(Path(sys.executable).with_name("seq2see"))
CASES: dict[str, list[str]] = {
    "float32": [],
    "int8": ["--set", "decoding.precision=int8"],
    "float32, 4 beams": ["--set", "decoding.num_beams=4"],
}


def resident(process: int) -> float:
    """The resident memory of a process in megabytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(folder: Path, case: str, lines: int) -> dict[str, object]:
    """One call of the command, with its speed and its memory."""
    out = folder / f"{case}.txt"
    command = [PROGRAM, "predict", str(folder / "run"), "-f", str(folder / "lines.txt"), "--out", str(out)]
    began, first = time.monotonic(), None
    tenth = end = 0.0
    with subprocess.Popen([*command, *CASES[case]], stderr=subprocess.PIPE, text=True) as child:
        answered = size = 0
        while child.poll() is None:
            time.sleep(0.05)
            if out.exists() and out.stat().st_size > size:
                with out.open("rb") as file:
                    file.seek(size)
                    new = file.read()
                answered, size = answered + new.count(b"\n"), size + len(new)
                first = first or time.monotonic() - began
                end = resident(child.pid) or end  # a finished process has no memory
                tenth = tenth or end * (answered >= lines // 10)
        assert child.returncode == 0, child.stderr and child.stderr.read()
    seconds = time.monotonic() - began
    row = {"case": case, "lines": lines, "seconds": seconds, "lines per second": lines / seconds}
    return row | {"seconds to first output": first, "MB at a tenth": tenth, "MB at the end": end}


if __name__ == "__main__":
    lines = int(sys.argv[1]) if sys.argv[1:] else LINES
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        train("pocket-transformer", out=folder / "run", set={"training.steps": 300, "training.evaluate_every": 300})
        sources = [example.source for example in PocketCorpus().splits()["train"]]
        (folder / "lines.txt").write_text("".join(f"{text}\n" for text in islice(cycle(sources), lines)))
        rows = [measure(folder, case, lines) for case in CASES]
    print("\n".join(json.dumps(row) for row in rows))
    if lines == LINES:
        about = {"environment": describe_machine(), "command": "python benchmarks/stream.py"}
        write_json(RESULTS, about | {"rows": rows})
