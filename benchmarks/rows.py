"""Train and score any recipe, a process and a file for each run; then put the files together as a table.

python benchmarks/rows.py row g2p --seed 2 --out FOLDER                       train and score one run
python benchmarks/rows.py row g2p --set encoder.depth=1 --label "one layer" --out FOLDER
python benchmarks/rows.py score RUN RUN --out FOLDER                          score runs that are there
python benchmarks/rows.py table FOLDER --results benchmarks/results/g2p.json  all rows as one table

Any recipe goes that learns from texts, images or videos; its figures are those of `seq2see eval`, and of valid what
training watches.
Rows are independent of each other, so many can be made side by side (then with --shared, which leaves out how long
it took); a row that is there is not made again.
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


def row(asked: Row, out: Path, shared: bool) -> None:
    """Train and score one run, unless that was done before; on a shared device its seconds would tell nothing."""
    path = out / f"{asked.name}.json"
    if path.exists():
        print(f"{path} is there already; delete it to measure anew")
        return
    done = make_row(asked, out)
    if shared:
        del done.metrics["seconds"]
    print(f"{write_row(done, out)} {json.dumps(done.metrics)}")


def score(name: str, asked: argparse.Namespace, changes: dict[str, Any]) -> None:
    """Score a run that was made elsewhere; its folder tells its seed, its seconds and its machine."""
    run = find_run(name)
    recipe = run.recipe()
    row = Row(recipe.name, recipe.training.seed, asked.label, changes)
    done = score_row(row, run, {})
    if asked.shared:
        del done.metrics["seconds"]
    print(f"{write_row(done, asked.out)} {json.dumps(done.metrics)}")


def tabulate(folder: Path, results: Path) -> None:
    """All rows of a folder as one table, means and spreads over the seeds."""
    rows = read_rows(folder)
    command = "python benchmarks/rows.py"
    write_json(results, {"environment": environment_of(rows), "command": command, **metrics_table(rows)})
    print(f"{results}: {len(rows)} rows")


def parser(about: str) -> tuple[argparse.ArgumentParser, Any]:
    """What can be asked for, and where more verbs can be added."""
    root = argparse.ArgumentParser(description=about)
    verbs = root.add_subparsers(dest="verb", required=True)
    for verb, what in (("row", "a recipe"), ("score", "runs")):
        one = verbs.add_parser(verb)
        one.add_argument("name", help=what, **({"nargs": "+"} if verb == "score" else {}))
        one.add_argument("--set", action="append", default=[], help="a changed setting, as path=value")
        one.add_argument("--label", default="", help="what was changed, in words")
        if verb == "row":
            one.add_argument("--seed", type=int, default=1)
        one.add_argument("--shared", action="store_true", help="others run on this device: seconds are not told")
        one.add_argument("--out", type=Path, required=True, help="the folder of row files")
    table = verbs.add_parser("table")
    table.add_argument("folder", type=Path)
    table.add_argument("--results", type=Path, required=True)
    return root, verbs


def run_command(asked: argparse.Namespace) -> None:
    """Do what was asked for."""
    if asked.verb == "table":
        tabulate(asked.folder, asked.results)
        return
    changes: dict[str, Any] = dict(parse_assignment(text) for text in asked.set)
    if asked.verb == "row":
        row(Row(asked.name, asked.seed, asked.label, changes), asked.out, asked.shared)
    else:
        for name in asked.name:
            score(name, asked, changes)


def run_command_or_collect(
    about: str, gather: Callable[[Path, Path], None], results: Path, words: Sequence[str] | None
) -> None:
    """The command line of a script that puts the rows of a folder together in a way of its own: `collect`."""
    root, verbs = parser(about.split("\n")[0])
    both = verbs.add_parser("collect")
    both.add_argument("folder", type=Path)
    both.add_argument("--results", type=Path, default=results)
    asked = root.parse_args(words)
    if asked.verb == "collect":
        gather(asked.folder, asked.results)
    else:
        run_command(asked)


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    run_command(parser((__doc__ or "").split("\n")[0])[0].parse_args(words))


if __name__ == "__main__":
    main()
