"""The command line: one file per verb. Nothing heavy is imported until a verb runs."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType

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

    _open_streams()
    code = run(sys.argv[1:])
    if "torch" in sys.modules and _is_the_program(sys._getframe(1)):
        _end(code)
    sys.exit(code)


def _open_streams() -> None:
    """What the caller has closed (`<&-`) becomes nothing to read, or a place where nothing is kept."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _is_the_program(caller: FrameType) -> bool:
    """Whether there is nothing but the command: nobody called it who goes on or measures it, and no thread works on."""
    below = caller.f_back
    while below and below.f_globals.get("__name__") == "runpy":  # `python -m` runs modules by it
        below = below.f_back
    working = [thread for thread in threading.enumerate() if not thread.daemon]
    return caller.f_code.co_filename == sys.argv[0] and below is None and working == [threading.main_thread()]


def _end(code: int) -> None:
    """End this process; what others have registered to be done before is done.

    Python would take apart, piece by piece, what torch and the libraries of a GPU have built up. That takes about as
    long as to draw the curves of a run, and the system frees it all at once anyway.
    """
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # nobody reads any more: Python goes on, and says so
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
