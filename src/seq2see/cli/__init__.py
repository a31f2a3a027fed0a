"""The command line: one file per verb. Nothing heavy is imported until a verb runs."""

from __future__ import annotations

import os
import sys

# On two cores that something else uses too, threads that spin while they wait for each other make a step up to
# forty times slower; threads that sleep cost almost nothing. It must be said before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main() -> None:
    """What the command `seq2see` runs. Whatever a user can cause is told in a line or two, with exit code 2."""
    from seq2see.cli.app import run

    sys.exit(run(sys.argv[1:]))
