"""`seq2see explain`: which implementation runs for each layer of a model, and under which conditions."""

from __future__ import annotations

from typing import Annotated

import typer


def explain(
    run: Annotated[str, typer.Argument(help="A run (folder, name or latest), or a pretrained folder.")],
) -> None:
    """Explain which parts of a model run in a faster form on this machine, and which by their definition."""
    from rich.console import Console
    from rich.table import Table

    from seq2see.runs.explain import explain_run

    console = Console()
    for title, rows in explain_run(run):
        console.print(f"\n{title}", style="bold", highlight=False)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("definition", "runs as", "faster form for"):
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(row.plain, row.fast or "the definition", row.where)
        if rows:
            console.print(table)
    print("\nEach faster form equals its definition, and a test compares them (see docs/speed.md).")
    print("SEQ2SEE_PLAIN=1 before a command runs the definitions alone.")
