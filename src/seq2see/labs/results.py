"""Results of experiments as JSON files, one for each claim, and their descriptions in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.labs.claims import EXPERIMENTS, NOTES, UNTESTED, Claim
from seq2see.labs.verdicts import CHINESE_VERDICTS, Text, Verdict

RESULTS = Path("runs/labs")
"""Where the results of a user are stored."""


def result_file(folder: Path, claim: Claim) -> Path:
    """The file of the result of a claim."""
    return folder / f"{claim.id}.json"


def read_result(folder: Path, claim: Claim) -> dict[str, Any] | None:
    """The stored result of a claim; None if it has not been measured."""
    path = result_file(folder, claim)
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        Verdict(result["verdict"])
    except (ValueError, KeyError, TypeError):
        message = "This is not the result of an experiment."
        raise UserError(message, location=str(path), hint="Delete the file and measure again.") from None
    return result


def state_of(claim: Claim, result: dict[str, Any] | None, language: int = 0) -> str:
    """The verdict in a few words, or why there is none."""
    if result is not None:
        verdict = Verdict(result["verdict"])
        return str((verdict, CHINESE_VERDICTS[verdict])[language])
    if claim.id in EXPERIMENTS:
        return ("not measured yet", "尚未测量")[language]
    return ("no experiment", "没有实验")[language]


def claim_lines(claim: Claim, language: int = 0) -> list[str]:
    """The claim in the words of the notes, with their title."""
    source = ("from the notes", "出自笔记")[language]
    lines = [f"{claim.id}  {claim.name}", f"“{claim.quote}”", f"    {source} “{NOTES[claim.note]}”"]
    return lines if language else [*lines, f"in English: {claim.english}"]


def untested_line(claim: Claim, language: int = 0) -> str:
    """Why the claim has no experiment."""
    return UNTESTED[claim.id][language]


def format_number(value: float) -> str:
    """A number with three significant digits.

    >>> format_number(0.123456), format_number(12345.6), format_number(-2.0), format_number(3e-9)
    ('0.123', '12,346', '-2.00', '3.0e-09')
    """
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= 0.001 or size == 0 else f"{value:.1e}"


def format_interval(row: dict[str, Any]) -> str:
    """The interval of a quantity; worst cases have none."""
    if row["kind"] in ("AtMost", "AtLeast"):
        return f"{len(row['values'])} cases"
    return f"{format_number(row['low'])} … {format_number(row['high'])}"


def result_lines(result: dict[str, Any], language: int = 0) -> list[str]:
    """Estimate, interval and verdict of each quantity, then the verdict on the claim."""
    lines = []
    for row in result["quantities"]:
        verdict = Verdict(row["verdict"])
        word = (verdict, CHINESE_VERDICTS[verdict])[language]
        note = "" if row["decisive"] else ("  (does not decide)", "（不参与判断）")[language]
        predicted = ("the claim predicts", "论断预期")[language]
        lines.append(f"  {row['title'][language]}{note}")
        lines.append(
            f"    {format_number(row['estimate'])}   [{format_interval(row)}]   "
            f"{predicted} {row['predicted'][language]}: {word}"
        )
    verdict, seeds = Verdict(result["verdict"]), len(result["seeds"])
    label: Text = (
        f"verdict: {verdict}   ({seeds} seeds, {result['cpu_seconds']:.0f} s of CPU time)",
        f"结论：{CHINESE_VERDICTS[verdict]}（{seeds} 个种子，CPU 时间 {result['cpu_seconds']:.0f} 秒）",
    )
    return [*lines, label[language]]
