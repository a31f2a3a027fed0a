"""The two columns of a table that are read: by the choice of the user, by their names, or by what they hold.

Published tables differ: SST-2 has the label before the sentence, reviews are called `review` and `sentiment`, an id
may come first. So the columns are found in this order: those that `corpus.columns` names; those whose names in the
first line are usual ones; a column with few distinct values, which is a label, next to the column with the longest
texts; else the first two. The decision is a line in the data report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

ColumnNames = tuple[str, str]
DEFAULT_COLUMNS = ("source", "target")
IMAGE_COLUMN_NAMES = ("file", "path", "image", "file_name", "filename", "video")
IMAGE_COLUMNS = tuple((image, target) for target in ("label", "caption") for image in IMAGE_COLUMN_NAMES)
"""The possible names of the two columns of a list of images."""
COLUMN_NAMES: tuple[ColumnNames, ...] = (DEFAULT_COLUMNS, ("text", "label"), ("sentence", "label"), *IMAGE_COLUMNS)
"""The possible names of source and target, in a header and as keys; the first pair is the default."""
SAMPLE_LINES = 1000
"""The number of lines from which the columns of a table are inferred, not from the first line alone."""

TEXTS = (
    "text", "sentence", "review", "comment", "content", "message", "tweet", "document", "body", "question", "headline",
    "utterance", "文本", "句子", "评论", "内容",
)  # fmt: skip
LABELS = (
    "label", "labels", "sentiment", "class", "category", "stars", "rating", "intent", "topic", "polarity", "emotion",
    "target", "标签", "类别", "情感",
)  # fmt: skip
SOURCES = ("source", "src", "input", "question", "original", "原文")
TARGETS = ("target", "tgt", "trg", "output", "answer", "translation", "译文")
LANGUAGES = (
    "en", "zh", "de", "fr", "es", "it", "pt", "nl", "ru", "ja", "ko", "ar", "cs", "pl", "tr", "vi", "hi", "sv", "fi",
    "english", "chinese", "german", "french", "spanish", "italian", "portuguese", "russian", "japanese", "korean",
)  # fmt: skip

MIN_COUNT = 3
"""A label occurs at least so often on average; rarer values are texts."""
MAX_LABEL_LENGTH = 60
"""No label has more characters."""
MAX_NAME_LENGTH = 40
"""No name of a column has more characters."""
MIN_LABELED_ROWS = 20
"""So many rows at least have a label, if no task is given."""


@dataclass(frozen=True)
class ColumnRule:
    """How the columns of a table are found."""

    names: tuple[ColumnNames, ...] = COLUMN_NAMES
    """The possible names of source and target; the first pair is the default."""
    chosen: tuple[str, ...] = ()
    """The names or numbers (from 1) of source and target that the user chose."""
    labeled: bool = False
    """Whether the target is a label."""
    by_content: bool = False
    """Whether usual names and the content of the columns decide, too; the decision is then reported."""
    fallback: tuple[int, int] = (0, 1)
    """The columns if nothing decides: those of the training file, for a file of another split."""


@dataclass(frozen=True)
class Columns:
    """The two columns of a table."""

    indices: tuple[int, int]
    names: ColumnNames
    header: bool = False
    """Whether the first row has the names of the columns."""
    reason: str = ""
    """Why these columns, for the report."""
    fault: str = ""
    """Why no columns can be chosen: an error of the whole file."""


def find_columns(names: Collection[str], candidates: Iterable[ColumnNames] = COLUMN_NAMES) -> ColumnNames | None:
    """The first candidate of which both names are among these, if there is one.

    >>> find_columns(["id", "label", "text"]), find_columns(["text", "Quelle"])
    (('text', 'label'), None)
    """
    return next((columns for columns in candidates if set(columns) <= set(names)), None)


def find_source_column(names: Collection[str], candidates: Iterable[ColumnNames] = COLUMN_NAMES) -> ColumnNames | None:
    """The first candidate of which the source column is among these names, if there is one.

    >>> find_source_column(["id", "image"]), find_source_column(["label"])
    (('image', 'label'), None)
    """
    return next((columns for columns in candidates if columns[0] in names), None)


def usual_pair(names: Sequence[str], labeled: bool) -> ColumnNames | None:
    """The usual names of a text and its label, or of a text and its translation, among these names.

    >>> usual_pair(["id", "sentiment", "review"], True), usual_pair(["de", "en"], False), usual_pair(["a", "b"], True)
    (('review', 'sentiment'), ('de', 'en'), None)
    """
    texts, pairs = [*product(TEXTS, LABELS)], [*product(SOURCES, TARGETS)]
    languages = [name for name in names if name in LANGUAGES]
    found = find_columns(names, texts + pairs if labeled else pairs + texts)
    return found or ((languages[0], languages[1]) if len(languages) == 2 else None)


def choose_columns(rows: Sequence[Sequence[str]], rule: ColumnRule) -> Columns:
    """The two columns of a table with these first rows."""
    first = [cell.strip() for cell in rows[0]] if rows else []
    names = [name.lower() for name in first]
    if rule.chosen:
        return _chosen(first, rule)
    found = find_columns(names, rule.names)
    if found is None and rule.by_content:
        found = usual_pair(names, rule.labeled)
    if found:
        twice = next((name for name in found if names.count(name) > 1), "")
        fault = f"Two columns are called '{twice}'." if twice else ""
        indices = names.index(found[0]), names.index(found[1])
        return Columns(indices, found, True, "by their names in the first line", fault)
    default = Columns(rule.fallback, rule.names[0])
    width = max(rule.fallback) + 1
    rows = [row for row in rows if len(row) == len(first)] if len(first) >= width else []
    if not rule.by_content or not rows:
        return default
    return _labeled_columns(rows, rule) if rule.labeled else _pair_columns(rows, rule)


def _chosen(first: Sequence[str], rule: ColumnRule) -> Columns:
    """The columns that the user chose; names are looked up in the first line, numbers count from 1."""
    if all(name.isdigit() and name not in first for name in rule.chosen):
        indices = [int(name) - 1 for name in rule.chosen]
        outside = [name for name, index in zip(rule.chosen, indices, strict=True) if not 0 <= index < len(first)]
        fault = f"There is no column {outside[0]}; the first line has {len(first)} columns." if outside else ""
        return Columns((indices[0], indices[1]), rule.names[0], reason="as chosen", fault=fault)
    missing = [name for name in rule.chosen if name not in first]
    if missing:
        fault = f"There is no column '{missing[0]}'; the first line has: {', '.join(first)[:200]}."
        return Columns((0, 1), rule.names[0], fault=fault)
    twice = next((name for name in rule.chosen if first.count(name) > 1), "")
    source, target = rule.chosen
    fault = f"Two columns are called '{twice}'." if twice else ""
    return Columns((first.index(source), first.index(target)), (source, target), True, "as chosen", fault)


def _labeled_columns(rows: Sequence[Sequence[str]], rule: ColumnRule) -> Columns:
    """A label has few distinct values; its text is the longest other column."""
    body = rows[1:]
    labels = [index for index in range(len(rows[0])) if is_label([row[index] for row in body])]
    named = [index for index in labels if rows[0][index].strip().lower() in LABELS]
    labels = named or labels
    if len(labels) > 1:
        numbers = " and ".join(str(index + 1) for index in labels)
        if len(rows[0]) == len(DEFAULT_COLUMNS):
            return Columns(rule.fallback, rule.names[0])  # the texts recur as often as labels: the usual order
        fault = f"Columns {numbers} have few distinct values each, and either could be the label."
        return Columns(rule.fallback, rule.names[0], fault=fault)
    if not labels:
        return Columns(rule.fallback, rule.names[0])
    target = labels[0]
    others = [index for index in range(len(rows[0])) if index != target]
    source = max(others, key=lambda index: sum(len(row[index]) for row in body))
    header = _is_header(rows[0], body, source, target)
    names = (rows[0][source].strip(), rows[0][target].strip()) if header else rule.names[0]
    reason = "by their content: the label has few distinct values"
    return Columns((source, target), (names[0], names[1]), header, reason)


def is_label(values: Sequence[str]) -> bool:
    """Whether each of a column's short values occurs often, and there are at least two.

    >>> is_label(["good", "bad"] * 3), is_label(["good", "bad", "fair"]), is_label(["x"] * 9)
    (True, False, False)
    """
    distinct = {value.strip() for value in values}
    return (
        len(distinct) > 1 and len(distinct) * MIN_COUNT <= len(values) and max(map(len, distinct)) <= MAX_LABEL_LENGTH
    )


def _is_header(first: Sequence[str], body: Sequence[Sequence[str]], source: int, target: int) -> bool:
    """Whether the first row has names: its label is no label of the other rows, and its text is one short word."""
    name, text = first[target].strip(), first[source].strip()
    lengths = sorted(len(row[source]) for row in body)
    return (
        name not in {row[target].strip() for row in body}
        and 0 < len(text) <= MAX_NAME_LENGTH
        and len(text.split()) == 1
        and not name.replace(".", "").lstrip("-").isdigit()
        and len(text) < lengths[len(lengths) // 2]
    )


def _pair_columns(rows: Sequence[Sequence[str]], rule: ColumnRule) -> Columns:
    """Columns before the texts that only number the rows are left out, if two columns of different texts follow."""
    columns = range(len(rows[0]))
    numbers = [index for index in columns if _numbers_rows([row[index] for row in rows])]
    texts = [index for index in columns if index not in numbers and _are_texts([row[index] for row in rows])]
    if 0 not in numbers or len(texts) < 2 or rule.fallback != (0, 1):
        return Columns(rule.fallback, rule.names[0])
    return Columns((texts[0], texts[1]), rule.names[0], reason="by their content: the first column numbers the rows")


def _numbers_rows(values: Sequence[str]) -> bool:
    """Whether a column has only integers, each of them once."""
    return len(values) > 1 and all(value.strip().isdigit() for value in values) and len(set(values)) == len(values)


def _are_texts(values: Sequence[str]) -> bool:
    """Whether most values of a column are different texts."""
    return not all(value.strip().isdigit() for value in values) and 2 * len(set(values)) > len(values)


def has_labels(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table has texts with labels: by their names, or by what the columns hold.

    >>> has_labels([["id", "review", "stars"]]), has_labels([["a", "b"]] * 30)
    (True, False)
    """
    rows = [row for row in rows if len(row) == len(rows[0])]
    if not rows or len(rows[0]) < 2:
        return False
    names = [cell.strip().lower() for cell in rows[0]]
    if found := find_columns(names) or usual_pair(names, True):
        return found[0] in TEXTS and found[1] in LABELS
    body = rows[1:]
    labels = [index for index in range(len(names)) if is_label([row[index] for row in body])]
    texts = [index for index in range(len(names)) if _are_texts([row[index] for row in body])]
    return len(body) >= MIN_LABELED_ROWS and bool(labels) and len(texts) == 1


def describe(columns: Columns, labeled: bool, pairs: Sequence[tuple[str, str]], escape: Callable[[str], str]) -> str:
    """One line about the decision, with the first two examples."""
    numbers = [index + 1 for index in columns.indices]
    roles = ("text", "label") if labeled else DEFAULT_COLUMNS
    named = zip(roles, columns.names, numbers, strict=True)
    parts = [f"{role} = column {number}" + (f" '{name}'" if columns.header else "") for role, name, number in named]
    shown = "; ".join(f"{escape(source)} → {escape(target)}" for source, target in pairs)
    reason = columns.reason or "no header, as usual"
    return f"columns: {', '.join(parts)} ({reason}); {shown}" if shown else f"columns: {', '.join(parts)} ({reason})"
