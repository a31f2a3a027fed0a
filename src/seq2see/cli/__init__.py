"""The command line: one file for each command, or for a few related ones.

Large modules are imported only when a command runs (`core/startup.py`).
"""

from __future__ import annotations

import os

# OpenMP threads that spin while waiting are faster on an idle machine. But if another process uses a core, every step
# waits for the scheduler several times. Threads that sleep take the same time in both cases (benchmarks/threads.py),
# and a laptop is rarely idle. A value of the variable in the environment has priority. It must be set before torch is
# imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from seq2see.cli.app import main as main
