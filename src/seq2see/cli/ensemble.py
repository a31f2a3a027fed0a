"""`seq2see ensemble`: several finished runs as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def ensemble(
    runs: Annotated[list[str], typer.Argument(help="Two or more finished runs with the same vocabularies.")],
    out: Annotated[Path | None, typer.Option(help="The run folder; without it, runs/<recipe>-ensemble.")] = None,
) -> None:
    """Put runs together: their models vote on every token, which is usually better than each alone."""
    from seq2see.runs.make_ensemble import make_ensemble
    from seq2see.runs.run_folder import find_run
    from seq2see.runs.terminal import program_name

    made = make_ensemble([find_run(name) for name in runs], out)
    print(f"run    {made}  ({len(runs)} members)")
    print(f"next   {program_name()} eval {made}\n       {program_name()} predict {made}")
