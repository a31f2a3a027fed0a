"""The report of a run: `curves.png` and `report.html`, from the files that the run folder has so far."""

from __future__ import annotations

import json
import math
import shlex
import tomllib
from html import escape
from pathlib import Path
from typing import Any

from seq2see.core.files import write_text
from seq2see.runs.report_page import bilingual, cell, draw_section, head, page, samples, table
from seq2see.runs.run_folder import RunFolder, read_rows, read_scores
from seq2see.tasks.registry import task_named
from seq2see.tasks.report_parts import ReportFigure, ReportSection, RunResults, note, section, words
from seq2see.tasks.task import Task
from seq2see.training.metrics_logger import read_metrics

Tree = dict[str, Any]

NOT_DOCUMENTS = ("env", "splits", "data_report", "scores")
"""The JSON files of a run that are no documents of its task."""


def write_report(run: RunFolder) -> Path:
    """Draw the training curves and write the page; scores are included after `eval`."""
    toml = run.recipe_file.read_text(encoding="utf-8")
    recipe = tomllib.loads(toml)
    results, task = results_of(run, recipe), task_named(str(recipe.get("task")), str(run.recipe_file))
    environment = _read_json(run.path / "env.json")
    about = _headline(task, results) + _describe(run, recipe, results.metrics, environment)
    settings = f"<details><summary>{bilingual(words('recipe_note'))}</summary><pre>{escape(toml)}</pre></details>"
    machine = _pairs([(escape(key), escape(_plain(value))) for key, value in environment.items() if key != "command"])
    sections = task.sections(results)
    first = [each.name for each in sections].index("scores") + 1
    contents = {
        "this_run": (words("this_run"), about),
        "curves": (words("curves"), draw_section(run.path, task.curves(results))),
        **{each.name: (each.title, draw_section(run.path, each.parts)) for each in sections[:first]},
        "batch": (words("batch"), draw_section(run.path, _batch(results).parts)),
        "samples": (words("samples"), samples(run.samples)),
        **{each.name: (each.title, draw_section(run.path, each.parts)) for each in sections[first:]},
        "recipe": (words("recipe"), settings),
        "environment": (words("environment"), machine),
    }
    if not results.scores:
        contents["scores"] = (words("scores"), _advice(run))
    path = run.path / "report.html"
    write_text(path, page(recipe["name"], contents))
    return path


def results_of(run: RunFolder, recipe: Tree) -> RunResults:
    """What a run has so far."""
    documents = [path for folder in (run.path, run.evaluation) for path in sorted(folder.glob("*.json"))]
    return RunResults(
        recipe,
        read_metrics(run.metrics),
        read_metrics(run.path / "timing.jsonl"),
        read_scores(run),
        {path.stem: read_rows(path) for path in sorted(run.evaluation.glob("*.tsv"))},
        {path.stem: _read_json(path) for path in documents if path.stem not in NOT_DOCUMENTS},
        {path.relative_to(run.path).as_posix() for path in sorted(run.path.glob("*/*.png"))},
    )


def _batch(results: RunResults) -> ReportSection:
    """The images of the first step."""
    if "samples/batch.png" not in results.figures:
        return section("batch")
    return section("batch", ReportFigure("samples/batch.png", words("batch")), note("batch_note"))


def _headline(task: Task, results: RunResults) -> str:
    """The most important scores."""
    metrics, timing, tiles = results.metrics, results.timing, task.tiles(results.scores)
    losses = [row["valid_loss"] for row in metrics if "valid_loss" in row]
    accuracies = [row["valid_accuracy"] for row in metrics if "valid_accuracy" in row]
    if losses:
        tiles.append((words("best_loss"), f"{min(losses):.4f}"))
    if accuracies:
        tiles.append((words("accuracy"), f"{accuracies[-1]:.1%}"))
    tiles.append((words("steps"), f"{_last_step(metrics):,}"))
    if timing:
        tiles.append((words("time"), _clock(sum(row["seconds"] for row in timing))))
    boxes = "".join(f'<div class="tile"><b>{value}</b><span>{bilingual(name)}</span></div>' for name, value in tiles)
    return f'<div class="tiles">{boxes}</div>'


