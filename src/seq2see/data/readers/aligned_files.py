"""Two files aligned by line, and an estimate of the line where files of different lengths diverge."""

from __future__ import annotations

from itertools import zip_longest
from math import log
from pathlib import Path
from statistics import median

from seq2see.data.readers.lines import Line, file_name, read_lines
from seq2see.data.readers.pair_collector import PairCollector


def read_aligned(source: Path, target: Path, collector: PairCollector) -> None:
    """Two files: line n of one is the translation of line n of the other; missing lines are never compensated."""
    lengths: tuple[list[int], list[int]] = ([], [])
    pairs = zip_longest(read_lines(source, collector.report), read_lines(target, collector.report))
    for one, other in pairs:
        for line, of_file in zip((one, other), lengths, strict=True):
            if line is not None:
                of_file.append(len(line.text))
        if one is None or other is None or not (one.is_valid and other.is_valid):
            collector.reject()
        else:
            collector.add((one.text, other.text), (one, other), (1, 1))
    names = file_name(source), file_name(target)
    counts = len(lengths[0]), len(lengths[1])
    if counts[0] != counts[1] and not any(collector.report.is_invalid(name) for name in names):
        number = divergence_line(*lengths)
        message = (
            f"{names[0]} has {counts[0]:,} lines and {names[1]} has {counts[1]:,}; "
            f"judging by the lengths of the lines, they diverge at about line {number:,}."
        )
        collector.report.add_issue("line count mismatch", Line(names[0], number, 0, "").location(), message)


def divergence_line(source: list[int], target: list[int]) -> int:
    """Estimate the line where one file lost (or gained) lines, from the lengths of all lines.

    Assume that all missing lines are consecutive: before them line i matches line i, after them the lines of the longer
    file are shifted. Of all positions, the best is the one where matched lines differ least in (log) length.

    >>> divergence_line([10, 50, 10, 90, 20], [10, 10, 90, 20])
    2
    """
    short, long = sorted((source, target), key=len)
    log_ratio = log((sum(long) / len(long) + 1) / (sum(short) / len(short) + 1))
    split = 0
    # Each position gives a better estimate of the length ratio of the languages, and this a better position.
    for _ in range(3):
        split = _best_offset(short, long, log_ratio)
        extra = len(long) - len(short)
        partners = long[:split] + long[split + extra :]
        log_ratio = median(_log_length_ratio(one, other) for one, other in zip(short, partners, strict=True))
    return split + 1


def _log_length_ratio(one: int, other: int) -> float:
    return log((other + 1) / (one + 1))


def _best_offset(short: list[int], long: list[int], log_ratio: float) -> int:
    """The number of lines before the gap that minimizes the deviation of all matched lines from this length ratio."""
    extra = len(long) - len(short)
    after = (abs(_log_length_ratio(one, other) - log_ratio) for one, other in zip(short, long[extra:], strict=True))
    cost = best = sum(after)
    offset = 0
    for index, one in enumerate(short):  # an offset larger by one changes the partner of one line
        cost += abs(_log_length_ratio(one, long[index]) - log_ratio) - abs(
            _log_length_ratio(one, long[index + extra]) - log_ratio
        )
        if cost < best - 1e-9:
            best, offset = cost, index + 1
    return offset
