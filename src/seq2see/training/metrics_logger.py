"""The metrics log of a run: the metrics of every step, and in a file of its own the training speed.

`metrics.jsonl` depends only on the recipe, the data and the seed, so a run that was killed and resumed writes the same
bytes as an uninterrupted one. Wall-clock times go to `timing.jsonl`.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from seq2see.core.files import write_bytes


class MetricsLogger:
    """Append-only metrics of one run. Opening it at a step deletes all entries of later steps."""

    def __init__(self, folder: Path, step: int):
        self.metrics_path, self.timing_path = folder / "metrics.jsonl", folder / "timing.jsonl"
        self._pending: list[str] = []
        self._clock, self._tokens = time.monotonic(), 0
        for path in (self.metrics_path, self.timing_path):
            _truncate_after(path, step)

    def log(self, step: int, **values: Any) -> None:
        """Log metrics of a step; they are written to the file at the next `flush`."""
        self._pending.append(json.dumps({"step": step, **values}, ensure_ascii=False) + "\n")
        self._tokens += int(values.get("tokens", 0))

    def flush(self, step: int) -> None:
        """Write the pending metrics, and the speed of the steps since the previous flush."""
        now = time.monotonic()
        seconds = now - self._clock
        _append(self.metrics_path, "".join(self._pending))
        if self._tokens and seconds > 0:
            speed = {
                "step": step,
                "seconds": round(seconds, 3),
                "tokens_per_second": round(self._tokens / seconds),
            }
            _append(self.timing_path, json.dumps(speed) + "\n")
        self.discard()
        self.restart_clock()

    def discard(self) -> None:
        """Discard the pending metrics."""
        self._pending, self._tokens = [], 0

    def restart_clock(self) -> None:
        """Measure the speed of the next steps from now."""
        self._clock = time.monotonic()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All entries of a metrics log; an incomplete last line (of a run that was killed) is skipped."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _truncate_after(path: Path, step: int) -> None:
    """Delete the entries after `step`: the resumed run will write them again."""
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")[:-1]
    kept = [line for line in lines if _step_of(line) <= step]
    write_bytes(path, b"".join(line + b"\n" for line in kept))


def _step_of(line: bytes) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return float("inf")
