"""How scores look in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from seq2see.workbench.evaluate import Changed

COLUMNS = {
    "bleu": ("BLEU", 1),
    "bleu-tokenised": ("BLEU lower-cased, tokenised", 1),
    "chrf": ("chrF2", 1),
    "exact": ("exact %", 1),
    "notes-bleu": ("notes' BLEU", 3),
}
"""The title of each metric, and how many digits it is shown with; what was not measured has no column."""


def print_scores(run: object, scores: dict[str, Any]) -> None:
    """A row for each test split, and what was measured with the truth given."""
    if "hidden" in scores:
        print("\n".join([*_reading(scores), f"files  {run}/eval, {run}/report.html"]))
        return
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
            print(_pronunciation(name, part["pronunciation"]))
    perplexity = scores["perplexity"]
    print(
        f"perplexity {perplexity['per_token']:.3f} per token, {perplexity['bits_per_character']:.3f} bits per "
        f"character, {perplexity['token_accuracy']:.1f} % of tokens right (test, truth given)"
    )
    if "alignment" in scores:
        choice = scores["alignment"]["chosen_on_valid"]
        heads = ", ".join(str(head + 1) for head in choice["heads"])
        print(
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
        print(line)
    print(f"files  {run}/eval, {run}/report.html")


def print_changes(first: object, second: object, changes: Sequence[Changed]) -> None:
    """Sentences that two runs translate differently, with what the second gains."""
    if changes:
        print(f"\nsentences that changed most from {first} to {second} (chrF2 gained)")
    for each in changes:
        print(f"\n{each.gain:+7.1f}  {each.source}")
        for name, text in (("reference", each.reference), (first, each.first), (second, each.second)):
            print(f"         {name}: {text}")


def _reading(scores: dict[str, Any]) -> Iterator[str]:
    """What a model that only reads was found to know."""
    hidden = scores["hidden"]
    yield (
        f"{hidden['accuracy']:.1f} % of {hidden['tokens']:,} hidden tokens right, "
        f"perplexity {hidden['perplexity']:.3f} per hidden token (test)"
    )
    if "follows" in scores:
        follows = scores["follows"]
        yield f"{follows['accuracy']:.1f} % right of {follows['rows']:,} times whether a text follows another (test)"


def _pronunciation(split: str, errors: dict[str, float]) -> str:
    return (
        f"{split}: {errors['word_errors']:.1f} % of words wrong, {errors['phoneme_errors']:.1f} % of phonemes "
        f"(with stress {errors['word_errors_with_stress']:.1f} % and {errors['phoneme_errors_with_stress']:.1f} %)"
    )


def _number(value: Any, digits: int) -> str:
    if value is None:
        return ""
    return f"{value['value'] if isinstance(value, dict) else value:.{digits}f}"
