"""`seq2see runs`: the table of runs."""

from __future__ import annotations


def runs() -> None:
    """List the runs under runs/."""
    from rich.console import Console
    from rich.table import Table

    from seq2see.runs.run_folder import all_runs, read_scores
    from seq2see.tasks.registry import task_of
    from seq2see.training.metrics_logger import read_metrics

    folders = all_runs()
    if not folders:
        print("There is no run yet. Train one with `seq2see train pocket-transformer`.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("run", "recipe", "step", "state", "test score"):
        table.add_column(title, overflow="fold", no_wrap=title == "run")  # names are not truncated
    for run in folders:
        metrics, recipe = read_metrics(run.metrics), run.recipe()
        table.add_row(
            str(run), recipe.name, f"{metrics[-1]['step']:,}" if metrics else "0",
            "finished" if run.finished else "unfinished", task_of(recipe).headline(read_scores(run)),
        )  # fmt: skip
    Console().print(table)
