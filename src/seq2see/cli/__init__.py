"""The command line: one file per verb. Nothing heavy is imported until a verb runs."""

from __future__ import annotations

import os
import sys

# Threads that spin long while they wait for each other make a training step twenty times slower as soon as
# something else uses a core; threads that spin for a moment and then sleep lose little either way
# (benchmarks/threads.py). It must be said before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def main() -> None:
    """What the command `seq2see` runs. Whatever a user can cause is told in a line or two, with exit code 2."""
    from seq2see.cli.app import run

    sys.exit(run(sys.argv[1:]))
