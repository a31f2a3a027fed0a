"""The command line exits without tearing modules down, but only after all output is flushed and all hooks have run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import seq2see

PROGRAM = """
import atexit, sys, threading, time, types
from seq2see.cli import main
{before}
class Left:
    def __del__(self):
        print("taken apart")
left = Left()
atexit.register(print, "registered")
if __name__ == "__main__":
    {call}
"""
TORCH = 'sys.modules["torch"] = types.ModuleType("torch")'  # as if it had been imported
SLOW = """
def work():
    time.sleep(1.5)
    print("worked")
threading.Thread(target=work).start()
"""


def ended(
    folder: Path, arguments: list[str], before: str = TORCH, call: str = "sys.exit(main())", by: Sequence[str] = ()
) -> tuple[int, str]:
    """The exit code of such a program, and what it printed after what the command itself does."""
    (folder / "command.py").write_text(PROGRAM.format(before=before, call=call), encoding="utf-8")
    command = [sys.executable, *(by or [str(folder / "command.py")]), *arguments]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, cwd=folder, env=buffered, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout.removeprefix(f"{seq2see.__version__}\n")


def test_a_command_exits_without_teardown(tmp_path):
    assert ended(tmp_path, ["--version"]) == (0, "registered\n")
    assert ended(tmp_path, ["no-such-verb"]) == (2, "registered\n")


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("", "main()"),  # without torch it takes no time
        (TORCH, "(lambda: main())()"),
        (TORCH, "exec('main()')"),  # as a profiler does it
        (TORCH + SLOW, "main()"),
        (TORCH, "sys.argv[0] = 'another'; main()"),
    ],
    ids=["no torch", "called", "measured", "a thread works", "by another program"],
)
def test_otherwise_python_exits_normally(tmp_path, before, call):
    code, printed = ended(tmp_path, ["--version"], before, call)
    assert (code, printed.removeprefix("worked\n")) == (0, "registered\ntaken apart\n")
    assert printed.startswith("worked") == ("work()" in before)


def test_a_module_is_a_command_too(tmp_path):
    assert ended(tmp_path, ["--version"], by=("-m", "command")) == (0, "registered\n")


FULL = "import os; os.close(1); os.dup2(os.open('/dev/full', os.O_WRONLY), 1)"


def test_what_cannot_be_printed_is_an_error(tmp_path):
    code, _ = ended(tmp_path, ["--version"], call=f"{FULL}; sys.exit(main())")
    assert code == 2


def test_output_errors_at_exit_are_reported_by_python(tmp_path):
    """Behind the command itself, by what was registered to be done before it ends."""
    code, _ = ended(tmp_path, ["--version"], call=f"import atexit; atexit.register(lambda: exec({FULL!r})); main()")
    assert code == 120
