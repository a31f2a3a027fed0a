"""Folders that appear whole or not at all, folders of other people, and packages that not everybody needs."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import sync_folder
from seq2see.core.manifests import MANIFEST


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into beside the wanted one; it gets its name when everything is written.

    What is already there is never written over.
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
        what = f"This folder cannot be written ({error.strerror})."
        raise UserError(what, location=str(folder), hint="Name another folder with --out.") from None
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_folder(folder.parent)


def is_pretrained(path: Path) -> bool:
    """Whether other people's weights lie here: a folder whose `config.json` names a kind of model, GGUF or npz."""
    if path.suffix in (".gguf", ".npz"):
        return path.is_file()
    try:
        tree = json.loads((path / "config.json").read_bytes())
        return "model_type" in tree or is_timm(tree)
    except ValueError:
        return not (path / MANIFEST).exists()  # damaged, and not of ours: whoever reads it will tell
    except (OSError, TypeError):
        return False


def is_timm(tree: dict[str, Any]) -> bool:
    """Whether a `config.json` is timm's: it names an architecture and how the weights were made."""
    return "architecture" in tree and "pretrained_cfg" in tree


def require_packages(extra: str, *packages: str) -> None:
    """Refuse to begin when a package is missing, and say what installs it."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise UserError(
            f"This needs the package {missing[0]}, which is not installed.",
            hint=f'Install it with `pip install "seq2see[{extra}]"`.',
        )
