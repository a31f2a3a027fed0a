"""`seq2see lab`: every claim of the course notes as an experiment that prints a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from seq2see.labs.claims import Claim

ALL = "all"


def lab(
    claim: Annotated[
        str, typer.Argument(help="A claim by id or name, or all; without one, the claims are listed.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", help="The folder of the results; default: runs/labs.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure again, although there is a stored result.")] = False,
    language: Annotated[str, typer.Option("--language", help="en or zh.")] = "en",
) -> None:
    """Test a claim of the course notes: prediction, interval, verdict, and a plot."""
    from seq2see.core.errors import unknown_name
    from seq2see.labs.claims import CLAIMS, EXPERIMENTS, find_claim
    from seq2see.labs.results import RESULTS, claim_lines, untested_line

    languages = ("en", "zh")
    if language not in languages:
        raise unknown_name("language", language, languages)
    index, folder = languages.index(language), out or RESULTS
    if not claim:
        _list(folder, index)
        return
    if claim != ALL:
        found = find_claim(claim)
        print("\n".join(claim_lines(found, index)))
        if found.id not in EXPERIMENTS:
            print(untested_line(found, index))
        else:
            _show(found, folder, again, index)
        return
    for each in CLAIMS:
        if each.id in EXPERIMENTS:
            print("\n".join(claim_lines(each, index)))
            _show(each, folder, again, index)
            print(flush=True)


def _list(folder: Path, language: int) -> None:
    """The table of all claims with the verdicts that are stored; it does not import torch."""
    from rich.console import Console
    from rich.table import Table

    from seq2see.labs.claims import CLAIMS
    from seq2see.labs.results import read_result, state_of

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in (("id", "name", "claim", "verdict"), ("编号", "名称", "论断", "结论"))[language]:
        table.add_column(title, overflow="fold")
    for claim in CLAIMS:
        text = (claim.english, claim.quote)[language]
        table.add_row(claim.id, claim.name, text, state_of(claim, read_result(folder, claim), language))
    Console().print(table)


def _show(claim: Claim, folder: Path, again: bool, language: int) -> None:
    """Print the prediction, measure unless there is a stored result, and print the verdict."""
    from seq2see.core.files import write_json
    from seq2see.data.progress import progress_bar
    from seq2see.labs.experiment import run_experiment
    from seq2see.labs.registry import experiment_of
    from seq2see.labs.result_plot import draw_result
    from seq2see.labs.results import read_result, result_file, result_lines

    experiment = experiment_of(claim)
    labels = (
        ("prediction, written before the run", "what would change the verdict", "plot", "stored result"),
        ("运行前写下的预测", "什么会改变结论", "图片", "已存结果"),
    )[language]
    print(f"{labels[0]}: {experiment.prediction[language]}", flush=True)
    path = result_file(folder, claim)
    result = None if again else read_result(folder, claim)
    if result is not None and result["registration"] == experiment.registration_hash():
        print(f"{labels[3]}: {path}")
    else:
        with progress_bar(claim.id, experiment.seeds) as on_seed:
            result = run_experiment(experiment, experiment.size, experiment.seeds, on_seed)
        write_json(path, result)
    print("\n".join(result_lines(result, language)))
    print(f"{labels[1]}: {experiment.would_change[language]}")
    plot = path.with_suffix(".png")
    if not plot.exists() or plot.stat().st_mtime < path.stat().st_mtime:
        draw_result(claim, result, experiment.axes, plot)
    print(f"{labels[2]}: {plot}")