def _describe(run: RunFolder, recipe: Tree, metrics: list[Tree], environment: Tree) -> str:
    """Data, model and training settings, and the commands to train again and to predict."""
    training, folder = recipe.get("training", {}), shlex.quote(str(run.path))
    if not training:  # a model that is counted
        description = bilingual(words("counted", orders=str(_last_step(metrics))))
    else:
        steps = f"{_last_step(metrics):,} / {training['steps']:,}"
        description = f"{bilingual(words('steps'))} {steps}; {escape(_words(training, without=('steps',)))}"
    tokenizers = [recipe[side]["tokenizer"] for side in ("source", "target") if "tokenizer" in recipe.get(side, {})]
    kind = recipe["corpus"]["kind"]
    read_key = "read_lines" if "texts" in kind else "read_images" if "images" in kind else "read"
    rows = [
        ("data", escape(_words(recipe["corpus"]))),
        (read_key, escape(_data_totals(run))),
        ("tokens", escape(" → ".join(map(_words, tokenizers)))),
        *((part, escape(_words(recipe[part])) if part in recipe else "") for part in ("encoder", "decoder")),
        ("weights", _weights(run.model)),
        ("training", description),
        ("command", _code(_command(environment.get("command", [])))),
        ("again", _code(f"seq2see train {shlex.quote(str(run.recipe_file))}")),
        ("use", _code(f"seq2see predict {folder}") if run.finished else ""),
    ]  # fmt: skip
    warning = "" if run.finished else f"<p><mark>{bilingual(words('unfinished'))}</mark></p>"
    return warning + _pairs([(bilingual(words(name)), text) for name, text in rows if text])


def _advice(run: RunFolder) -> str:
    return f"<p>{bilingual(words('no_scores'))} {_code(f'seq2see eval {shlex.quote(str(run.path))}')}</p>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>" if text else ""


def _pairs(rows: list[tuple[str, str]]) -> str:
    """A table of names and values, both already HTML."""
    return table([[head(name, "name"), cell(text)] for name, text in rows]) if rows else ""


def _words(tree: Tree, without: tuple[str, ...] = ()) -> str:
    """A subtree of the recipe on one line: its kind, then its settings.

    >>> _words({"kind": "transformer", "width": 128, "test": [], "optimizer": {"kind": "adamw", "weight_decay": 0.01}})
    'transformer, width 128, optimizer adamw (weight_decay 0.01)'
    """
    parts = [str(tree["kind"])] if "kind" in tree else []
    for name, value in tree.items():
        if name == "kind" or name in without or value == []:
            continue
        if isinstance(value, dict):
            inner = _words(value)
            head, _, rest = inner.partition(", ")
            parts.append(f"{name} {head} ({rest})" if rest else f"{name} {head}")
        else:
            parts.append(f"{name} {_plain(value)}")
    return ", ".join(parts)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def _command(words: list[str]) -> str:
    """The command line, with the program by its name instead of its path."""
    return shlex.join([Path(words[0]).name, *words[1:]]) if words else ""


def _data_totals(run: RunFolder) -> str:
    """The totals of the data reports of user files."""
    reports = _read_json(run.path / "data_report.json").get("reports", [])
    template = "{read:,} = {kept:,} + {skipped:,} + {rejected:,}"
    return "; ".join(template.format(**report["totals"]) for report in reports)


def _weights(folder: Path) -> str:
    """The number of weights of the stored model, from the headers of its files, without reading tensors."""
    sizes = []
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            entries = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        sizes += [math.prod(entry["shape"]) for name, entry in entries.items() if name != "__metadata__"]
    return f"{sum(sizes):,}" if sizes else ""


def _last_step(metrics: list[Tree]) -> int:
    return max((int(row["step"]) for row in metrics), default=0)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def _read_json(path: Path) -> Tree:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
