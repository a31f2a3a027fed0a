"""How far a reader walks: the files and functions that a command runs, and the jumps between files.

    python benchmarks/walk.py                            a minute: measure this source tree, and print the table
    python benchmarks/walk.py --label after              measure it, and store it as the column "after"
    python benchmarks/walk.py --label plain              the same by the definitions alone (SEQ2SEE_PLAIN=1)
    python benchmarks/walk.py --label before --source DIR    measure another checkout, which may be older
    python benchmarks/walk.py --names                    print the names of the functions, too

Each command runs on tiny settings in a fresh process (`called_functions.py` says what counts as a function). A jump is
a pair of functions in different files of which one calls the other; a pair counts once, however often it is called.

One optimizer step is everything that runs from one call of `Trainer.enqueue` to the next, in the middle of a training
and without an evaluation: the step itself, its metrics, and the batch of the next step.

The second table counts the Python files, and the groups of modules that import each other in a circle
(`import_graph.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from called_functions import STEP_FUNCTION
from import_graph import import_cycles, import_graph

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "walk.json"
LABELS = ("before", "after", "plain")
SMALL = {"training.steps": 6, "training.evaluate_every": 6, "encoder.width": 16}
TRANSLATE = SMALL | {"decoder.width": 16, "training.batch_tokens": 16}  # several batches in an epoch
SHAPES = SMALL | {"corpus.size": 256}
STEP_ROW = "one optimizer step of `train translate`"
COLORS = {"红": "red", "黑": "black", "白": "white", "绿": "green", "大": "big", "小": "small"}
ANIMALS = {"猫": "cat", "狗": "dog", "鸟": "bird", "鱼": "fish", "马": "horse", "牛": "cow", "羊": "sheep"}

Tree = dict[str, Any]


def settings(values: dict[str, int]) -> list[str]:
    """Settings as options of the command line."""
    return [word for path, value in values.items() for word in ("--set", f"{path}={value}")]


COMMANDS = {
    "train translate": ["train", "translate", "pairs.tsv", "--out", "translate", *settings(TRANSLATE)],
    "predict": ["predict", "translate", "红猫"],
    "eval": ["eval", "translate"],
    "train classify-image": ["train", "classify-image", "--out", "shapes", *settings(SHAPES)],
}
"""The measured commands; the second and the third use the run of the first."""


def record(source: Path, arguments: list[str], folder: Path, package: str = "seq2see") -> Tree:
    """Run a command of a source tree in a fresh process and a working folder; returns the calls that it recorded."""
    environment = os.environ | {"PYTHONPATH": str((source / "src").resolve())}
    program = Path(__file__).with_name("called_functions.py")
    path = folder / "calls.json"
    command = [sys.executable, str(program), str(path), package, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed with code {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(path.read_text(encoding="utf-8"))


def measure_commands(source: Path) -> dict[str, Tree]:
    """The calls of each command and of one optimizer step, by the title of the row."""
    calls: dict[str, Tree] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        pairs = (f"{c}{a}\tthe {color} {animal}\n" for c, color in COLORS.items() for a, animal in ANIMALS.items())
        (folder / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
        for title, arguments in COMMANDS.items():
            if title == "predict":  # the first prediction on a machine compiles C++ code, and later ones load it
                record(source, arguments, folder)
            recorded = record(source, arguments, folder)
            calls[f"`{title}`"] = recorded["all"]
            if title == "train translate":
                calls[STEP_ROW] = recorded["step"]
    if not calls[STEP_ROW]["functions"]:
        raise SystemExit(f"The training did not call {STEP_FUNCTION}; correct its name in called_functions.py.")
    return calls


def count(calls: Tree) -> dict[str, int]:
    """The numbers of files, functions and jumps."""
    files = {file for file, _ in calls["functions"]}
    return {"files": len(files), "functions": len(calls["functions"]), "jumps": len(calls["jumps"])}


def measure_source(source: Path) -> dict[str, int]:
    """The number of Python files, and of import cycles without and with the imports for annotations."""
    (package,) = (path.parent for path in (source / "src").glob("*/__init__.py"))
    return {
        "Python files": len(list(package.rglob("*.py"))),
        "import cycles": len(import_cycles(import_graph(package, with_annotations=False))),
        "import cycles, `TYPE_CHECKING` counted": len(import_cycles(import_graph(package, with_annotations=True))),
    }


def tables(measured: dict[str, Tree]) -> dict[str, Tree]:
    """Both tables of the page: a row for each command, and one for each fact of the source; a column for each label."""
    labels = [label for label in LABELS if label in measured]
    sources = [label for label in labels if measured[label]["source"]]
    titles = dict.fromkeys(title for label in labels for title in measured[label]["commands"])
    facts = dict.fromkeys(fact for label in labels for fact in measured[label]["source"])
    commands = [
        {"command": title}
        | {
            f"{unit} {label}": number
            for unit in ("files", "functions", "jumps")
            for label in labels
            for number in [measured[label]["commands"].get(title, {}).get(unit)]
        }
        for title in titles
    ]
    source = [{"count": fact} | {label: measured[label]["source"].get(fact) for label in sources} for fact in facts]
    return {"commands": {"rows": commands}, "source": {"rows": source}}


def store(label: str, results: Tree, path: Path) -> None:
    """Store the results of one label beside those of the other, and the tables of both."""
    from seq2see.core.devices import describe_machine
    from seq2see.core.files import write_json

    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"measured": {}}
    measured = stored["measured"] | {label: results}
    head = {"environment": describe_machine(), "command": "python benchmarks/walk.py --label LABEL"}
    write_json(path, {**head, "tables": tables(measured), "measured": measured})


def print_table(rows: list[Tree]) -> None:
    """Print rows with aligned columns."""
    if not rows:
        return
    lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def main(arguments: list[str]) -> None:
    """Measure a source tree, print the tables, and store them under a label."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout to measure")
    parser.add_argument("--label", choices=LABELS, help="store the results in this column")
    parser.add_argument("--names", action="store_true", help="print every file, function and jump")
    chosen = parser.parse_args(arguments)
    if chosen.label == "plain":
        os.environ["SEQ2SEE_PLAIN"] = "1"
    calls = measure_commands(chosen.source)
    results = {
        "commands": {title: count(each) for title, each in calls.items()},
        "source": {} if chosen.label == "plain" else measure_source(chosen.source),
    }
    if chosen.names:
        for title, each in calls.items():
            print(title, *(f"  {file} {name}" for file, name in each["functions"]), sep="\n")
            print(*(f"  {' '.join(caller)} -> {' '.join(function)}" for caller, function in each["jumps"]), sep="\n")
    for table in tables({chosen.label or "after": results}).values():
        print_table(table["rows"])
    if chosen.label:
        store(chosen.label, results, RESULTS)


if __name__ == "__main__":
    main(sys.argv[1:])
