"""`seq2see data`: the catalogue of real corpora, and a check of your own files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from seq2see.sources.data_kinds import UserData
    from seq2see.sources.data_report import DataReport

ROOM_FOR_ALL = 1_000_000
"""Bytes that are enough for the windows of any recipe."""

data = typer.Typer(help="Real corpora: list, get or check them; or check your own files.", no_args_is_help=True)


@data.command("list")
def list_() -> None:
    """List the corpora of the catalogue."""
    from rich.console import Console
    from rich.table import Table

    from seq2see.sources.catalogue import list_corpora

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("corpus", "description", "license", "found in"):
        table.add_column(title, overflow="fold")
    for corpus in list_corpora():
        table.add_row(corpus.name, corpus.description, corpus.license, corpus.found or "not here yet")
    Console().print(table)
    print("\nGet one: seq2see data get multi30k   (SEQ2SEE_DATA=FOLDER reads them from a folder of yours)")


@data.command("get")
def get(name: Annotated[str, typer.Argument(help="A corpus of the catalogue.")]) -> None:
    """Download a corpus, or find it on this machine, and verify it."""
    from seq2see.sources.catalogue import get_corpus

    corpus_files = get_corpus(name, print)
    print(f"{name} is in {corpus_files.folder}")


@data.command("check")
def check(
    what: Annotated[list[str], typer.Argument(help="A corpus of the catalogue, or your own file(s).")],
    task: Annotated[str, typer.Option("--task", help="The task or recipe the files are for, as `train` has it.")] = "",
) -> None:
    """Verify a corpus, or look for faults in your own files; exit code 2 if there are any."""
    from seq2see.sources.catalogue import CATALOGUE

    if len(what) == 1 and what[0] in CATALOGUE:
        _check_corpus(what[0])
    else:
        _check_files([Path(name) for name in what], task)


def _check_corpus(name: str) -> None:
    from seq2see.sources.catalogue import check

    checks = check(name)
    for each in checks:
        print(f"{each.status:<10} {each.path}")
    if any(each.status == "mismatch" for each in checks):
        raise typer.Exit(2)


def _check_files(paths: list[Path], task: str) -> None:
    from seq2see.core.errors import missing_file
    from seq2see.sources.data_kinds import KIND_NAMES, guess_data_kind

    for path in paths:
        if not path.exists():
            raise missing_file(path)
    if task:
        from seq2see.api import recipe, user_data

        corpus = user_data(recipe(task), tuple(map(str, paths)))
    else:
        corpus = guess_data_kind(paths)
    print(f"checked as {KIND_NAMES[corpus.kind]}{'' if task else ' (--task TASK: as another task reads it)'}")
    reports = corpus.check()
    short = corpus.kind in ("texts", "series") and sum(path.stat().st_size for path in paths) < ROOM_FOR_ALL
    if short and all(report.first_error is None for report in reports):
        _try_windows(corpus, task or "write", reports[0])
    for report in reports:
        print("\n".join(report.to_lines()))
    if any(report.count_severity("error") for report in reports):
        raise typer.Exit(2)


def _try_windows(corpus: UserData, task: str, report: DataReport) -> None:
    """Tell what is too short for the windows that a recipe reads, as its training would."""
    from seq2see.api import resolve
    from seq2see.runs.prepare import prepare
    from seq2see.runs.train import check_length
    from seq2see.sources.hold_out import check_hold_out

    recipe = resolve(task, corpus.paths, {})
    check_hold_out(lambda: check_length(recipe, prepare(recipe, lambda said: None)), report)
