"""The tables of scores in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from seq2see.runs.compare import ChangedSentence, ComparedAnswers

COLUMNS = {
    "bleu": ("BLEU", 1),
    "bleu-tokenized": ("BLEU lower-cased, tokenized", 1),
    "chrf": ("chrF2", 1),
    "exact_match": ("exact match %", 1),
    "d2l-bleu": ("BLEU of d2l", 3),
}
"""The title and the number of digits of each metric; a metric that is not computed has no column."""


def print_wrapped(text: str) -> None:
    """Print a text wrapped at 80 columns; signatures are not broken, so that they can be copied."""
    print(textwrap.fill(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def print_scores(run: object, scores: dict[str, Any]) -> None:
    """Print the scores of an evaluation, and its files."""
    if any("pairs" in part or name == "perplexity" for name, part in scores.items()):
        _print_generation_scores(scores)
    else:
        _print_encoder_scores(scores)
    for warning in scores.get("changed_splits", ()):
        print(f"note   {warning}")
    print(f"files  {run}/eval, {run}/report.html")


def _print_encoder_scores(scores: dict[str, Any]) -> None:
    """Print the scores of an encoder-only or forecasting model."""
    for name, part in scores.items():
        if "classes" in part:
            _print_classes(name, part)
    if "image" in scores:
        print(f"image size {scores['image']['size']} x {scores['image']['size']} pixels")
    if "series" in scores:
        _print_series(scores["series"])
    if "masked_tokens" in scores:
        masked = scores["masked_tokens"]
        print_wrapped(
            f"masked tokens (test): accuracy {masked['accuracy']:.1f} % of {masked['tokens']:,}, "
            f"perplexity {masked['perplexity']:.3f}"
        )
    if "next_sentence" in scores:
        pairs = scores["next_sentence"]
        print(f"next sentence prediction (test): accuracy {pairs['accuracy']:.1f} % of {pairs['examples']:,} pairs")


def _print_generation_scores(scores: dict[str, Any]) -> None:
    """Print a row for each test split, and the scores with teacher forcing."""
    splits = {name: part for name, part in scores.items() if "pairs" in part}
    columns = {key: column for key, column in COLUMNS.items() if any(key in part for part in splits.values())}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("split", "pairs", *(title for title, _ in columns.values())):
        table.add_column(title, justify="left" if title == "split" else "right")
    for name, part in splits.items():
        cells = [_number(part.get(key), digits) for key, (_, digits) in columns.items()]
        table.add_row(name, f"{part['pairs']:,}", *cells)
    if splits:  # running text has only a perplexity
        Console().print(table)
    for name, part in splits.items():
        if "pronunciation" in part:
            print_wrapped(_pronunciation(name, part["pronunciation"]))
    split = scores["perplexity"].get("split", "test")
    print_wrapped(f"{perplexity_line(scores['perplexity'])} ({split}, teacher forcing)")
    if unknown := unknown_line(scores["perplexity"]):
        print_wrapped(unknown)
    if "alignment" in scores:
        selection = scores["alignment"]["selected_on_valid"]
        heads = ", ".join(str(head + 1) for head in selection["heads"])
        print_wrapped(
            f"alignment error rate {scores['alignment']['error_rate']:.3f} "
            f"(attention of layer {selection['layer'] + 1}, head {heads}; selected on valid)"
        )
    signatures = {
        f"{title}: sacreBLEU signature {part[key]['signature']}"
        for key, (title, _) in columns.items()
        for part in splits.values()
        if isinstance(part.get(key), dict)
    }
    for line in sorted(signatures):
        print_wrapped(line)


def print_changes(first: object, second: object, changes: Sequence[ChangedSentence]) -> None:
    """Print the sentences with the largest changes from one run to another."""
    if changes:
        print(f"\nlargest changes from {first} to {second} (gain in chrF2)")
    for each in changes:
        print(f"\n{each.gain:+7.1f}  {each.source}")
        for name, text in (("reference", each.reference), (first, each.first), (second, each.second)):
            print(f"         {name}: {text}")


EXAMPLES_SHOWN = 3
"""The number of examples that only one of the two runs predicts correctly, for each run."""


def print_answers(first: object, second: object, compared: ComparedAnswers) -> None:
    """Print the accuracies of two runs, and examples that only one of them predicts correctly."""
    print(f"accuracy %: {compared.accuracy}")
    for name, rows in ((first, compared.only_first), (second, compared.only_second)):
        print(f"\n{len(rows):,} test examples that {name} predicts better")
        for text, label, first_prediction, second_prediction in rows[:EXAMPLES_SHOWN]:
            print(f"  {text}\n    label: {label}\n    {first}: {first_prediction}\n    {second}: {second_prediction}")


CLASSES_SHOWN = 30
"""The number of labels in the table, the most frequent first; all are in `scores.json`."""


def _print_classes(split: str, part: dict[str, Any]) -> None:
    """Print a row for each label, and the scores over all labels."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("label", f"in {split}", "precision %", "recall %", "F1 %"):
        table.add_column(title, justify="left" if title == "label" else "right")
    common = sorted(part["classes"].items(), key=lambda item: -item[1]["support"])[:CLASSES_SHOWN]
    for label, each in common:
        cells = [f"{100 * each[key]:.1f}" for key in ("precision", "recall", "f1")]
        table.add_row(Text(label), f"{each['support']:,}", *cells)
    Console().print(table)
    if more := len(part["classes"]) - len(common):
        print(f"... and {more:,} more labels, in eval/scores.json")
    print(f"{split}: accuracy {part['accuracy']:.1f} % of {part['examples']:,}, macro F1 {part['macro_f1']:.1f} %")
    if "spans" in part:
        print(f"{split}: F1 of spans {100 * part['spans']['f1']:.1f} %")


