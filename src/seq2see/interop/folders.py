"""Atomic writing of folders, detection of pretrained models on disk, and checks for optional packages."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import MANIFEST, sync_folder


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder in the same parent folder; it is renamed to `folder` when everything is written.

    An existing folder is never overwritten.
    """
    if folder.exists() or folder.is_symlink():
        raise UserError(
            "This exists already.", location=str(folder), hint="Name another folder with --out, or remove this one."
        )
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        message = f"This folder cannot be written ({error.strerror})."
        raise UserError(message, location=str(folder), hint="Name another folder with --out.") from None
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_folder(folder.parent)


def is_pretrained(path: Path) -> bool:
    """Whether this path is a pretrained model: a folder whose `config.json` has a model type, a GGUF or an npz file."""
    if path.suffix in (".gguf", ".npz"):
        return path.is_file()
    try:
        tree = json.loads((path / "config.json").read_bytes())
        return "model_type" in tree or is_timm(tree)
    except ValueError:
        return not (path / MANIFEST).exists()  # damaged, and no folder of seq2see: reading it raises the error
    except (OSError, TypeError):
        return False


def is_timm(tree: dict[str, Any]) -> bool:
    """Whether a `config.json` is timm's: it has `architecture` and `pretrained_cfg`."""
    return "architecture" in tree and "pretrained_cfg" in tree


def require_packages(extra: str, *packages: str) -> None:
    """Raise an error with the command that installs it if an optional package is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise UserError(
            f"This needs the package {missing[0]}, which is not installed.",
            hint=f'Install it with `pip install "seq2see[{extra}]"`.',
        )
