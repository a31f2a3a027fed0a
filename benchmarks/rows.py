"""Train and score any recipe, with one process and one file per run; then combine the files into a table.

python benchmarks/rows.py row g2p --seed 2 --out FOLDER                       train and score one run
python benchmarks/rows.py row g2p --set encoder.depth=1 --label "one layer" --out FOLDER
python benchmarks/rows.py score RUN RUN --out FOLDER                          score existing runs
python benchmarks/rows.py table FOLDER --results benchmarks/results/g2p.json  all rows as one table

Any recipe for texts, images or videos works; the metrics of test are those of `seq2see eval`, and those of valid are
the validation metrics of training. Rows are independent of each other, so many can be measured concurrently (with
--shared, which leaves out the training time); an existing row is not measured again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from collect_rows import environment_of, metrics_table
from row_files import Row, make_row, read_rows, score_row, write_row

from seq2see.core.files import write_json
from seq2see.core.settings import parse_assignment
from seq2see.runs.run_folder import find_run


def row(request: Row, out: Path, shared: bool) -> None:
    """Train and score one run, unless its row exists; on a shared device its training time is left out."""
    path = out / f"{request.name}.json"
    if path.exists():
        print(f"{path} exists already; delete it to measure again")
        return
    completed = make_row(request, out)
    if shared:
        del completed.metrics["seconds"]
    print(f"{write_row(completed, out)} {json.dumps(completed.metrics)}")


def score(name: str, arguments: argparse.Namespace, changes: dict[str, Any]) -> None:
    """Score an existing run; its seed, its training time and its machine are read from its folder."""
    run = find_run(name)
    recipe = run.recipe()
    request = Row(recipe.name, recipe.training.seed, arguments.label, changes)
    completed = score_row(request, run, {})
    if arguments.shared:
        del completed.metrics["seconds"]
    print(f"{write_row(completed, arguments.out)} {json.dumps(completed.metrics)}")


def tabulate(folder: Path, results: Path) -> None:
    """All rows of a folder as one table, with means and standard deviations over the seeds."""
    rows = read_rows(folder)
    command = "python benchmarks/rows.py"
    write_json(results, {"environment": environment_of(rows), "command": command, **metrics_table(rows)})
    print(f"{results}: {len(rows)} rows")


def parser(description: str) -> tuple[argparse.ArgumentParser, Any]:
    """The parser of the command line, and its commands, to which others can be added."""
    root = argparse.ArgumentParser(description=description)
    commands = root.add_subparsers(dest="command", required=True)
    for command, name_help in (("row", "a recipe"), ("score", "runs")):
        subparser = commands.add_parser(command)
        subparser.add_argument("name", help=name_help, **({"nargs": "+"} if command == "score" else {}))
        subparser.add_argument("--set", action="append", default=[], help="a changed setting, as path=value")
        subparser.add_argument("--label", default="", help="the change in words")
        if command == "row":
            subparser.add_argument("--seed", type=int, default=1)
        shared_help = "other programs use this device: the training time is left out"
        subparser.add_argument("--shared", action="store_true", help=shared_help)
        subparser.add_argument("--out", type=Path, required=True, help="the folder of row files")
    table = commands.add_parser("table")
    table.add_argument("folder", type=Path)
    table.add_argument("--results", type=Path, required=True)
    return root, commands


def run_command(arguments: argparse.Namespace) -> None:
    """Run the command of the command line."""
    if arguments.command == "table":
        tabulate(arguments.folder, arguments.results)
        return
    changes: dict[str, Any] = dict(parse_assignment(text) for text in arguments.set)
    if arguments.command == "row":
        row(Row(arguments.name, arguments.seed, arguments.label, changes), arguments.out, arguments.shared)
    else:
        for name in arguments.name:
            score(name, arguments, changes)


def run_command_or_collect(
    description: str, gather: Callable[[Path, Path], None], results: Path, arguments: Sequence[str] | None
) -> None:
    """The command line of a script with its own `collect` command, which combines the rows of a folder."""
    root, commands = parser(description.split("\n")[0])
    collect = commands.add_parser("collect")
    collect.add_argument("folder", type=Path)
    collect.add_argument("--results", type=Path, default=results)
    parsed = root.parse_args(arguments)
    if parsed.command == "collect":
        gather(parsed.folder, parsed.results)
    else:
        run_command(parsed)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    run_command(parser((__doc__ or "").split("\n")[0])[0].parse_args(arguments))


if __name__ == "__main__":
    main()