FORECASTS = {"model": "this model", "persistence": "persistence (last value)", "linear": "linear autoregression"}


def _print_series(series: dict[str, Any]) -> None:
    """Print the errors of the forecasts, by method and horizon."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("forecast by", "context", *(f"{horizon} ahead" for horizon in series["horizons"])):
        table.add_column(title, justify="left" if title == "forecast by" else "right")
    for row in series["rows"]:
        errors = [row["errors"].get(str(horizon)) for horizon in series["horizons"]]
        cells = ["" if error is None else f"{error:.4g}" for error in errors]
        table.add_row(FORECASTS[row["name"]], str(row["context"]), *cells)
    Console().print(table)
    print(f"root mean squared error on {series['values']:,} test values")


def _pronunciation(split: str, errors: dict[str, float]) -> str:
    return (
        f"{split}: word error rate {errors['word_error_rate']:.1f} %, phoneme error rate "
        f"{errors['phoneme_error_rate']:.1f} % (with stress {errors['word_error_rate_with_stress']:.1f} % and "
        f"{errors['phoneme_error_rate_with_stress']:.1f} %)"
    )


def perplexity_line(perplexity: dict[str, Any]) -> str:
    """The scores with teacher forcing on one line."""
    unit = perplexity.get("unit", "token")
    return (
        f"perplexity {perplexity['per_token']:.3f} per {unit}, {perplexity['bits_per_character']:.3f} bits per "
        f"character, {unit} accuracy {perplexity['token_accuracy']:.1f} %"
    )


def unknown_line(perplexity: dict[str, Any]) -> str:
    """A note on the unknown tokens of a text; empty if there are none."""
    rate, unit = perplexity.get("unknown_rate", 0), perplexity.get("unit", "token")
    if not rate:
        return ""
    return f"{rate:.2g} % of {unit}s are unknown; <unk> is easy to predict, so these scores are too good"


def _number(value: Any, digits: int) -> str:
    if value is None:
        return ""
    return f"{value['value'] if isinstance(value, dict) else value:.{digits}f}"


def headline_score(scores: dict[str, Any]) -> str:
    """The most important score of an evaluation; empty if there was none.

    >>> headline_score({"perplexity": {"bits_per_character": 0.9092}})
    '0.909 bits per character'
    """
    test = scores.get("test", {})
    if "bleu" in test:
        return f"BLEU {test['bleu']['value']:.1f}"
    if "accuracy" in test:
        return f"accuracy {test['accuracy']:.1f} %"
    if "pronunciation" in test:
        return f"word error rate {test['pronunciation']['word_error_rate']:.1f} %"
    if "masked_tokens" in scores:
        return f"masked accuracy {scores['masked_tokens']['accuracy']:.1f} %"
    if "series" in scores:
        return f"RMSE {next(iter(scores['series']['rows'][0]['errors'].values())):.4g}"
    if "exact_match" in test:
        return f"exact match {test['exact_match']:.1f} %"
    return f"{scores['perplexity']['bits_per_character']:.3f} bits per character" if "perplexity" in scores else ""
