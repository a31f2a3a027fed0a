"""The verdicts of the stored experiments in the form of Markdown, and a check of the verdicts that pages state.

A page states a verdict as `seq2see lab C36`: does not hold. `wrong_verdicts` lists those without a stored result, with
another verdict in it, or with a result of another prediction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from languages import Translate, english

from seq2see.labs.claims import CLAIMS, EXPERIMENTS, UNTESTED, find_claim
from seq2see.labs.registry import experiment_of
from seq2see.labs.results import format_interval, format_number, read_result
from seq2see.labs.verdicts import CHINESE_VERDICTS, Verdict

STATED = re.compile(rf"`seq2see lab (C\d\d)`(?:: |：)({'|'.join([*Verdict, *CHINESE_VERDICTS.values()])})")


def results_in(folder: Path) -> dict[str, dict[str, Any]]:
    """The stored results by claim, in the order of the claims."""
    stored = {claim.id: read_result(folder, claim) for claim in CLAIMS}
    return {name: result for name, result in stored.items() if result is not None}


def verdict_word(translate: Translate, verdict: str) -> str:
    """A verdict in the language of the page."""
    return verdict if translate is english else CHINESE_VERDICTS[Verdict(verdict)]


def verdicts_table(translate: Translate, folder: Path) -> str:
    """A row for each decisive quantity of each stored result; the verdict on the claim is in its first row."""
    language = 0 if translate is english else 1
    titles = (
        ("claim", "quantity", "estimate", "95 % interval", "the claim predicts", "verdict"),
        ("论断", "量", "估计", "95 % 区间", "论断预期", "结论"),
    )[language]
    lines = [f"| {' | '.join(titles)} |", "|---|---|---:|---|---|---|"]
    for name, result in results_in(folder).items():
        claim = find_claim(name)
        text = f"{name} {(claim.english, claim.quote)[language]}: **{verdict_word(translate, result['verdict'])}**"
        for row in result["quantities"]:
            if row["decisive"]:
                cells = [
                    text, row["title"][language], format_number(row["estimate"]), format_interval(row),
                    row["predicted"][language], verdict_word(translate, row["verdict"]),
                ]  # fmt: skip
                lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
                text = ""
    return "\n".join(lines)


def counts_sentence(translate: Translate, folder: Path) -> str:
    """How many claims have which verdict, and how many have no experiment."""
    counts = Counter(result["verdict"] for result in results_in(folder).values())
    numbers = [counts[str(verdict)] for verdict in Verdict]
    if translate is english:
        return (
            f"Of {len(CLAIMS)} claims, {sum(numbers)} have a stored result: {numbers[0]} hold, {numbers[1]} do not, "
            f"and {numbers[2]} cannot be decided at this size. {len(UNTESTED)} have no experiment."
        )
    return (
        f"{len(CLAIMS)} 个论断中，{sum(numbers)} 个有已存结果：{numbers[0]} 个成立，{numbers[1]} 个不成立，"
        f"{numbers[2]} 个在这个规模下无法判断。{len(UNTESTED)} 个没有实验。"
    )


def unexpected_list(translate: Translate, folder: Path) -> str:
    """The claims whose verdict is not the one that was predicted before the run."""
    unexpected = [
        f"- {name}: {verdict_word(translate, result['expected'])} → {verdict_word(translate, result['verdict'])}"
        for name, result in results_in(folder).items()
        if result["verdict"] != result["expected"]
    ]
    return "\n".join(unexpected) or "–"


def untested_table(translate: Translate, folder: Path) -> str:
    """The claims without an experiment, and why."""
    language = 0 if translate is english else 1
    lines = [("| claim | why |", "| 论断 | 原因 |")[language], "|---|---|"]
    for name, reason in UNTESTED.items():
        claim = find_claim(name)
        lines.append(f"| {name} {(claim.english, claim.quote)[language]} | {reason[language]} |")
    return "\n".join(lines)


def environment_sentence(translate: Translate, folder: Path) -> str:
    """The command, the machine and the processor time of all results."""
    results = list(results_in(folder).values())
    environment = results[0]["environment"]
    minutes = sum(result["cpu_seconds"] for result in results) / 60
    facts = f"{environment['device']}, Python {environment['python']}, torch {environment['torch']}"
    if translate is english:
        return f"Measured with `seq2see lab all` ({facts}, one thread; {minutes:.1f} minutes of CPU time in all)."
    return f"测量命令：`seq2see lab all`（{facts}，单线程；CPU 时间共 {minutes:.1f} 分钟）。"


BLOCKS_OF_CLAIMS: dict[str, Callable[[Translate, Path], str]] = {
    "verdicts": verdicts_table,
    "counts": counts_sentence,
    "unexpected": unexpected_list,
    "untested": untested_table,
    "environment": environment_sentence,
}


def wrong_verdicts(text: str, folder: Path) -> Iterator[str]:
    """The verdicts in a text that no stored result of today's experiments supports."""
    results = results_in(folder)
    for name, word in STATED.findall(text):
        if name not in results:
            yield f"{name}: there is no stored result"
        elif word not in (results[name]["verdict"], CHINESE_VERDICTS[Verdict(results[name]["verdict"])]):
            yield f"{name}: the stored verdict is “{results[name]['verdict']}”"
        elif is_stale(name, results[name]):
            yield f"{name}: the result is of another prediction; measure again"


def is_stale(name: str, result: dict[str, Any]) -> bool:
    """Whether a result belongs to another prediction, threshold or size than today's."""
    return name not in EXPERIMENTS or result["registration"] != experiment_of(find_claim(name)).registration_hash()
