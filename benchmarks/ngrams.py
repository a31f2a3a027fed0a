"""n-gram models by order and smoothing, Zipf's law, and the speed of tokenizing and counting: results/ngrams.json.

    python benchmarks/ngrams.py          about two minutes
    python benchmarks/ngrams.py "..."    the same, with a note on other load of the machine

Penn Treebank: the words of its files, and every line end is a word, as is the usual convention: 82,430 predictions
on the test file, 3,761 of them line ends. The text is one sequence, so the context of the first words of a line is the
end of the previous line. Shakespeare: characters, the last tenth of the plays.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.data.catalogue.catalogue import CatalogueText
from seq2see.data.ngrams import NgramCounts, count_ngrams
from seq2see.data.tokenizers.tokenizer import BOS, BPE, Characters, Whitespace, train_tokenizer
from seq2see.data.windows import TextDataset, split_lines
from seq2see.metrics.zipf import zipf_slope
from seq2see.models.ngram_lm import MAX_ORDER
from seq2see.recipes.registry import recipe
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.ngram import frequencies, ngram_loss, ngram_model
from seq2see.tasks.task import task_of
from seq2see.training.ngram_smoothing import SMOOTHINGS

RESULTS = Path(__file__).parent / "results" / "ngrams.json"
REPEATS = 5
PUBLISHED = {3: 148.3, 5: 141.2}
"""Test perplexity of Kneser-Ney on the Penn Treebank, by order, without cut-offs: Mikolov et al. 2011."""
HEAD = 100
"""The highest rank in the head of Zipf's line."""

Row = dict[str, Any]


def training_ngrams(chosen: Recipe, split: str) -> tuple[TextDataset, list[NgramCounts], TextDataset]:
    """The training text, its n-grams, and the text of the evaluation."""
    splits = chosen.corpus.splits()
    tokenizers = task_of(chosen).fit(chosen, splits["train"])
    train, test = (task_of(chosen).dataset(chosen, tokenizers, splits[name]) for name in ("train", split))
    assert isinstance(train, TextDataset)
    assert isinstance(test, TextDataset)
    return train, list(count_ngrams(train.ids, len(train.tokenizer), MAX_ORDER)), test


def by_order(chosen: Recipe, ngrams: list[NgramCounts], test: TextDataset) -> list[Row]:
    """A row for each order: the share of unseen n-grams, and the perplexity with each smoothing."""
    rows = []
    for order in range(1, MAX_ORDER + 1):
        row: Row = {"order": order, "types": int((ngrams[order - 1].counts > 0).sum())}
        for smoothing in SMOOTHINGS:
            model = ngram_model(chosen.with_(**{"decoder.smoothing": smoothing}), ngrams[:order])
            result = ngram_loss(model.decoder, test, ngrams[0])
            row |= {"unseen": 100 * result.unseen, smoothing: math.exp(result.loss)}
        row["bits"] = result.loss / math.log(2) * len(test.ids) / test.characters
        rows.append(row)
        print(row, flush=True)
    return rows


def lines_in(texts: TextDataset) -> list[NDArray[np.int32]]:
    """The token ids of each line with its line end."""
    (newline_id,) = texts.tokenizer.encode("\n")
    return np.split(texts.ids, np.flatnonzero(texts.ids == newline_id) + 1)[:-1]


def count_lines(train: TextDataset, order: int) -> Iterator[NgramCounts]:
    """n-grams as in `count_ngrams`, but every line begins with <bos> and no n-gram crosses it."""
    size = len(train.tokenizer)
    text = np.concatenate([part for line in lines_in(train) for part in ([BOS], line)]).astype(np.int64)
    times = np.arange(len(text)) - np.maximum.accumulate(np.where(text == BOS, np.arange(len(text)), 0))
    numbers = text
    yield NgramCounts(1, size, np.arange(size), np.bincount(text[text != BOS], minlength=size), np.arange(size))
    for length in range(2, order + 1):
        ends = np.flatnonzero(times >= length - 1)  # the last positions of n-grams that are within one line
        keys, first, inverse, counts = np.unique(
            numbers[ends - 1] * size + text[ends], return_index=True, return_inverse=True, return_counts=True
        )
        yield NgramCounts(length, size, keys, counts, numbers[ends][first])
        numbers = np.zeros_like(text)
        numbers[ends] = inverse


def by_line(chosen: Recipe, train: TextDataset, test: TextDataset, order: int) -> float:
    """The perplexity with every line as a separate text, as in the published results."""
    decoder = ngram_model(chosen, list(count_lines(train, order))).decoder
    ids = (torch.from_numpy(line.astype(np.int64)) for line in lines_in(test))
    loss = sum(float(-decoder.score_text(line)[0].log().sum()) for line in ids)
    return math.exp(loss / len(test.ids))


