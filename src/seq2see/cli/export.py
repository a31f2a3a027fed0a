"""`seq2see export`: a trained model for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest.")],
    to: Annotated[str, typer.Option("--to", help="ct2 (CTranslate2), hf (Hugging Face transformers) or onnx.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; else RUN/export/ct2 and so on.")
    ] = None,
) -> None:
    """Write a trained model in another engine's form."""
    import torch

    from seq2see.core.errors import UserError
    from seq2see.interop.formats import format_of
    from seq2see.workbench.model_folder import read_model
    from seq2see.workbench.run_folder import find_run

    form = format_of(to)
    found = find_run(run)
    if not found.finished:
        raise UserError("This run is not finished, so it has no model yet.", where=str(found))
    stored = read_model(found.model, torch.device("cpu"))
    folder = out or found.path / "export" / to
    form.write(stored, folder)
    print(f"wrote {folder}")
    for path in sorted(folder.iterdir()):
        print(f"  {path.stat().st_size:>12,}  {path.name}")
    for note in form.notes(stored):
        print(note)
    print(f"Use it so:\n\n{form.example(stored, folder)}")
