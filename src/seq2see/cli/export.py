"""`seq2see export`: a trained model in the format of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest; or a Hugging Face folder.")],
    to: Annotated[str, typer.Option("--to", help="ct2 (CTranslate2), hf (Hugging Face transformers) or onnx.")],
    out: Annotated[Path | None, typer.Option("--out", help="The output folder; default: RUN/export/FORMAT.")] = None,
) -> None:
    """Write a trained model in the format of another library."""
    import torch

    from seq2see.cli.progress_meter import show_status
    from seq2see.core.errors import UserError
    from seq2see.interop.checkpoint_files import is_pretrained
    from seq2see.interop.formats import format_of
    from seq2see.runs.load import read_model
    from seq2see.runs.run_folder import find_model
    from seq2see.tasks.registry import task_named

    export_format, model = format_of(to), find_model(run)
    if out is None and is_pretrained(model):
        raise UserError("Nothing is written into the folder of a pretrained model.", hint="Name a folder with --out.")
    folder = out or model.parent / "export" / to
    with show_status(f"writing {folder}"):
        stored = read_model(model, torch.device("cpu"))
        task_named(stored.config.task).check_export(run)
        export_format.write(stored, folder)
    print(f"wrote {folder}")
    for path in sorted(folder.iterdir()):
        print(f"  {path.stat().st_size:>12,}  {path.name}")
    for note in export_format.notes(stored):
        print(note)
    print(f"Example:\n\n{export_format.example(stored, folder)}")
