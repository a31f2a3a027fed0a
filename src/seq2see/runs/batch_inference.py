"""Prediction for any number of input lines, one window of lines at a time, in constant memory.

A file of predictions can be resumed after the process was killed at any moment. The file itself is the record: its
complete lines are kept, an incomplete last line is removed, and the next call continues after them. An unfinished file
has a companion `FILE.progress.json` with everything that the predictions depend on: the model, the settings, and a hash
of the lines read so far. It is written before the predictions of a window, so it covers every prediction in the file. A
call with another model, other settings or other lines is an error, so that one file never mixes the predictions of two
configurations.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from io import BufferedReader, FileIO
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self, TextIO

from seq2see.core.documents import load_json
from seq2see.core.errors import UserError
from seq2see.core.files import sync_folder, write_json
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.image_files import ImageError
from seq2see.data.readers.lines import is_blank, read_lines, split_lines
from seq2see.tasks.model import Model, Output, Prediction, format_candidates

FIRST_WINDOW, LARGEST_WINDOW = 64, 2048
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class LineWindow:
    """Consecutive lines; line numbers start at 0."""

    start: int
    texts: list[str]
    sha256: str
    """The hash of all lines from the first line of the input to the last of this window."""

    @property
    def end(self) -> int:
        """The number of the line after this window."""
        return self.start + len(self.texts)


@dataclass(frozen=True)
class LineSource:
    """An iterable of lines, and their total number if it is known."""

    texts: Iterable[str]
    total: int | None = None


def window_size(start: int) -> int:
    """The size of the window that starts at this line: 64, 128, ... up to 2,048.

    >>> [window_size(start) for start in (0, 64, 192, 1984, 4032)]
    [64, 128, 256, 2048, 2048]
    """
    return min(start + FIRST_WINDOW, LARGEST_WINDOW)


def line_windows(lines: Iterable[str]) -> Iterator[LineWindow]:
    """Split lines into windows; at most one window is in memory."""
    digest, iterator, start = hashlib.sha256(), iter(lines), 0
    while texts := list(islice(iterator, window_size(start))):
        for text in texts:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
        yield LineWindow(start, texts, digest.hexdigest())
        start += len(texts)


def lines_of(files: list[Path]) -> LineSource:
    """The lines of files. Regular files are validated completely before the first prediction."""
    if any(path.is_fifo() for path in files):  # for example `<(zcat new.txt.gz)`
        return LineSource(_lines_of(files))
    return LineSource(_lines_of(files), sum(1 for _ in _lines_of(files, fail_fast=False)))


def lines_of_pipe(pipe: BufferedReader, name: str = "standard input") -> LineSource:
    """The lines of a pipe, each validated when it is read."""
    return LineSource(_lines_from(pipe, name), _count(pipe))


def _lines_of(files: list[Path], fail_fast: bool = True) -> Iterator[str]:
    """Yield lines; invalid lines raise an error at once, or together with all others of their file."""
    for path in files:
        if path.is_fifo():
            with path.open("rb") as pipe:
                yield from _lines_from(pipe, str(path))
            continue
        report = DataReport()
        for line in read_lines(path, report):
            if fail_fast and not line.is_valid:
                report.raise_for_errors(ErrorPolicy())
            yield line.text
        report.raise_for_errors(ErrorPolicy())


def _lines_from(pipe: BufferedReader, name: str) -> Iterator[str]:
    report = DataReport()
    # `read1` returns the available bytes; `read` would block until a whole chunk is available.
    for line in split_lines(iter(lambda: pipe.read1(CHUNK_BYTES), b""), name, report):
        if not line.is_valid:
            report.raise_for_errors(ErrorPolicy())
        yield line.text
    if not report.counts["empty file"]:  # an empty pipe is not an error
        report.raise_for_errors(ErrorPolicy())


@contextmanager
def error_context(indices: Sequence[int] | None, index: int) -> Iterator[None]:
    """Add the line number to an error of one text, if texts are lines with `indices`."""
    try:
        yield
    except UserError as error:
        if error.location or indices is None:  # the error of an image has a location
            raise
        raise UserError(error.message, location=f"line {indices[index] + 1}", hint=error.hint) from None


def _count(pipe: BufferedReader) -> int | None:
    """The number of lines if the pipe is a redirected file (`< new.txt`), else None."""
    try:
        descriptor = pipe.fileno()
    except OSError:  # not a file of the operating system
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    position, count, last = os.lseek(descriptor, 0, os.SEEK_CUR), 0, b"\n"
    while chunk := os.pread(descriptor, CHUNK_BYTES, position):
        position, count, last = position + len(chunk), count + chunk.count(b"\n"), chunk[-1:]
    return count + (last != b"\n")


QUOTED = 60
"""The length at which texts are quoted in warnings."""


class OutputWriter(Protocol):
    """The destination of the output lines."""

    def is_pending(self, window: LineWindow) -> bool:
        """Whether some lines of the window have no output yet."""

    def write(self, window: LineWindow, outputs: Iterable[str]) -> None:
        """Write the outputs of a window's lines, in their order."""

    def finish(self) -> None:
        """Called after the last window."""


