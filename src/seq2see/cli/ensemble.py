"""`seq2see ensemble`: combine several finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def ensemble(
    runs: Annotated[list[str], typer.Argument(help="Two or more finished runs with the same vocabularies.")],
    out: Annotated[Path | None, typer.Option(help="The run folder; default: runs/<recipe>-ensemble.")] = None,
) -> None:
    """Combine runs: average the probabilities of their models."""
    from seq2see.runs.make_ensemble import make_ensemble
    from seq2see.runs.run_folder import find_run
    from seq2see.runs.terminal import program_name

    folder = make_ensemble([find_run(name) for name in runs], out)
    print(f"run    {folder}  ({len(runs)} members)")
    print(f"next   {program_name()} eval {folder}\n       {program_name()} predict {folder}")