def zipf_rows(corpus: str, ngrams: list[NgramCounts]) -> list[Row]:
    """The slopes of frequency over rank for single tokens, pairs and triples."""
    rows = []
    for each in ngrams[:3]:
        spectrum = frequencies(each)
        counts, times = spectrum["counts"], spectrum["frequencies"]
        once = times[-1] if counts[-1] == 1 else 0
        slopes = {"slope": zipf_slope(counts, times), "head": zipf_slope(counts, times, 1, HEAD)}
        if sum(times) > HEAD:
            slopes["tail"] = zipf_slope(counts, times, HEAD)
        row: Row = {"corpus": corpus, "order": each.order, "types": sum(times), "once": 100 * once / sum(times)}
        rows.append(row | slopes)
    return rows


def best(*tasks: Callable[[], object]) -> list[float]:
    """Seconds of the fastest repeat of each task; the tasks alternate, so that other load affects all equally."""
    times: list[list[float]] = [[] for _ in tasks]
    for _ in range(REPEATS):
        for task, seconds in zip(tasks, times, strict=True):
            began = time.monotonic()
            task()
            seconds.append(time.monotonic() - began)
    return [min(seconds) for seconds in times]


def speed_row(corpus: str, kind: Any) -> Row:
    """The speed of encoding by `tokenizers` alone, of converting a text to an array of ids, and of counting."""
    (example,) = CatalogueText(name=corpus).splits()["train"]
    tokenizer = train_tokenizer(kind, [example.target])
    lines = split_lines(example.target)
    encode_alone = tokenizer._library.encode_batch_fast
    ids = TextDataset([example], tokenizer, width=64).ids
    raw, total, count = best(
        lambda: encode_alone(lines, add_special_tokens=False),
        lambda: TextDataset([example], tokenizer, width=64),
        lambda: list(count_ngrams(ids, len(tokenizer), 5)),
    )
    row = {"corpus": corpus, "tokenizer": kind.kind, "tokens": len(ids), "raw": len(ids) / raw, "ids": len(ids) / total}
    row |= {"share": 100 * raw / total, "counted": len(ids) / count}
    print(row, flush=True)
    return row


def column(key: str, title: str, digits: int | None = None) -> Row:
    """A column of a table."""
    return {"key": key, "title": title} | ({} if digits is None else {"digits": digits})


ORDERS = [
    column("order", "order"), column("types", "n-gram types"), column("unseen", "unseen %", 1),
    *(column(smoothing, smoothing, 2) for smoothing in SMOOTHINGS), column("bits", "bits per character", 3),
    column("by_line", "line by line", 2), column("published", "published", 1),
]  # fmt: skip
ZIPF = [
    column("corpus", "corpus"), column("order", "order"), column("types", "n-gram types"),
    column("once", "seen once %", 1), column("slope", "slope", 2), column("head", "slope, ranks to 100", 2),
    column("tail", "slope, ranks from 100", 2),
]  # fmt: skip
SPEED = [
    column("corpus", "corpus"), column("tokenizer", "tokenizer"), column("tokens", "tokens"),
    column("raw", "tokenizers alone, tokens per second", 0), column("ids", "text to array, tokens per second", 0),
    column("share", "share %", 0), column("counted", "counted to order 5, tokens per second", 0),
]  # fmt: skip


def main() -> None:
    """Measure and store all tables."""
    treebank, plays = recipe("ptb-ngram"), recipe("ngram").with_(corpus=CatalogueText())
    sentences, words, test = training_ngrams(treebank, "test")
    _, letters, valid = training_ngrams(plays, "valid")
    rows = by_order(treebank, words, test)
    for order, perplexity in PUBLISHED.items():
        rows[order - 1] |= {"by_line": by_line(treebank, sentences, test, order), "published": perplexity}
    tables = {
        "ptb": {"columns": ORDERS, "rows": rows},
        "shakespeare": {"columns": ORDERS, "rows": by_order(plays, letters, valid)},
        "zipf": {"columns": ZIPF, "rows": [*zipf_rows("ptb", words), *zipf_rows("tinyshakespeare", letters)]},
    }
    kinds = (
        ("ptb", Whitespace()),
        ("ptb", BPE()),
        ("tinyshakespeare", Characters()),
        ("tinyshakespeare", BPE()),
    )
    tables["speed"] = {"columns": SPEED, "rows": [speed_row(*each) for each in kinds]}
    environment = describe_machine() | ({"note": sys.argv[1]} if len(sys.argv) > 1 else {})
    write_json(RESULTS, {"environment": environment, "command": "python benchmarks/ngrams.py", "tables": tables})


if __name__ == "__main__":
    main()