class StdoutWriter:
    """Writes outputs to standard output, which cannot be resumed."""

    def __init__(self, output: TextIO):
        self.output = output

    def is_pending(self, window: LineWindow) -> bool:
        """Always true."""
        return True

    def write(self, window: LineWindow, outputs: Iterable[str]) -> None:
        """Print and flush the outputs."""
        self.output.writelines(output + "\n" for output in outputs)
        self.output.flush()

    def finish(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class InferenceOptions:
    """The options of prediction and of the output format."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of `Model.predict`: decoding settings, prefix, seed."""
    as_json: bool = False
    lines_per_input: int = 1
    """Output lines for each input line."""


@dataclass(frozen=True)
class Progress:
    """Progress since the last report."""

    lines: int
    """Lines completed since the last report, or found complete from an earlier call."""
    tokens: int = 0
    """Tokens generated since the last report."""
    is_new: bool = True
    """False for lines that an earlier call has completed."""
    truncated: tuple[str, ...] = ()
    """Texts that were too long and were truncated."""
    warnings: tuple[str, ...] = ()
    """Other warnings about texts."""
    errors: tuple[str, ...] = ()
    """Error messages of unreadable images; their outputs are empty."""


ProgressCallback = Callable[[Progress], Any]


def predict_lines(
    model: Model,
    lines: LineSource,
    output_writer: OutputWriter,
    options: InferenceOptions,
    on_progress: ProgressCallback = lambda progress: None,
) -> None:
    """Predict all lines, in their order; windows that are already written are skipped.

    An unreadable image is reported as an error, and its output is empty; the other lines are predicted.
    """
    large_batch = False
    for window in line_windows(lines.texts):
        # Decided by the first window, which is read again when a call resumes, so the decision is the same then.
        large_batch = large_batch or len(window.texts) == FIRST_WINDOW
        if not output_writer.is_pending(window):
            on_progress(Progress(len(window.texts), is_new=False))
            continue
        numbered = dict(enumerate(window.texts, window.start))
        texts = {number: text for number, text in numbered.items() if not is_blank(text)}
        on_progress(Progress(len(window.texts) - len(texts)))
        try:
            predictions = _predict_batch(model, texts, large_batch, options, on_progress)
        except ImageError:
            readable, errors = _split_readable(model, texts)
            if not readable and not window.start:  # no image is readable: most likely the wrong folder
                raise
            predictions = _predict_batch(model, readable, large_batch, options, on_progress)
            on_progress(Progress(len(errors), errors=errors))
        output_writer.write(
            window, [format_output(text, predictions.get(number), options) for number, text in numbered.items()]
        )
        tokens = sum(output.length for each in predictions.values() for output in each.outputs)
        truncated = tuple(each.source for each in predictions.values() if each.truncated)
        warnings = tuple(format_warnings(each) for each in predictions.values() if each.warnings)
        on_progress(Progress(0, tokens, truncated=truncated, warnings=warnings))
    output_writer.finish()


def _predict_batch(
    model: Model, texts: Mapping[int, str], large_batch: bool, options: InferenceOptions, on_progress: ProgressCallback
) -> dict[int, Prediction]:
    """The prediction for each line, by its number."""
    predictions = model.predict(
        list(texts.values()),
        indices=list(texts),
        large_batch=large_batch,
        on_progress=lambda count: on_progress(Progress(count)),
        **options.settings,
    )
    return dict(zip(texts, predictions, strict=True))


def _split_readable(model: Model, texts: Mapping[int, str]) -> tuple[dict[int, str], tuple[str, ...]]:
    """The lines whose images are readable, and the error messages of the others."""
    readable, errors = {}, []
    for number, text in texts.items():
        try:
            model.warnings(text)
        except ImageError as error:
            errors.append(str(error))
        else:
            readable[number] = text
    return readable, tuple(errors)


def format_warnings(prediction: Prediction) -> str:
    """The warnings of a prediction, and the beginning of its source."""
    return f"{'; '.join(prediction.warnings)}: {one_line(prediction.source[:QUOTED])}"


def format_output(text: str, prediction: Prediction | None, options: InferenceOptions) -> str:
    """The output of one input line; that of an empty line is empty, so that lines stay aligned."""
    outputs = prediction.outputs if prediction else ()
    if options.as_json:
        fields: dict[str, Any] = {"source": text, "outputs": [_output_json(each) for each in outputs]}
        candidates = prediction.candidates if prediction else ()
        if candidates:
            fields["candidates"] = [[asdict(candidate) for candidate in position] for position in candidates]
        if prediction and prediction.expert:
            fields["expert"] = prediction.expert
        return json.dumps(fields, ensure_ascii=False)
    expert = f"\t{prediction.expert}" if prediction and prediction.expert else ""
    texts = [one_line(each.text + format_candidates(prediction)) + expert for each in outputs]
    return "\n".join([*texts, *[""] * (options.lines_per_input - len(texts))])


def _output_json(output: Output) -> dict[str, Any]:
    """An output as JSON, with the probability of each token if available."""
    fields: dict[str, Any] = {"text": output.text, "score": output.score}
    if output.tokens:
        fields["tokens"] = [[each.text, round(each.probability, 4)] for each in output.tokens]
    return fields


def one_line(text: str) -> str:
    """A text on one line: line breaks are replaced by spaces."""
    return text.replace("\r", " ").replace("\n", " ")


READ_BYTES = 1 << 20
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
            while chunk := file.read(READ_BYTES):
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
            raise UserError("This is not a regular file.", location=str(self.path), hint="Name another one with --out.")
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
            note = load_json(self.note)
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
