"""The command line: one file per verb. Nothing heavy is imported until a verb runs."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

# Threads that spin while they wait for each other are quicker on an idle machine, but as soon as something else
# uses a core every step waits for the scheduler, several times over. Threads that sleep take the same time
# either way (benchmarks/threads.py), and a laptop is seldom idle. Whoever knows better sets the variable;
# it must be said before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """For imports that take long: what is imported stays, so nobody looks for garbage in it, now or later.

    Python would do that again and again while torch is imported, for a third of a second. Where torch is there already,
    this would only hide the garbage of others.
    """
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def main() -> None:
    """What the command `seq2see` runs. Whatever a user can cause is told in a line or two, with exit code 2."""
    from seq2see.cli.app import run

    sys.exit(run(sys.argv[1:]))
