"""`seq2see runs` and `ensemble`: the table of runs, and several finished runs combined."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from seq2see.runs.run_folder import RunFolder


def runs() -> None:
    """List the runs under runs/."""
    from rich.console import Console
    from rich.table import Table

    from seq2see.runs.run_folder import all_runs
    from seq2see.training.loop import read_metrics

    folders = all_runs()
    if not folders:
        print("There is no run yet. Train one with `seq2see train pocket-transformer`.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("run", "recipe", "step", "state", "test score"):
        table.add_column(title, overflow="fold", no_wrap=title == "run")  # names are not truncated
    for run in folders:
        metrics, (name, score) = read_metrics(run.metrics), _name_and_score(run)
        table.add_row(
            str(run), name, f"{metrics[-1]['step']:,}" if metrics else "0",
            "finished" if run.finished else "unfinished", score,
        )  # fmt: skip
    Console().print(table)


def _name_and_score(run: RunFolder) -> tuple[str, str]:
    """The name of the recipe and the most important score; "?" and "" if the task is not registered."""
    from seq2see.core.errors import UserError
    from seq2see.runs.run_folder import read_scores
    from seq2see.tasks.task import task_of

    try:
        recipe = run.recipe()
    except UserError:
        return "?", ""
    return recipe.name, task_of(recipe).headline(read_scores(run))


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
