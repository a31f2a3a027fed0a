"""`seq2see export`: a trained model for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest; or a Hugging Face folder.")],
    to: Annotated[str, typer.Option("--to", help="ct2 (CTranslate2), hf (Hugging Face transformers) or onnx.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; else RUN/export/ct2 and so on.")
    ] = None,
) -> None:
    """Write a trained model in another engine's form."""
    import torch

    from seq2see.cli.progress_meter import show_status
    from seq2see.core.errors import UserError
    from seq2see.interop.folders import is_pretrained
    from seq2see.interop.formats import format_of
    from seq2see.runs.model_folder import read_model
    from seq2see.runs.run_folder import find_model

    form, found = format_of(to), find_model(run)
    if out is None and is_pretrained(found):
        raise UserError("Nothing is written into a folder of other people.", hint="Name a folder with --out.")
    folder = out or found.parent / "export" / to
    with show_status(f"writing {folder}"):
        stored = read_model(found, torch.device("cpu"))
        form.write(stored, folder)
    print(f"wrote {folder}")
    for path in sorted(folder.iterdir()):
        print(f"  {path.stat().st_size:>12,}  {path.name}")
    for note in form.notes(stored):
        print(note)
    print(f"Use it so:\n\n{form.example(stored, folder)}")
