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
from seq2see.runs.report_examples import classes, mistakes, predictions, samples, token_loss_section
from seq2see.runs.report_images import attention_images, image_with_note
from seq2see.runs.report_ngrams import frequencies, is_ngram_model, orders, unit_of
from seq2see.runs.report_page import bilingual, cell, head, image, page, table
from seq2see.runs.report_series import forecast_errors, forecasts
from seq2see.runs.report_strings import TEXTS
from seq2see.runs.run_folder import RunFolder, read_scores
from seq2see.training.metrics_logger import read_metrics

Tree = dict[str, Any]

TEACHER_FORCED = (
    ("bits", "bits_per_character", 3),
    ("token_accuracy", "token_accuracy", 1),
)
ENCODER_SCORES = (
    ("masked_accuracy", "masked_tokens", "accuracy", 1),
    ("masked_perplexity", "masked_tokens", "perplexity", 3),
    ("next_sentence_accuracy", "next_sentence", "accuracy", 1),
)
"""Scores with teacher forcing, and of encoder-only models: key of the text, keys in `scores.json`, digits."""

PRONUNCIATION = (
    "word_error_rate",
    "phoneme_error_rate",
    "word_error_rate_with_stress",
    "phoneme_error_rate_with_stress",
)
"""Error rates of grapheme-to-phoneme conversion; the keys are those of `scores.json` and of the texts."""


def write_report(run: RunFolder) -> Path:
    """Draw the training curves and write the page; scores are included after `eval`."""
    metrics, timing = read_metrics(run.metrics), read_metrics(run.path / "timing.jsonl")
    toml = run.recipe_file.read_text(encoding="utf-8")
    recipe, scores = tomllib.loads(toml), read_scores(run)
    _draw(recipe, metrics, timing, run.path / "curves.png")
    environment = _read_json(run.path / "env.json")
    sections = {
        "this_run": _headline(metrics, timing, scores) + _describe(run, recipe, metrics, environment),
        "curves": image(run.path / "curves.png", TEXTS["curves"]) + (orders(recipe, metrics) or _note("curves_note")),
        "zipf": frequencies(run),
        "scores": _scores(scores) if scores else _advice(run),
        "batch": image_with_note(run.samples / "batch.png", "batch"),
        "samples": samples(run.samples),
        "predictions": predictions(run.evaluation / "test.tsv"),
        "confusion": image_with_note(run.evaluation / "confusion.png", "confusion"),
        "confused": image_with_note(run.evaluation / "confused.png", "confused"),
        "mistakes": image_with_note(run.evaluation / "mistakes.png", "worst_images")
        or mistakes(run.evaluation / "test-predictions.tsv"),
        "token_losses": token_loss_section(
            run.evaluation / "token_losses.json",
            "token_losses_note" if "source" in recipe else "generated_token_losses_note",
        ),
        "forecasts": forecasts(run),
        "attention": attention_images(run),
        "recipe": f"<details><summary>{bilingual('recipe_note')}</summary><pre>{escape(toml)}</pre></details>",
        "environment": _pairs(
            [(escape(key), escape(_plain(value))) for key, value in environment.items() if key != "command"]
        ),
    }
    path = run.path / "report.html"
    write_text(path, page(recipe["name"], sections))
    return path


def _draw(recipe: Tree, metrics: list[Tree], timing: list[Tree], path: Path) -> None:
    from seq2see.inspection.result_plots import (
        draw_curves,
        draw_orders,  # matplotlib only where it is used
    )

    if is_ngram_model(recipe):
        draw_orders(metrics, unit_of(recipe), path)
    else:
        unit = "tokens" if "token" in recipe.get("objective", {}).get("kind", "next-token") else "predictions"
        draw_curves(metrics, timing, path, recipe["training"].get("max_grad_norm", 0.0), unit)


def _headline(metrics: list[Tree], timing: list[Tree], scores: Tree) -> str:
    """The most important scores."""
    test = scores.get("test", {})
    tiles = [(test[key]["name"], f"{test[key]['value']:.1f}") for key in ("bleu", "chrf") if key in test]
    tiles += [(bilingual(f"test_{key}"), f"{test[key]:.1f}") for key in ("accuracy", "macro_f1") if key in test]
    if "exact_match" in test:
        tiles.append((bilingual("exact_match"), f"{test['exact_match']:.1f}"))
    if "pronunciation" in test:
        tiles += [(bilingual(name), f"{test['pronunciation'][name]:.1f}") for name in PRONUNCIATION[:2]]
    if "alignment" in scores:
        tiles.append((bilingual("error_rate"), f"{scores['alignment']['error_rate']:.3f}"))
    losses = [row["valid_loss"] for row in metrics if "valid_loss" in row]
    accuracies = [row["valid_accuracy"] for row in metrics if "valid_accuracy" in row]
    if losses:
        tiles.append((bilingual("best_loss"), f"{min(losses):.4f}"))
    if accuracies:
        tiles.append((bilingual("accuracy"), f"{accuracies[-1]:.1%}"))
    tiles.append((bilingual("steps"), f"{_last_step(metrics):,}"))
    if timing:
        tiles.append((bilingual("time"), _clock(sum(row["seconds"] for row in timing))))
    boxes = "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in tiles)
    return f'<div class="tiles">{boxes}</div>'


