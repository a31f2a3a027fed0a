"""A file of predictions that can be resumed after the process was killed at any moment.

The file itself is the record: its complete lines are kept, an incomplete last line is removed, and the next call
continues after them. An unfinished file has a companion `FILE.progress.json` with everything that the predictions
depend on: the model, the settings, and a hash of the lines read so far. It is written before the predictions of a
window, so it covers every prediction in the file. A call with another model, other settings or other lines is an error,
so that one file never mixes the predictions of two configurations.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Self

from seq2see.core.errors import UserError
from seq2see.core.files import sync_folder, write_json
from seq2see.runs.batch_inference import LineWindow

CHUNK_BYTES = 1 << 20
FORMAT = 1


class OutputFile:
    """The outputs of input lines in their order, `lines_per_input` lines of the file for each."""

    def __init__(self, path: Path, provenance: Mapping[str, Any], lines_per_input: int = 1):
        self.path, self.provenance, self.lines_per_input = path, dict(provenance), lines_per_input
        self.note = path.parent / f"{path.name}.progress.json"
        self.output_count = 0
        """The number of input lines with complete output in the file."""
        self._covered: dict[str, Any] | None = None  # the window that was written when the last call stopped
        self._file: FileIO | None = None
        self._is_new = False

    def __enter__(self) -> Self:
        self._is_new = not self.path.exists()
        self._file = self._open()
        try:
            before = self._read_progress()
            if before is not None:
                self._resume(before)
            elif self.path.stat().st_size:
                raise UserError(
                    "This file already exists, and it is not an unfinished file of predictions.",
                    location=str(self.path),
                    hint="Name another file with --out, or delete this one.",
                )
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        assert self._file is not None
        if isinstance(error, UserError) and self._is_new and not self.note.exists():  # nothing was written yet
            self.path.unlink(missing_ok=True)
        self._file.close()

    def is_pending(self, window: LineWindow) -> bool:
        """Whether some lines of the window have no output yet; raises an error if the lines have changed."""
        covered = self._covered
        if covered and window.start <= covered["start"] < window.end:
            if (window.start, window.end, window.sha256) != (covered["start"], covered["end"], covered["sha256"]):
                raise self._refusal("The input lines differ from those of the last call.")
            self._covered = None
        return window.end > self.output_count

    def write(self, window: LineWindow, outputs: Iterable[str]) -> None:
        """Append the outputs of a window, except those already in the file, and sync them to the disk."""
        assert self._file is not None
        current = {"start": window.start, "end": window.end, "sha256": window.sha256}
        new = [output + "\n" for number, output in enumerate(outputs, window.start) if number >= self.output_count]
        rest = memoryview("".join(new).encode("utf-8", "surrogatepass"))
        try:
            write_json(self.note, {"format": FORMAT, "window": current, "provenance": self.provenance})
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            hint = "Free some disk space; the same command then continues."
            raise UserError(
                f"The predictions cannot be written ({error.strerror}).", location=str(self.path), hint=hint
            ) from None
        self.output_count = window.end

    def finish(self) -> None:
        """Mark the file as finished."""
        if self._covered:
            raise self._refusal("There are fewer input lines than in the last call.")
        self.note.unlink(missing_ok=True)
        sync_folder(self.path.parent)

    def complete(self) -> tuple[int, int]:
        """The number of complete outputs, and the file position after the last of them."""
        lines, position, end = 0, 0, 0
        with self.path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                line_end = chunk.find(b"\n")
                while line_end >= 0:
                    lines += 1
                    if lines % self.lines_per_input == 0:
                        end = position + line_end + 1
                    line_end = chunk.find(b"\n", line_end + 1)
                position += len(chunk)
        return lines // self.lines_per_input, end

    def _open(self) -> FileIO:
        if self.path.exists() and not self.path.is_file():
            raise UserError("This is not a plain file.", location=str(self.path), hint="Name another one with --out.")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = FileIO(self.path, "ab")  # unbuffered, so that closing writes nothing
        except OSError as error:
            message = f"This file cannot be written ({error.strerror})."
            raise UserError(message, location=str(self.path), hint="Name another one with --out.") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the system when the process ends
        except BlockingIOError:
            file.close()
            message = "Another process is writing to this file."
            raise UserError(message, location=str(self.path), hint="Wait for it, or name another file.") from None
        return file

    def _read_progress(self) -> dict[str, Any] | None:
        """The content of the progress file; None without one."""
        try:
            note = json.loads(self.note.read_bytes())
            assert note["format"] == FORMAT
            assert isinstance(note["provenance"], dict)
            assert {type(note["window"][key]) for key in ("start", "end")} == {int}
            assert isinstance(note["window"]["sha256"], str)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AssertionError):
            raise self._refusal("Its progress file cannot be read.") from None
        return note

    def _resume(self, before: dict[str, Any]) -> None:
        assert self._file is not None
        self.output_count, size = self.complete()
        if not self.output_count:  # without complete outputs there is nothing to check
            self._file.truncate(0)
            return
        self._covered = before["window"]
        for path, old, new in _differences(before["provenance"], self.provenance):
            raise self._refusal(f"It was started with {path} = {old}, and now {path} = {new}.")
        if not self._covered["start"] <= self.output_count <= self._covered["end"]:
            raise self._refusal(f"It was modified: {self.output_count:,} predictions do not match its progress file.")
        self._file.truncate(size)

    def _refusal(self, message: str) -> UserError:
        hint = f"To start again, delete it and {self.note.name}; to keep it, name another file with --out."
        return UserError(message, location=str(self.path), hint=hint)


def _differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The differences of two trees of settings: dotted path, old value and new value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*after, *(key for key in before if key not in after)]:
            yield from _differences(before.get(key), after.get(key), f"{path}.{key}".lstrip("."))
    elif json.dumps(before) != json.dumps(after):
        yield path, json.dumps(before, ensure_ascii=False), json.dumps(after, ensure_ascii=False)
