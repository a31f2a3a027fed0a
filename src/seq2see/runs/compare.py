"""Two runs side by side: does one really answer better than the other, and where do they differ?

Whatever is compared was written down by an evaluation: translations, labels, or how surprised a model was by a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from seq2see.core.errors import UserError
from seq2see.metrics.bootstrap import PairedBootstrap, paired_bootstrap, paired_bootstrap_accuracy
from seq2see.models.settings import Tags
from seq2see.runs.evaluate import bleu_tokenize
from seq2see.runs.evaluated_rows import decisions, not_evaluated
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.run_folder import RunFolder, read_scores


def compare(first: RunFolder, second: RunFolder) -> PairedBootstrap:
    """Is one run's BLEU on the test split better by more than luck? Both must have been evaluated on the same pairs."""
    rows = _same_rows(first, second, "test.tsv")
    references = [row[1] for row in rows[0]]
    outputs = [[row[2] for row in each] for each in rows]
    return paired_bootstrap(outputs[0], outputs[1], references, seed=1, tokenize=bleu_tokenize(references))


def compare_texts(first: RunFolder, second: RunFolder) -> str:
    """Which of two language models is less surprised by the same text; each was evaluated already."""
    runs = (first, second)
    if first.recipe().corpus != second.recipe().corpus:
        raise UserError(f"{first} and {second} were not judged on the same text.", hint="Judge both with --file.")
    told = [read_scores(run)["perplexity"] for run in runs]
    bits = ", ".join(f"{run} {_bits(each)}" for run, each in zip(runs, told, strict=True))
    if len({Tokenizers.load(run.model).fingerprint for run in runs}) > 1:
        raise UserError(
            "These perplexities cannot be compared: the runs cut the text into other pieces, and a guess at a longer "
            "piece is a harder one.",
            hint=f"Compare bits per character, which do not depend on the pieces: {bits}.",
        )
    before, after = (each["per_token"] for each in told)
    change = f"{abs(after / before - 1):.1%} {'lower' if after < before else 'higher'}"
    unit = told[0].get("unit", "token")
    return f"perplexity per {unit} {before:.3f} -> {after:.3f}, {change}; bits per character: {bits}"


def compare_series(first: RunFolder, second: RunFolder) -> str:
    """How far two models of the same series are off, by how far ahead they look; each was evaluated already."""
    if first.recipe().corpus != second.recipe().corpus:
        what = f"{first} and {second} were not judged on the same series."
        raise UserError(what, hint="Compare runs of the same corpus.")
    before, after = (read_scores(run)["series"]["rows"][0]["errors"] for run in (first, second))
    changes = [f"{ahead} ahead {error:.4g} -> {after[ahead]:.4g}" for ahead, error in before.items()]
    return f"root of the mean squared error: {', '.join(changes)}"


def _bits(perplexity: dict[str, Any]) -> str:
    """Bits per character; what the model does not know costs it too few."""
    unknown = perplexity.get("unknown_rate", 0)
    return f"{perplexity['bits_per_character']:.3f}" + (f" ({unknown:.1f} % unknown: too low)" if unknown else "")


@dataclass(frozen=True)
class ChangedSentence:
    """A test sentence that two runs translate differently."""

    source: str
    reference: str
    first: str
    second: str
    gain: float
    """chrF2 of the second output less that of the first."""


def largest_changes(first: RunFolder, second: RunFolder, count: int = 3) -> list[ChangedSentence]:
    """The sentences that the second run improves most, then those it spoils most; best first."""
    rows = zip(*_same_rows(first, second, "test.tsv"), strict=True)
    found = [ChangedSentence(a[0], a[1], a[2], b[2], float(b[3]) - float(a[3])) for a, b in rows]
    ordered = sorted((each for each in found if each.gain), key=lambda each: -each.gain)
    better = [each for each in ordered if each.gain > 0][:count]
    worse = [each for each in ordered if each.gain < 0][-count:]
    return better + worse


@dataclass(frozen=True)
class ComparedAnswers:
    """Two runs that name labels, on the same test examples."""

    accuracy: PairedBootstrap
    only_first: list[list[str]]
    """What only the first run got right: the example, its label, and what each of the two said."""
    only_second: list[list[str]]


def compare_answers(first: RunFolder, second: RunFolder) -> ComparedAnswers:
    """Is one run right more often than the other by more than luck? Both must have judged the same examples."""
    tables = _same_rows(first, second, "test-predictions.tsv")
    tags = isinstance(first.recipe().target, Tags)
    right = np.array([[_right(decisions(row[1], row[2], tags)) for row in rows] for rows in tables])
    found = [[*one[:3], other[2]] for one, other in zip(*tables, strict=True)]
    more = right[1, :, 0] - right[0, :, 0]
    return ComparedAnswers(
        paired_bootstrap_accuracy(right[0], right[1], seed=1),
        [row for row, gained in zip(found, more, strict=True) if gained < 0],
        [row for row, gained in zip(found, more, strict=True) if gained > 0],
    )


def _right(pairs: list[tuple[str, str]]) -> tuple[int, int]:
    """How many decisions are right, of how many."""
    return sum(truth == answer for truth, answer in pairs), len(pairs)


def _same_rows(first: RunFolder, second: RunFolder, table: str) -> list[list[list[str]]]:
    """The same table of two runs, which must be about the same examples."""
    rows = [_read_table(run, table) for run in (first, second)]
    if [row[:2] for row in rows[0]] != [row[:2] for row in rows[1]]:
        raise UserError(
            f"{first} and {second} were not tested on the same examples.",
            hint="Compare runs of the same corpus.",
        )
    return rows


def _read_table(run: RunFolder, table: str) -> list[list[str]]:
    path = run.evaluation / table
    if not path.exists() and not read_scores(run):
        raise not_evaluated(str(run))
    if not path.exists():
        raise UserError(
            "There are no answers here that could be compared one by one.",
            location=str(run),
            hint="Compare the scores of both runs, or runs that do the same.",
        )
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:-1]]