def _describe(run: RunFolder, recipe: Tree, metrics: list[Tree], environment: Tree) -> str:
    """Data, model and training settings, and the commands to train again and to predict."""
    training, folder = recipe.get("training", {}), shlex.quote(str(run.path))
    if is_ngram_model(recipe):
        description = bilingual("counted", orders=str(_last_step(metrics)))
    else:
        steps = f"{_last_step(metrics):,} / {training['steps']:,}"
        description = f"{bilingual('steps')} {steps}; {escape(_words(training, without=('steps',)))}"
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
    warning = "" if run.finished else f"<p><mark>{bilingual('unfinished')}</mark></p>"
    return warning + _pairs([(bilingual(name), text) for name, text in rows if text])


def _scores(scores: Tree) -> str:
    """A row for each test split, then the scores with teacher forcing."""
    evaluated = {name: part for name, part in scores.items() if "classes" in part}
    if evaluated:
        return "".join(classes(name, part) for name, part in evaluated.items())
    splits = {name: part for name, part in scores.items() if "pairs" in part}
    titles = {"bleu": "BLEU", "bleu-tokenized": bilingual("bleu_tokenized"), "chrf": "chrF2"}
    titles |= {"exact_match": bilingual("exact_match"), "d2l-bleu": bilingual("d2l_bleu")}
    shown = [key for key in titles if any(key in part for part in splits.values())]
    rows = [
        [head(bilingual("split")), head(bilingual("pairs"), "number"), *(head(titles[key], "number") for key in shown)]
    ]
    for name, part in splits.items():
        row = [_number(part.get(key), 3 if key == "d2l-bleu" else 1) for key in shown]
        rows.append([cell(escape(name)), _number(part["pairs"], 0), *row])
    signed = [part[key] for part in splits.values() for key in shown if isinstance(part.get(key), dict)]
    signatures = {score["signature"] for score in signed}
    listed = "<br>".join(_code(signature) for signature in sorted(signatures))
    signature_note = f'<p class="note">{bilingual("signatures")}:<br>{listed}</p>' if signatures else ""
    return (
        forecast_errors(scores)
        + (table(rows) if splits else "")
        + _pronunciation(splits)
        + signature_note
        + _teacher_forced_table(scores)
    )


def _pronunciation(splits: Tree) -> str:
    """A row for each split with pronunciation scores."""
    evaluated = {name: part["pronunciation"] for name, part in splits.items() if "pronunciation" in part}
    rows = [[head(bilingual("split")), *(head(bilingual(name), "number") for name in PRONUNCIATION)]]
    for name, errors in evaluated.items():
        rows.append([cell(escape(name)), *(_number(errors[key]) for key in PRONUNCIATION)])
    return table(rows) if evaluated else ""


def _teacher_forced_table(scores: Tree) -> str:
    measured, rows = scores.get("perplexity", {}), []
    if "per_token" in measured:
        name = bilingual(f"perplexity_{measured.get('unit', 'token')}", split=measured.get("split", "test"))
        rows.append((name, f"{measured['per_token']:.3f}"))
    for name, key, digits in TEACHER_FORCED:
        if measured.get(key) is not None:
            rows.append((bilingual(name), f"{measured[key]:.{digits}f}"))
    if measured.get("unknown_rate"):
        rows.append((bilingual("unknown_rate"), f"{measured['unknown_rate']:.2g}"))
    for name, part, key, digits in ENCODER_SCORES:
        if part in scores:
            rows.append((bilingual(name), f"{scores[part][key]:.{digits}f}"))
    if "alignment" in scores:
        selection = scores["alignment"]["selected_on_valid"]
        heads = ", ".join(str(number + 1) for number in selection["heads"])
        selected = bilingual("heads", layer=str(selection["layer"] + 1), heads=heads)
        rows.append((bilingual("error_rate"), f"{scores['alignment']['error_rate']:.3f} ({selected})"))
    return _pairs(rows)


def _advice(run: RunFolder) -> str:
    return f"<p>{bilingual('no_scores')} {_code(f'seq2see eval {shlex.quote(str(run.path))}')}</p>"


def _note(name: str) -> str:
    return f'<p class="note">{bilingual(name)}</p>'


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>" if text else ""


def _pairs(rows: list[tuple[str, str]]) -> str:
    """A table of names and values, both already HTML."""
    return table([[head(name, "name"), cell(text)] for name, text in rows]) if rows else ""


def _number(value: Any, digits: int = 1) -> str:
    """A number as a table cell."""
    number = value["value"] if isinstance(value, dict) else value
    return cell("" if number is None else f"{number:,.{digits}f}", "number")


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
