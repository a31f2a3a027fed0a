"""What an evaluation left behind: the rows of its tables, each with how good the answer is and how sure it was.

Nothing is computed anew here: what is read is what `seq2see eval` wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.models.settings import Tags
from seq2see.runs.forecasting import context_of
from seq2see.runs.model import Model
from seq2see.runs.report_examples import read_table
from seq2see.runs.run_folder import RunFolder
from seq2see.sequences.tokenizers import Tokenizer

ENDING = "-predictions"
"""Tables of labels are called by their split and this; tables of texts by their split alone."""
FORECASTS = "forecasts"
"""The table of a model of numbers: a row for each time, with what was said of it so many steps ahead."""
TOKEN_LOSSES = "token_losses"
"""The split's name under which running text is listed: it is judged token by token, and not row by row."""


@dataclass(frozen=True)
class EvaluatedRow:
    """One row of an evaluation: what was read, what was right, what was answered, and two figures of it."""

    number: int
    text: str
    truth: str
    answer: str
    quality: float
    """How good the answer is: chrF of a text, 1 or 0 of a label, the share of right tags, or minus the mean loss.

    Of a forecast, one step ahead: minus the distance from the value.
    """
    confidence: float
    """How sure the model was of it: log-probability of a text, probability of a label."""
    tokens: tuple[str, ...] = ()
    losses: tuple[float, ...] = ()
    """Of running text: each piece, and how much it surprised the model. Of a forecast: the values before it."""


SORT_KEYS: dict[str, Callable[[EvaluatedRow], Any]] = {
    "worst": lambda row: (row.quality, -row.confidence, row.number),
    "best": lambda row: (-row.quality, -row.confidence, row.number),
    "most-confident": lambda row: (-row.confidence, row.number),
    "least-confident": lambda row: (row.confidence, row.number),
    "file": lambda row: row.number,
}
"""What rows can be sorted by. Of equally wrong answers, those the model was surest of are the worst."""


def not_evaluated(name: str) -> UserError:
    """What is said of a run without an evaluation."""
    return UserError("This run was not evaluated yet.", location=name, hint=f"`seq2see eval {name}` does that.")


def table_kind(path: Path) -> str:
    """What a table has in its rows: strips of running text, forecasts, labels, or texts."""
    if path.stem in (TOKEN_LOSSES, FORECASTS):
        return path.stem
    return "labels" if path.stem.endswith(ENDING) else "texts"


def splits(folder: RunFolder) -> dict[str, Path]:
    """The tables that there are, by split; the one that a run is judged by first."""
    found = {path.stem.removesuffix(ENDING): path for path in sorted(folder.evaluation.glob("*.tsv"))}
    if (folder.evaluation / f"{TOKEN_LOSSES}.json").exists():
        found[TOKEN_LOSSES] = folder.evaluation / f"{TOKEN_LOSSES}.json"
    return dict(sorted(found.items(), key=lambda item: item[0] != "test"))


def evaluated_rows(folder: RunFolder, model: Model, split: str) -> list[EvaluatedRow]:
    """All rows of one split, in the order of the file."""
    known = splits(folder)
    if not known:
        raise not_evaluated(folder.path.name)
    if split not in known:
        raise UserError(f"There is no table of the split '{split}'.", hint=f"There are: {', '.join(known)}.")
    path, kind = known[split], table_kind(known[split])
    try:
        if kind == FORECASTS:
            return _forecasts(_forecast_table(path), context_of(model.config.model))
        if kind == TOKEN_LOSSES:
            return _token_losses(json.loads(path.read_text(encoding="utf-8")), model.tokenizers.source)
        return _labels(read_table(path, 4), has_tags(model)) if kind == "labels" else _texts(read_table(path, 5))
    except (ValueError, LookupError, TypeError):
        hint = "Evaluate the run once more."
        raise UserError("This table is damaged.", location=path.name, hint=hint) from None


def has_tags(model: Model) -> bool:
    """Whether an answer is a tag for each word, and not one label."""
    return isinstance(model.config.model.target, Tags)


def _texts(rows: Sequence[Sequence[str]]) -> list[EvaluatedRow]:
    return [
        EvaluatedRow(number, source, truth, output, float(chrf), float(score))
        for number, (source, truth, output, chrf, score) in enumerate(rows)
    ]


def _labels(rows: Sequence[Sequence[str]], tags: bool) -> list[EvaluatedRow]:
    found = []
    for number, (text, label, answer, probability) in enumerate(rows):
        right = [one == other for one, other in decisions(label, answer, tags)]
        found.append(EvaluatedRow(number, text, label, answer, sum(right) / len(right), float(probability)))
    return found


def _token_losses(windows: Sequence[dict[str, Any]], tokenizer: Tokenizer) -> list[EvaluatedRow]:
    ids = {piece: number for number, piece in enumerate(tokenizer.tokens(range(len(tokenizer))))}
    found = []
    for number, each in enumerate(windows):
        tokens, losses = tuple(each["tokens"]), tuple(each["losses"])
        mean = sum(losses) / max(len(losses), 1)
        text = tokenizer.decode([ids[piece] for piece in tokens if piece in ids])
        found.append(EvaluatedRow(number, text, "", "", -mean, -mean, tokens, losses))
    return found


def _forecast_table(path: Path) -> list[list[str]]:
    """Times, values, and what was said of each; the first line names the columns."""
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def _forecasts(rows: Sequence[Sequence[str]], context: int) -> list[EvaluatedRow]:
    """Each value that was guessed from the ones before it; those that no guess was made of are passed over."""
    values, found = [row[1] for row in rows], []
    for number, (time, value, guess, *_) in enumerate(rows):
        before = tuple(values[max(number - context, 0) : number])
        if guess and len(before) == context:
            far = abs(float(value) - float(guess))
            found.append(EvaluatedRow(number, time, value, guess, -far, -far, before))
    return found


def decisions(truth: str, answer: str, tags: bool) -> list[tuple[str, str]]:
    """(truth, answer) of each thing that was decided in a row: one label, or a tag for each word.

    >>> decisions("I/PRON see/VERB", "I/PRON see/NOUN", tags=True)
    [('PRON', 'PRON'), ('VERB', 'NOUN')]
    """
    if not tags:
        return [(truth, answer)]
    pairs = zip(truth.split(" "), answer.split(" "), strict=False)
    return [(_tag(one), _tag(other)) for one, other in pairs]


def _tag(word: str) -> str:
    return word.rpartition("/")[2]


def confusion(rows: Sequence[EvaluatedRow], model: Model) -> ConfusionMatrix:
    """Which label was taken for which, counted in the rows themselves, so that each cell leads to its own."""
    pairs = [pair for row in rows for pair in decisions(row.truth, row.answer, has_tags(model))]
    return ConfusionMatrix.of(model.tokenizers.labels, [one for one, _ in pairs], [other for _, other in pairs])


def filter_rows(
    rows: Sequence[EvaluatedRow], model: Model, cell: tuple[str, str] | None, search: str
) -> list[EvaluatedRow]:
    """Rows of one cell of the confusion, or all, in whose texts a search finds something."""
    tags, wanted = has_tags(model), search.casefold()
    found = [row for row in rows if cell is None or cell in decisions(row.truth, row.answer, tags)]
    return [row for row in found if any(wanted in each.casefold() for each in (row.text, row.truth, row.answer))]
