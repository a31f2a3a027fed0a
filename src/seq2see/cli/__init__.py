"""The command line: one file for each command, or for a few related ones.

Large modules are imported only when a command runs (`core/startup.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from types import FrameType

# OpenMP threads that spin while waiting are faster on an idle machine. But if another process uses a core, every step
# waits for the scheduler several times. Threads that sleep take the same time in both cases (benchmarks/threads.py),
# and a laptop is rarely idle. A value of the variable in the environment has priority. It must be set before torch is
# imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main() -> None:
    """The entry point of the command `seq2see`. User errors are printed in one or two lines, with exit code 2."""
    from seq2see.cli.app import run

    _open_streams()
    code = run(sys.argv[1:])
    if "torch" in sys.modules and _is_main_program(sys._getframe(1)):
        _exit_fast(code)
    sys.exit(code)


def _open_streams() -> None:
    """Replace closed standard streams (`<&-`) by the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _is_main_program(caller: FrameType) -> bool:
    """Whether the process runs only this command: no calling code, profiler or other thread continues after it."""
    frame = caller.f_back
    while frame and frame.f_globals.get("__name__") == "runpy":  # `python -m` calls modules from runpy
        frame = frame.f_back
    threads = [thread for thread in threading.enumerate() if not thread.daemon]
    return caller.f_code.co_filename == sys.argv[0] and frame is None and threads == [threading.main_thread()]


def _exit_fast(code: int) -> None:
    """Run the registered exit functions, and end this process without destroying its objects.

    The destructors of torch and the GPU libraries take about as long as drawing the curves of a run, and the operating
    system frees all memory anyway.
    """
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # a closed pipe: the normal exit of Python reports it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
