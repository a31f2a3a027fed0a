"""`seq2see train`: from a recipe, and optionally your own data, to a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2see.core.startup import create_cuda_context, cuda_warmup, importing, run_in_background


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe, a task (translate, write, tag, ...) or a TOML file.")],
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Your own data: pairs or labels (.tsv, .csv, .jsonl, two aligned files), text, CoNLL, numbers."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; default: runs/<recipe>.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, as path=value.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", help="Columns of your table: --columns text=review label=sentiment."),
    ] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Show data, model and a batch; do not train.")] = False,
) -> None:
    """Train a model; resume it if it was interrupted."""
    with importing():
        if not dry:
            _start_cuda_warmup()
        from seq2see.api import shared_name_note
        from seq2see.cli.data import split_columns
        from seq2see.recipes.registry import resolve
        from seq2see.runs.report import write_report
        from seq2see.runs.run_folder import finished_run
        from seq2see.runs.terminal import Terminal, program_name
        from seq2see.runs.train import dry_run, train_recipe
        from seq2see.tasks.task import task_of
        from seq2see.training.loop import Interrupted

    if note := shared_name_note(recipe):
        print(f"note   {note}")
    files, chosen = split_columns([str(path) for path in data or []], columns or [])
    resolved = resolve(recipe, files, dict(_assignments(set_ or [])) | chosen)
    if dry:
        dry_run(resolved, print)
        return
    finished = finished_run(resolved, out)
    if finished is not None:
        if not (finished.path / "report.html").exists():
            write_report(finished)
        print(f"run    {finished} is finished; there is nothing to do")
        print(f"next   {program_name()} eval {finished}\n       {program_name()} predict {finished}")
        return
    with Terminal("train", resolved.steps, task_of(resolved).unit) as terminal:
        try:
            run = train_recipe(resolved, out, terminal)
        except Interrupted as stop:
            terminal.log(f"stopped at step {stop.step:,}; saved up to step {stop.saved_step:,}. To resume:")
            terminal.log(f"  {program_name()} train {stop.folder}/recipe.toml --out {stop.folder}")
            raise typer.Exit(128 + stop.number) from None
    write_report(run)
    print(f"run    {run}  (model, curves.png, samples, report.html)")
    print(f"next   {program_name()} eval {run}\n       {program_name()} {task_of(resolved).command} {run}")


def _start_cuda_warmup() -> None:
    """With a GPU, create the CUDA context while torch is imported, and warm up while other modules are imported."""
    run_in_background(create_cuda_context)
    import torch  # noqa: F401

    cuda_warmup()


def _assignments(texts: list[str]) -> list[tuple[str, object]]:
    from seq2see.core.settings import parse_assignment

    return [parse_assignment(text) for text in texts]
