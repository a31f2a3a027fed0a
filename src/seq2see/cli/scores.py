"""How scores look in a terminal."""

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
    "d2l-bleu": ("notes' BLEU", 3),
}
"""The title of each metric, and how many digits it is shown with; what was not measured has no column."""


def print_wrapped(text: str) -> None:
    """Print a sentence on lines that fit into 80 columns; a signature stays whole, to be copied."""
    print(textwrap.fill(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def print_scores(run: object, scores: dict[str, Any]) -> None:
    """What an evaluation found, and where its files are."""
    if any("pairs" in part or name == "perplexity" for name, part in scores.items()):
        _print_generation_scores(scores)
    else:
        _print_encoder_scores(scores)
    for remark in scores.get("changed_splits", ()):
        print(f"note   {remark}")
    print(f"files  {run}/eval, {run}/report.html")


def _print_encoder_scores(scores: dict[str, Any]) -> None:
    """What a model that only reads was found to know."""
    for name, part in scores.items():
        if "classes" in part:
            _print_classes(name, part)
    if "image" in scores:
        print(f"images were seen in {scores['image']['size']} x {scores['image']['size']} pixels")
    if "series" in scores:
        _print_series(scores["series"])
    if "masked_tokens" in scores:
        hidden = scores["masked_tokens"]
        print_wrapped(
            f"{hidden['accuracy']:.1f} % of {hidden['tokens']:,} hidden tokens right, "
            f"perplexity {hidden['perplexity']:.3f} per hidden token (test)"
        )
    if "next_sentence" in scores:
        follows = scores["next_sentence"]
        print(f"{follows['accuracy']:.1f} % right of {follows['examples']:,} times whether a text follows another (test)")


def _print_generation_scores(scores: dict[str, Any]) -> None:
    """A row for each test split, and what was measured with the truth given."""
    splits = {name: part for name, part in scores.items() if "pairs" in part}
    columns = {key: form for key, form in COLUMNS.items() if any(key in part for part in splits.values())}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("split", "pairs", *(title for title, _ in columns.values())):
        table.add_column(title, justify="left" if title == "split" else "right")
    for name, part in splits.items():
        figures = [_number(part.get(key), digits) for key, (_, digits) in columns.items()]
        table.add_row(name, f"{part['pairs']:,}", *figures)
    if splits:  # running text is not translated, only read
        Console().print(table)
    for name, part in splits.items():
        if "pronunciation" in part:
            print_wrapped(_pronunciation(name, part["pronunciation"]))
    split = scores["perplexity"].get("split", "test")
    print_wrapped(f"{perplexity_line(scores['perplexity'])} ({split}, truth given)")
    if unknown := unknown_line(scores["perplexity"]):
        print_wrapped(unknown)
    if "alignment" in scores:
        choice = scores["alignment"]["chosen_on_valid"]
        heads = ", ".join(str(head + 1) for head in choice["heads"])
        print_wrapped(
            f"alignment error rate {scores['alignment']['error_rate']:.3f} "
            f"(attention of layer {choice['layer'] + 1}, head {heads}; chosen on valid)"
        )
    signed = {
        f"{title}: sacreBLEU signature {part[key]['signature']}"
        for key, (title, _) in columns.items()
        for part in splits.values()
        if isinstance(part.get(key), dict)
    }
    for line in sorted(signed):
        print_wrapped(line)


def print_changes(first: object, second: object, changes: Sequence[ChangedSentence]) -> None:
    """Sentences that two runs translate differently, with what the second gains."""
    if changes:
        print(f"\nsentences that changed most from {first} to {second} (chrF2 gained)")
    for each in changes:
        print(f"\n{each.gain:+7.1f}  {each.source}")
        for name, text in (("reference", each.reference), (first, each.first), (second, each.second)):
            print(f"         {name}: {text}")


ANSWERS_SHOWN = 3
"""Examples that only one of two runs got right, of each."""


def print_answers(first: object, second: object, compared: ComparedAnswers) -> None:
    """How often two runs name the right label, and what only one of them gets right."""
    print(f"% right: {compared.accuracy}")
    for name, rows in ((first, compared.only_first), (second, compared.only_second)):
        print(f"\n{len(rows):,} test examples that {name} answers better")
        for text, label, one, other in rows[:ANSWERS_SHOWN]:
            print(f"  {text}\n    label: {label}\n    {first}: {one}\n    {second}: {other}")


CLASSES_SHOWN = 30
"""Labels that get a row in the terminal, the commonest; all are in `scores.json`."""


def _print_classes(split: str, part: dict[str, Any]) -> None:
    """A row for each label, and the figures of all."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("label", f"in {split}", "precision %", "recall %", "F1 %"):
        table.add_column(title, justify="left" if title == "label" else "right")
    common = sorted(part["classes"].items(), key=lambda item: -item[1]["support"])[:CLASSES_SHOWN]
    for label, each in common:
        figures = [f"{100 * each[key]:.1f}" for key in ("precision", "recall", "f1")]
        table.add_row(Text(label), f"{each['support']:,}", *figures)
    Console().print(table)
    if more := len(part["classes"]) - len(common):
        print(f"... and {more:,} more labels, in eval/scores.json")
    print(f"{split}: {part['accuracy']:.1f} % of {part['examples']:,} right, macro F1 {part['macro_f1']:.1f} %")
    if "spans" in part:
        print(f"{split}: F1 of spans {100 * part['spans']['f1']:.1f} %")


FORECASTS = {"model": "this model", "persistence": "the last value", "linear": "least squares"}


def _print_series(found: dict[str, Any]) -> None:
    """The errors of forecasts, by how they were made and how far ahead."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("forecast by", "context", *(f"{ahead} ahead" for ahead in found["horizons"])):
        table.add_column(title, justify="left" if title == "forecast by" else "right")
    for row in found["rows"]:
        figures = [row["errors"].get(str(ahead)) for ahead in found["horizons"]]
        cells = ["" if figure is None else f"{figure:.4g}" for figure in figures]
        table.add_row(FORECASTS[row["name"]], str(row["context"]), *cells)
    Console().print(table)
    print(f"root of the mean squared error on {found['values']:,} test values")


def _pronunciation(split: str, errors: dict[str, float]) -> str:
    return (
        f"{split}: {errors['word_error_rate']:.1f} % of words wrong, {errors['phoneme_error_rate']:.1f} % of phonemes "
        f"(with stress {errors['word_error_rate_with_stress']:.1f} % and {errors['phoneme_error_rate_with_stress']:.1f} %)"
    )


def perplexity_line(perplexity: dict[str, Any]) -> str:
    """What reading with the truth given has shown."""
    unit = perplexity.get("unit", "token")
    return (
        f"perplexity {perplexity['per_token']:.3f} per {unit}, {perplexity['bits_per_character']:.3f} bits per "
        f"character, {perplexity['token_accuracy']:.1f} % of {unit}s right"
    )


def unknown_line(perplexity: dict[str, Any]) -> str:
    """How much of a text the model does not know, and what that means; nothing if it knows all of it."""
    unknown, unit = perplexity.get("unknown_rate", 0), perplexity.get("unit", "token")
    told = f"{unknown:.2g} % of {unit}s are unknown to the model: it has to guess <unk> there, not which one it is, so "
    return told + "these figures are too good" if unknown else ""


def _number(value: Any, digits: int) -> str:
    if value is None:
        return ""
    return f"{value['value'] if isinstance(value, dict) else value:.{digits}f}"


def headline_score(scores: dict[str, Any]) -> str:
    """The one figure that says most about an evaluation; nothing if there was none.

    >>> headline_score({"perplexity": {"bits_per_character": 0.9092}})
    '0.909 bits per character'
    """
    test = scores.get("test", {})
    if "bleu" in test:
        return f"BLEU {test['bleu']['value']:.1f}"
    if "accuracy" in test:
        return f"{test['accuracy']:.1f} % right"
    if "pronunciation" in test:
        return f"{test['pronunciation']['word_error_rate']:.1f} % words wrong"
    if "masked_tokens" in scores:
        return f"{scores['masked_tokens']['accuracy']:.1f} % of hidden right"
    if "series" in scores:
        return f"error {next(iter(scores['series']['rows'][0]['errors'].values())):.4g}"
    if "exact_match" in test:
        return f"{test['exact_match']:.1f} % exact"
    return f"{scores['perplexity']['bits_per_character']:.3f} bits per character" if "perplexity" in scores else ""
