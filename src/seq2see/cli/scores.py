"""How scores look in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def print_scores(run: object, scores: dict[str, Any]) -> None:
    """A row for each test split, and what was measured with the truth given."""
    splits = {name: part for name, part in scores.items() if "pairs" in part}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("split", "pairs", "BLEU", "chrF2", "exact %", "notes' BLEU"):
        table.add_column(title, justify="left" if title == "split" else "right")
    for name, part in splits.items():
        table.add_row(
            name, f"{part['pairs']:,}", _number(part.get("bleu")), _number(part.get("chrf")),
            _number(part.get("exact")), _number(part.get("notes-bleu"), digits=3),
        )  # fmt: skip
    Console().print(table)
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
    signatures = {part[key]["signature"] for part in splits.values() for key in ("bleu", "chrf") if key in part}
    for signature in sorted(signatures):
        print(f"sacreBLEU signature {signature}")
    print(f"files  {run}/eval, {run}/report.html")


def _number(value: Any, digits: int = 1) -> str:
    if value is None:
        return ""
    return f"{value['value'] if isinstance(value, dict) else value:.{digits}f}"
