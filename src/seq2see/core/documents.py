"""The gate for small files that others may have written: JSON and TOML of runs, models and recipes.

A name may belong to a device without an end or to a pipe without a writer, a document may be larger than the memory
or nested deeper than the stack. All of these are one `UserError`, before much is read.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError

MAX_DOCUMENT = 1 << 28
"""The largest JSON or TOML file, 256 MiB: tokenizers have up to some ten."""


def read_regular(path: Path, limit: int = MAX_DOCUMENT) -> bytes:
    """The content of a regular file of at most `limit` bytes; a missing one is a `FileNotFoundError`."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe does not block
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        refuse_special(path, status)
        if status.st_size <= limit:
            content = file.read(limit + 1)
            if len(content) <= limit:
                return content
    raise UserError(
        f"The file has {status.st_size:,} bytes, and at most {limit:,} are read.",
        location=str(path),
        hint="Check that this is the right file.",
    )


def refuse_special(path: Path, status: os.stat_result | None = None) -> None:
    """Raise an error for a device, a pipe or a socket; a folder is an `IsADirectoryError`."""
    mode = (status or path.stat()).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(mode), "no regular file")
        raise UserError(
            f"This is {kind}, and not a regular file.", location=str(path), hint="Copy its content to a file."
        )


def loads(content: bytes | str, **options: Any) -> Any:
    """A JSON value; like invalid JSON, brackets that are nested too deeply are a `ValueError`."""
    try:
        return json.loads(content, **options)
    except RecursionError:
        raise ValueError("the brackets are nested too deeply") from None


def load_json(path: Path, **options: Any) -> Any:
    """The JSON value in a regular file; the caller reports a `ValueError` in its own words."""
    return loads(read_regular(path), **options)


def read_json(path: Path, hint: str = "Restore the file.") -> Any:
    """The JSON value in a file; invalid JSON is an error with its location."""
    try:
        return load_json(path)
    except ValueError as error:
        raise UserError(f"This is not valid JSON: {str(error)[:200]}.", location=str(path), hint=hint) from None


def read_toml_tables(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(read_regular(path).decode("utf-8"))
    except RecursionError:
        raise UserError("The brackets are nested too deeply.", location=str(path)) from None
    except ValueError as error:
        raise UserError(f"This is not valid TOML: {str(error)[:200]}.", location=str(path)) from None
