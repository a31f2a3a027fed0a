"""A file of answers that a kill at any moment cannot spoil.

The file itself is the record: its complete lines are done, a torn last one is cut off, and the next call goes on
behind them. Beside it, as long as it is not finished, lies `FILE.progress.json` with what the answers depend on:
the model, the settings, and a hash of the lines read so far. It is written before the answers of a window are, so
every answer in the file is covered by it; and whoever comes back with another model, other settings or other lines
is told so, instead of getting a file that is half this and half that.
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
from seq2see.runs.input_lines import LineWindow

CHUNK_BYTES = 1 << 20
FORMAT = 1


class OutputFile:
    """Answers to lines in their order, `lines_per_input` lines of the file for each."""

    def __init__(self, path: Path, provenance: Mapping[str, Any], lines_per_input: int = 1):
        self.path, self.provenance, self.lines_per_input = path, dict(provenance), lines_per_input
        self.note = path.parent / f"{path.name}.progress.json"
        self.output_count = 0
        """How many lines have their complete answer in the file."""
        self._covered: dict[str, Any] | None = None  # the window that was being written when it was killed
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
                    "This file exists already, and it is not an unfinished file of answers.",
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
        """Whether some of the window's lines are still to be answered; the lines must be those of the last time."""
        covered = self._covered
        if covered and window.start <= covered["start"] < window.end:
            if (window.start, window.end, window.sha256) != (covered["start"], covered["end"], covered["sha256"]):
                raise self._refusal("The lines to be answered are not those of the last time.")
            self._covered = None
        return window.end > self.output_count

    def write(self, window: LineWindow, answers: Iterable[str]) -> None:
        """Append a window's answers, without those that are there already; they are on the disk in the end."""
        assert self._file is not None
        now = {"start": window.start, "end": window.end, "sha256": window.sha256}
        new = [answer + "\n" for number, answer in enumerate(answers, window.start) if number >= self.output_count]
        rest = memoryview("".join(new).encode("utf-8", "surrogatepass"))
        try:
            write_json(self.note, {"format": FORMAT, "window": now, "provenance": self.provenance})
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            hint = "Make room; the same command then goes on from there."
            raise UserError(
                f"The answers cannot be written ({error.strerror}).", location=str(self.path), hint=hint
            ) from None
        self.output_count = window.end

    def finish(self) -> None:
        """All lines are answered: the file is no longer an unfinished one."""
        if self._covered:
            raise self._refusal("There are fewer lines to be answered than the last time.")
        self.note.unlink(missing_ok=True)
        sync_folder(self.path.parent)

    def complete(self) -> tuple[int, int]:
        """How many answers are complete, and where the last of them ends."""
        lines, place, ends = 0, 0, 0
        with self.path.open("rb") as file:
            while piece := file.read(CHUNK_BYTES):
                at = piece.find(b"\n")
                while at >= 0:
                    lines += 1
                    if lines % self.lines_per_input == 0:
                        ends = place + at + 1
                    at = piece.find(b"\n", at + 1)
                place += len(piece)
        return lines // self.lines_per_input, ends

    def _open(self) -> FileIO:
        if self.path.exists() and not self.path.is_file():
            raise UserError("This is not a plain file.", location=str(self.path), hint="Name another one with --out.")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = FileIO(self.path, "ab")  # without a buffer, so that nothing is left to be written when it is closed
        except OSError as error:
            what = f"This file cannot be written ({error.strerror})."
            raise UserError(what, location=str(self.path), hint="Name another one with --out.") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it goes away with the process, however that ends
        except BlockingIOError:
            file.close()
            what = "Another process is writing to this file."
            raise UserError(what, location=str(self.path), hint="Wait for it, or name another one.") from None
        return file

    def _read_progress(self) -> dict[str, Any] | None:
        """What was written down the last time, if there was one."""
        try:
            note = json.loads(self.note.read_bytes())
            assert note["format"] == FORMAT
            assert isinstance(note["provenance"], dict)
            assert {type(note["window"][key]) for key in ("start", "end")} == {int}
            assert isinstance(note["window"]["sha256"], str)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AssertionError):
            raise self._refusal("The note beside it cannot be read.") from None
        return note

    def _resume(self, before: dict[str, Any]) -> None:
        assert self._file is not None
        self.output_count, size = self.complete()
        if not self.output_count:  # nothing was written yet, so nothing has to fit
            self._file.truncate(0)
            return
        self._covered = before["window"]
        for path, was, now in _differences(before["provenance"], self.provenance):
            raise self._refusal(f"It was begun with {path} = {was}, and now it is {now}.")
        if not self._covered["start"] <= self.output_count <= self._covered["end"]:
            raise self._refusal(f"It was changed: it holds {self.output_count:,} answers, which it cannot.")
        self._file.truncate(size)

    def _refusal(self, what: str) -> UserError:
        hint = f"To begin anew, delete it and {self.note.name}; to keep it, name another file with --out."
        return UserError(what, location=str(self.path), hint=hint)


def _differences(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Where two trees of settings differ: the dotted path, what stood there, and what stands there now."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*now, *(key for key in before if key not in now)]:
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}".lstrip("."))
    elif json.dumps(before) != json.dumps(now):
        yield path, json.dumps(before, ensure_ascii=False), json.dumps(now, ensure_ascii=False)
