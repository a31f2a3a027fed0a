"""The scores of generated texts: the table of metrics, and how scores are shown in the report and on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from seq2see.core.errors import UserError
from seq2see.core.settings import OpenNames
from seq2see.data.examples import Example
from seq2see.metrics.bleu import (
    BleuTokenizer,
    corpus_bleu,
    corpus_bleu_tokenized,
    corpus_chrf,
    d2l_bleu,
    has_moses,
    sentence_chrf,
)
from seq2see.metrics.classification import sentence_accuracy
from seq2see.metrics.speech_errors import pronunciation_errors
from seq2see.tasks.model import Prediction
from seq2see.tasks.report_parts import (
    CopiedLines,
    Difference,
    NamedValues,
    ReportHeading,
    ReportSection,
    ReportTable,
    RunResults,
    Tree,
    Words,
    is_number,
    note,
    number_text,
    section,
    words,
)
from seq2see.tasks.task import one_line

SHOWN = 5
"""The number of best and of worst predictions in the report."""
PRONUNCIATION = (
    "word_error_rate",
    "phoneme_error_rate",
    "word_error_rate_with_stress",
    "phoneme_error_rate_with_stress",
)
"""Error rates of grapheme-to-phoneme conversion; the keys are those of `scores.json` and of the texts."""


@dataclass(frozen=True)
class ScoredOutputs:
    """The outputs for a split, and what they are compared with."""

    outputs: list[str]
    references: list[str]
    """The first reference of each output."""
    all_references: Sequence[Sequence[str]]
    """All references of each output."""
    language: str = "en"
    """The language of the outputs."""


@dataclass(frozen=True)
class TextMetric:
    """A metric of generated texts."""

    compute: Callable[[ScoredOutputs], Any]
    """The score: a number, or a tree with its `value`. None if a package that it needs is not installed."""
    title: Words = ""
    """The title of its column in the report; without one it has no column."""
    short_title: str = ""
    """The title of its column on the terminal."""
    digits: int = 1


def _bleu(scored: ScoredOutputs) -> Any:
    tokenize = bleu_tokenize(scored.references)
    return asdict(corpus_bleu(scored.outputs, scored.references, tokenize, scored.all_references))


def _bleu_tokenized(scored: ScoredOutputs) -> Any:
    if not has_moses():
        return None
    return asdict(corpus_bleu_tokenized(scored.outputs, scored.references, scored.language))


def _chrf(scored: ScoredOutputs) -> Any:
    return asdict(corpus_chrf(scored.outputs, scored.references))


def _exact_match(scored: ScoredOutputs) -> float:
    """The percentage of outputs that equal one of their references."""
    rows = zip(scored.outputs, scored.all_references, strict=True)
    matches = [output if output in each else each[0] for output, each in rows]
    return 100 * sentence_accuracy(scored.outputs, matches).value


def _d2l_bleu(scored: ScoredOutputs) -> float:
    pairs = zip(scored.outputs, scored.references, strict=True)
    values = [d2l_bleu(output.split(), reference.split()) for output, reference in pairs]
    return sum(values) / len(values)


METRICS: dict[str, TextMetric] = {
    "bleu": TextMetric(_bleu, "BLEU", "BLEU"),
    "bleu-tokenized": TextMetric(_bleu_tokenized, words("bleu_tokenized"), "BLEU lower-cased, tokenized"),
    "chrf": TextMetric(_chrf, "chrF2", "chrF2"),
    "exact_match": TextMetric(_exact_match, words("exact_match"), "exact match %"),
    "d2l-bleu": TextMetric(_d2l_bleu, words("d2l_bleu"), "BLEU of d2l", 3),
    "pronunciation": TextMetric(lambda scored: pronunciation_errors(scored.outputs, scored.all_references)),
}
"""The metrics of outputs and references; `alignment`, which needs the attention of the model, is in `translate.py`."""
OWN_METRICS: dict[str, TextMetric] = {}
"""The metrics of `register_metric`."""
Metric = Annotated[
    Literal["bleu", "bleu-tokenized", "chrf", "exact_match", "d2l-bleu", "pronunciation", "alignment"],
    OpenNames(OWN_METRICS),
]
"""The name of a metric of generated texts."""


def register_metric(
    name: str, function: Callable[[list[str], list[list[str]]], float], title: str = "", digits: int = 1
) -> None:
    """Add a metric of generated texts: a function of the outputs and of the list of references of each output.

    Recipes then have it in their setting `metrics`, and evaluations have a column with this title.
    """
    if name in METRICS or name == "alignment":
        raise UserError(f"There is already a metric '{name}'.", hint="Give your metric another name.")

    def compute(scored: ScoredOutputs) -> float:
        return float(function(list(scored.outputs), [list(each) for each in scored.all_references]))

    OWN_METRICS[name] = TextMetric(compute, title or name, title or name, digits)


def bleu_tokenize(references: list[str]) -> BleuTokenizer:
    """The sacreBLEU tokenizer for these texts: `zh` for Chinese, which has no spaces between words, else `13a`."""
    text = "".join(references[:1000])
    chinese = sum("\u4e00" <= character <= "\u9fff" for character in text)
    return "zh" if chinese > len(text) / 4 else "13a"


def score_outputs(
    metrics: Sequence[str],
    references: list[str],
    outputs: list[str],
    all_references: Sequence[Sequence[str]] = (),
    language: str = "en",
) -> dict[str, Any]:
    """Compute these metrics; a metric whose package is not installed is left out.

    `all_references` are the references of each row if there can be several; `language` is that of the outputs.
    """
    scored = ScoredOutputs(outputs, references, all_references or [(each,) for each in references], language)
    found = {name: each.compute(scored) for name, each in (METRICS | OWN_METRICS).items() if name in metrics}
    return {"pairs": len(references)} | {name: score for name, score in found.items() if score is not None}


def output_table(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[list[str]]:
    """A table: source, reference, output, chrF and score of each pair."""
    outputs, references = [each.text for each in predictions], [example.target for example in examples]
    rows = [["source", "reference", "output", "chrf", "score"]]
    for example, prediction, score in zip(examples, predictions, sentence_chrf(outputs, references), strict=True):
        texts = (example.source, example.target, prediction.text)
        rows.append([*map(one_line, texts), f"{score:.2f}", f"{prediction.score:.4f}"])
    return rows


# --- how scores are shown ---


def text_tiles(scores: Tree) -> list[tuple[Words, str]]:
    """The most important scores: names and values."""
    test = scores.get("test", {})
    tiles: list[tuple[Words, str]] = [
        (test[key]["name"], f"{test[key]['value']:.1f}") for key in ("bleu", "chrf") if key in test
    ]
    if "exact_match" in test:
        tiles.append((words("exact_match"), f"{test['exact_match']:.1f}"))
    if "pronunciation" in test:
        tiles += [(words(name), f"{test['pronunciation'][name]:.1f}") for name in PRONUNCIATION[:2]]
    if "alignment" in scores:
        tiles.append((words("error_rate"), f"{scores['alignment']['error_rate']:.3f}"))
    return tiles


def text_sections(results: RunResults) -> list[ReportSection]:
    """The scores of each test split and with teacher forcing, and the best and the worst predictions."""
    splits = _splits(results.scores)
    parts = [_split_table(splits), _pronunciation_table(splits), _signatures(splits), _teacher_forced(results.scores)]
    return [section("scores", *parts), _predictions(results)]


def _splits(scores: Tree) -> Tree:
    return {name: part for name, part in scores.items() if isinstance(part, dict) and "pairs" in part}


def _columns(splits: Tree) -> dict[str, TextMetric]:
    """The metrics with a column; one that is not computed has none."""
    shown = {name: each for name, each in (METRICS | OWN_METRICS).items() if each.title}
    return {name: each for name, each in shown.items() if any(name in part for part in splits.values())}


def _split_table(splits: Tree) -> ReportTable | None:
    columns = _columns(splits)
    header = [words("split"), words("pairs"), *(each.title for each in columns.values())]
    rows = [
        [name, f"{part['pairs']:,}", *(number_text(part.get(key), each.digits) for key, each in columns.items())]
        for name, part in splits.items()
    ]
    return ReportTable(header, rows) if rows else None


def _pronunciation_table(splits: Tree) -> ReportTable | None:
    """A row for each split with pronunciation scores."""
    evaluated = {name: part["pronunciation"] for name, part in splits.items() if "pronunciation" in part}
    rows = [[name, *(number_text(errors[key]) for key in PRONUNCIATION)] for name, errors in evaluated.items()]
    return ReportTable([words("split"), *(words(key) for key in PRONUNCIATION)], rows) if rows else None


def _signatures(splits: Tree) -> CopiedLines | None:
    signed = [part[key] for part in splits.values() for key in METRICS if isinstance(part.get(key), dict)]
    signatures = sorted({score["signature"] for score in signed if "signature" in score})
    return CopiedLines(words("signatures"), signatures) if signatures else None


def _teacher_forced(scores: Tree) -> NamedValues | None:
    rows = [*perplexity_rows(scores.get("perplexity", {}))]
    if "alignment" in scores:
        selection = scores["alignment"]["selected_on_valid"]
        heads = ", ".join(str(number + 1) for number in selection["heads"])
        error = f"{scores['alignment']['error_rate']:.3f}"
        english, chinese = words("heads", layer=str(selection["layer"] + 1), heads=heads)
        rows.append((words("error_rate"), (f"{error} ({english})", f"{error} ({chinese})")))
    return NamedValues(rows) if rows else None


def perplexity_rows(measured: Tree) -> Iterator[tuple[Words, Words]]:
    """The scores with teacher forcing: names and values."""
    if "per_token" in measured:
        name = words(f"perplexity_{measured.get('unit', 'token')}", split=measured.get("split", "test"))
        yield name, f"{measured['per_token']:.3f}"
    for title, key, digits in (("bits", "bits_per_character", 3), ("token_accuracy", "token_accuracy", 1)):
        if measured.get(key) is not None:
            yield words(title), f"{measured[key]:.{digits}f}"
    if measured.get("unknown_rate"):
        yield words("unknown_rate"), f"{measured['unknown_rate']:.2g}"


def _predictions(results: RunResults) -> ReportSection:
    """The best and the worst test sentences, by chrF."""
    rows = [row for row in results.rows("test", 5) if is_number(row[3])]
    rows = list({row[0]: row for row in rows}.values())  # duplicates are shown once
    if not rows:
        return section("predictions")
    # Many short outputs are perfect; long ones are more informative.
    best = sorted(rows, key=lambda row: (-float(row[3]), -len(row[0])))[:SHOWN]
    worst = sorted(rows, key=lambda row: (float(row[3]), -len(row[0])))[:SHOWN]
    tables = [part for name, some in (("best", best), ("worst", worst)) for part in _prediction_table(name, some)]
    return section("predictions", note("predictions_note"), *tables)


def _prediction_table(name: str, rows: Sequence[Sequence[str]]) -> tuple[ReportHeading, ReportTable]:
    header: list[Words] = [*(words(column) for column in ("source", "reference", "output")), "chrF2", "log p"]
    cells: list[list[Words | Difference]] = [
        [source, reference, Difference(output, reference), chrf, score]
        for source, reference, output, chrf, score in rows
    ]
    return ReportHeading(words(name)), ReportTable(header, cells, text_columns=3)


def text_score_lines(scores: Tree) -> Iterator[str | ReportTable]:
    """For the terminal: a row for each test split, and the scores with teacher forcing."""
    splits = _splits(scores)
    columns = _columns(splits)
    if splits:  # running text has only a perplexity
        rows = [
            [name, f"{part['pairs']:,}", *(number_text(part.get(key), each.digits) for key, each in columns.items())]
            for name, part in splits.items()
        ]
        yield ReportTable(["split", "pairs", *(each.short_title for each in columns.values())], rows)
    for name, part in splits.items():
        if "pronunciation" in part:
            yield _pronunciation_line(name, part["pronunciation"])
    if "perplexity" in scores:
        split = scores["perplexity"].get("split", "test")
        yield f"{perplexity_line(scores['perplexity'])} ({split}, teacher forcing)"
        if unknown := unknown_line(scores["perplexity"]):
            yield unknown
    if "alignment" in scores:
        selection = scores["alignment"]["selected_on_valid"]
        heads = ", ".join(str(head + 1) for head in selection["heads"])
        yield (
            f"alignment error rate {scores['alignment']['error_rate']:.3f} "
            f"(attention of layer {selection['layer'] + 1}, head {heads}; selected on valid)"
        )
    yield from sorted(
        {
            f"{each.short_title}: sacreBLEU signature {part[key]['signature']}"
            for key, each in columns.items()
            for part in splits.values()
            if isinstance(part.get(key), dict)
        }
    )


def _pronunciation_line(split: str, errors: dict[str, float]) -> str:
    return (
        f"{split}: word error rate {errors['word_error_rate']:.1f} %, phoneme error rate "
        f"{errors['phoneme_error_rate']:.1f} % (with stress {errors['word_error_rate_with_stress']:.1f} % and "
        f"{errors['phoneme_error_rate_with_stress']:.1f} %)"
    )


def perplexity_line(perplexity: Tree) -> str:
    """The scores with teacher forcing on one line."""
    unit = perplexity.get("unit", "token")
    return (
        f"perplexity {perplexity['per_token']:.3f} per {unit}, {perplexity['bits_per_character']:.3f} bits per "
        f"character, {unit} accuracy {perplexity['token_accuracy']:.1f} %"
    )


def unknown_line(perplexity: Tree) -> str:
    """A note on the unknown tokens of a text; empty if there are none."""
    rate, unit = perplexity.get("unknown_rate", 0), perplexity.get("unit", "token")
    if not rate:
        return ""
    return f"{rate:.2g} % of {unit}s are unknown; <unk> is easy to predict, so these scores are too good"


def text_headline(scores: Tree) -> str:
    """The most important score of generated texts, or of running text; empty if there is none.

    >>> text_headline({"perplexity": {"bits_per_character": 0.9092}})
    '0.909 bits per character'
    """
    test = scores.get("test", {})
    if "bleu" in test:
        return f"BLEU {test['bleu']['value']:.1f}"
    if "pronunciation" in test:
        return f"word error rate {test['pronunciation']['word_error_rate']:.1f} %"
    if "exact_match" in test:
        return f"exact match {test['exact_match']:.1f} %"
    return f"{scores['perplexity']['bits_per_character']:.3f} bits per character" if "perplexity" in scores else ""
