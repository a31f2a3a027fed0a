"""A folder that one process at a time may write.

The lock belongs to the process (flock): the operating system releases it when the process ends, even by a kill. The
note in the same folder names the process, for the message of the second one.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import write_json

LOCK = ".lock"
NOTE = ".lock.json"
LOCK_FILES = (LOCK, NOTE)
NOTE_DELAY = 2.0
"""The most seconds between a lock and its note."""


@contextmanager
def exclusive_folder(folder: Path, work: str) -> Iterator[None]:
    """Hold the lock of a folder, which is created; `work` is what is done there, for the message."""
    from filelock import FileLock, Timeout  # imported here, because most commands lock nothing

    created = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"{work} by {_holder(folder)}.",
            location=str(folder),
            hint="Wait until that process has ended, end it, or name another folder with --out.",
        ) from None
    try:
        note = {"process": os.getpid(), "machine": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        write_json(folder / NOTE, {**note, "command": sys.argv})
        yield
    finally:
        for name in (NOTE, LOCK):  # while the lock is held; a process that has just opened the file tries again
            (folder / name).unlink(missing_ok=True)
        lock.release()
        with suppress(OSError):  # the first that is not empty ends this
            for each in created:
                each.rmdir()


def _holder(folder: Path) -> str:
    """The process that holds the lock, in words; its note may follow a moment after its lock."""
    end = time.monotonic() + NOTE_DELAY
    while not (folder / NOTE).exists() and time.monotonic() < end:
        time.sleep(0.05)
    try:
        note: dict[str, Any] = json.loads((folder / NOTE).read_bytes())
        return f"the process {int(note['process'])} on {note['machine']!s}, since {note['since']!s}"
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "another process"
