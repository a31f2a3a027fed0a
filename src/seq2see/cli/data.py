"""`seq2see data`: the catalogue of corpora, and a check of your own files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from seq2see.data.readers.data_kinds import UserData
    from seq2see.data.readers.data_report import DataReport

LARGE_ENOUGH = 1_000_000
"""A file size in bytes that suffices for the windows of any recipe."""

data = typer.Typer(help="List, download and check corpora, or check your own files.", no_args_is_help=True)


@data.command("list")
def list_() -> None:
    """List the corpora of the catalogue."""
    from rich.console import Console
    from rich.table import Table

    from seq2see.data.catalogue.corpus_files import list_corpora

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("corpus", "description", "license", "folder"):
        table.add_column(title, overflow="fold")
    for corpus in list_corpora():
        table.add_row(corpus.name, corpus.description, corpus.license, corpus.found or "not downloaded")
    Console().print(table)
    print("\nDownload one: seq2see data get multi30k   (SEQ2SEE_DATA=FOLDER: use the files in this folder)")


@data.command("get")
def get(name: Annotated[str, typer.Argument(help="A corpus of the catalogue.")]) -> None:
    """Download a corpus, or find it on this machine, and verify it."""
    from seq2see.data.catalogue.corpus_files import get_corpus

    corpus_files = get_corpus(name, print)
    print(f"{name} is in {corpus_files.folder}")


@data.command("check")
def check(
    names: Annotated[list[str], typer.Argument(help="A corpus of the catalogue, or your own files.")],
    task: Annotated[str, typer.Option("--task", help="The task or recipe that the files are for, as in `train`.")] = "",
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", help="Columns of your table: --columns text=review label=sentiment."),
    ] = None,
) -> None:
    """Verify a corpus, or check your own files for errors; exit code 2 if there are any."""
    from seq2see.data.catalogue.entries import CATALOGUE

    roles = {each.partition("=")[0] for each in [*(columns or []), *names]}
    names, chosen = split_columns(names, columns or [])
    task = task or ("classify-text" if chosen and roles & {"text", "label"} else "")
    if len(names) == 1 and names[0] in CATALOGUE:
        _check_corpus(names[0])
    else:
        _check_files([Path(name) for name in names], task, chosen)


def split_columns(names: list[str], columns: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The files among these arguments, and the setting of the columns that `--columns` chooses.

    The shell gives the option only its first value: further ones, such as `label=sentiment`, stand among the files.
    """
    from seq2see.core.errors import UserError

    if not columns:
        return names, {}
    roles = {"text": 0, "source": 0, "label": 1, "target": 1}
    further = [name for name in names if name.partition("=")[0] in roles and "=" in name and not Path(name).exists()]
    chosen: dict[int, str] = {}
    for column in [*columns, *further]:
        role, _, name = column.partition("=")
        if role not in roles or not name or roles[role] in chosen:
            hint = "Write both once: --columns text=review label=sentiment (or source=... target=...)."
            raise UserError(f"'{column}' does not choose a column.", location="--columns", hint=hint)
        chosen[roles[role]] = name
    if len(chosen) < 2:
        hint = "Write both: --columns text=review label=sentiment (or source=... target=...)."
        raise UserError("Two columns are needed, and one is named.", location="--columns", hint=hint)
    return [name for name in names if name not in further], {"corpus.columns": (chosen[0], chosen[1])}


def _check_corpus(name: str) -> None:
    from seq2see.data.catalogue.corpus_files import check

    checks = check(name)
    for each in checks:
        print(f"{each.status:<10} {each.path}")
    if any(each.status == "mismatch" for each in checks):
        raise typer.Exit(2)


def _check_files(paths: list[Path], task: str, chosen: dict[str, Any]) -> None:
    from seq2see.core.errors import missing_file, printable
    from seq2see.data.readers.data_kinds import KIND_NAMES, guess_data_kind

    for path in paths:
        if not path.exists():
            raise missing_file(path)
    if task:
        from seq2see.recipes.registry import recipe
        from seq2see.tasks.task import task_of

        corpus: Any = task_of(recipe(task)).corpus(tuple(map(str, paths)))
    else:
        corpus = guess_data_kind(paths)
    corpus = corpus.with_(**{name.removeprefix("corpus."): value for name, value in chosen.items()})
    print(f"checked as {KIND_NAMES[corpus.kind]}{'' if task else ' (--task TASK checks them for another task)'}")
    reports = corpus.check()
    is_small = corpus.kind in ("texts", "series") and sum(path.stat().st_size for path in paths) < LARGE_ENOUGH
    if is_small and all(report.first_error is None for report in reports):
        _check_windows(corpus, task or "write", reports[0])
    for report in reports:
        print(printable("\n".join(report.to_lines())))
    if any(report.count_severity("error") for report in reports):
        raise typer.Exit(2)


def _check_windows(corpus: UserData, task: str, report: DataReport) -> None:
    """Report a text that is too short for the windows of a recipe: the error that training would raise."""
    from seq2see.data.hold_out import check_hold_out
    from seq2see.recipes.registry import resolve
    from seq2see.runs.prepare import prepare
    from seq2see.tasks.task import task_of

    recipe = resolve(task, corpus.paths, {})
    check = task_of(recipe).check_dataset
    check_hold_out(lambda: check(recipe, prepare(recipe, lambda text: None).train), report)
