"""`seq2see doctor` and `explain`: what this machine has, and which implementation of each layer of a model runs on it.

`doctor` prints versions and hardware, and missing software. `explain` prints the table of swaps, with the conditions of
each.
"""

from __future__ import annotations

from typing import Annotated

import typer


def doctor() -> None:
    """Check this machine: versions, device, compiler, fonts, disk."""
    import shutil

    from seq2see import __version__
    from seq2see.core.devices import describe_machine
    from seq2see.data.catalogue.corpus_files import cache_folder, user_folder
    from seq2see.inspection.plotting import ADVICE, use_chinese_font
    from seq2see.runs.load import native_code_status

    free = shutil.disk_usage(".").free / 1e9
    facts = {
        "seq2see": __version__,
        **describe_machine(),
        "disk free": f"{free:.1f} GB",
        "data": user_folder() or cache_folder(),
    }
    facts["native code"] = native_code_status()
    facts["Chinese font"] = "found" if use_chinese_font() else f"missing. {ADVICE}"
    for name, value in facts.items():
        print(f"{name:<13} {value}")


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
