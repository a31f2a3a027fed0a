"""Counting models by order and smoothing, Zipf's law, and how fast text is read and counted: results/ngrams.json.

    python benchmarks/ngrams.py          about two minutes
    python benchmarks/ngrams.py "..."    the same, with a note on what else the machine did meanwhile

Penn Treebank: words as its files cut them, and the end of every line is a word too, as everybody counts them: 82,430
guesses on the test file, 3,761 of them line ends. The text is read in one piece, so the first words of a line are
guessed from the last of the line before. Shakespeare: characters, the last tenth of the plays.
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
from seq2see.metrics.zipf import zipf_slope
from seq2see.models.ngram_lm import MAX_ORDER
from seq2see.recipes.registry import recipe
from seq2see.runs.ngram_training import frequencies, ngram_loss, ngram_model
from seq2see.runs.prepare import encode, learn_tokenizers
from seq2see.runs.recipe import Recipe
from seq2see.sequences.ngrams import NgramCounts, count_ngrams
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import BOS, BPE, Characters, Whitespace
from seq2see.sequences.windows import TextDataset, split_lines
from seq2see.sources.catalogue_texts import CatalogueText
from seq2see.training.ngram_smoothing import SMOOTHINGS

RESULTS = Path(__file__).parent / "results" / "ngrams.json"
REPEATS = 5
PUBLISHED = {3: 148.3, 5: 141.2}
"""Test perplexity of Kneser-Ney on the Penn Treebank, by order, without cut-offs: Mikolov et al. 2011."""
HEAD = 100
"""Ranks up to here are the head of Zipf's line."""

Row = dict[str, Any]


def training_ngrams(chosen: Recipe, split: str) -> tuple[TextDataset, list[NgramCounts], TextDataset]:
    """The training text, its n-grams, and the text they are judged on."""
    splits = chosen.corpus.splits()
    tokenizers = learn_tokenizers(chosen, splits["train"])
    train, test = (encode(chosen, tokenizers, splits[name]) for name in ("train", split))
    assert isinstance(train, TextDataset)
    assert isinstance(test, TextDataset)
    return train, list(count_ngrams(train.ids, len(train.tokenizer), MAX_ORDER)), test


def by_order(chosen: Recipe, ngrams: list[NgramCounts], test: TextDataset) -> list[Row]:
    """A row for each order: how new the text is, and how well each smoothing guesses it."""
    rows = []
    for order in range(1, MAX_ORDER + 1):
        row: Row = {"order": order, "kinds": int((ngrams[order - 1].counts > 0).sum())}
        for smoothing in SMOOTHINGS:
            model = ngram_model(chosen.with_(**{"decoder.smoothing": smoothing}), ngrams[:order])
            found = ngram_loss(model.decoder, test, ngrams[0])
            row |= {"unseen": 100 * found.unseen, smoothing: math.exp(found.loss)}
        row["bits"] = found.loss / math.log(2) * len(test.ids) / test.characters
        rows.append(row)
        print(row, flush=True)
    return rows


def lines_in(texts: TextDataset) -> list[NDArray[np.int32]]:
    """The ids of each line, its end among them."""
    (end,) = texts.tokenizer.encode("\n")
    return np.split(texts.ids, np.flatnonzero(texts.ids == end) + 1)[:-1]


def count_lines(train: TextDataset, order: int) -> Iterator[NgramCounts]:
    """n-grams as `count_ngrams` has them, but every line begins with <bos> and none reaches back over it."""
    size = len(train.tokenizer)
    text = np.concatenate([part for line in lines_in(train) for part in ([BOS], line)]).astype(np.int64)
    times = np.arange(len(text)) - np.maximum.accumulate(np.where(text == BOS, np.arange(len(text)), 0))
    numbers = text
    yield NgramCounts(1, size, np.arange(size), np.bincount(text[text != BOS], minlength=size), np.arange(size))
    for length in range(2, order + 1):
        whole = np.flatnonzero(times >= length - 1)  # where an n-gram ends that lies within its line
        keys, first, found, counts = np.unique(
            numbers[whole - 1] * size + text[whole], return_index=True, return_inverse=True, return_counts=True
        )
        yield NgramCounts(length, size, keys, counts, numbers[whole][first])
        numbers = np.zeros_like(text)
        numbers[whole] = found


def by_line(chosen: Recipe, train: TextDataset, test: TextDataset, order: int) -> float:
    """The perplexity if every line is a text of its own, as the published figures have it."""
    decoder = ngram_model(chosen, list(count_lines(train, order))).decoder
    loss = sum(float(-decoder.told(torch.from_numpy(line.astype(np.int64)))[0].log().sum()) for line in lines_in(test))
    return math.exp(loss / len(test.ids))


def zipf_rows(corpus: str, ngrams: list[NgramCounts]) -> list[Row]:
    """The slopes of frequency over rank for single tokens, pairs and triples."""
    rows = []
    for each in ngrams[:3]:
        found = frequencies(each)
        counts, times = found["counts"], found["frequencies"]
        once = times[-1] if counts[-1] == 1 else 0
        slopes = {"slope": zipf_slope(counts, times), "head": zipf_slope(counts, times, 1, HEAD)}
        if sum(times) > HEAD:
            slopes["tail"] = zipf_slope(counts, times, HEAD)
        row: Row = {"corpus": corpus, "order": each.order, "kinds": sum(times), "once": 100 * once / sum(times)}
        rows.append(row | slopes)
    return rows


def best(*tasks: Callable[[], object]) -> list[float]:
    """Seconds of the quickest of a few tries of each, which take turns: what else the machine does hits all alike."""
    times: list[list[float]] = [[] for _ in tasks]
    for _ in range(REPEATS):
        for task, mine in zip(tasks, times, strict=True):
            began = time.monotonic()
            task()
            mine.append(time.monotonic() - began)
    return [min(mine) for mine in times]


def speed_row(corpus: str, kind: Any) -> Row:
    """Raw encoding by `tokenizers`, the whole way from a text to an array of ids, and counting."""
    (example,) = CatalogueText(name=corpus).splits()["train"]
    tokenizer = train_tokenizer(kind, [example.target])
    lines = split_lines(example.target)
    encode_alone = tokenizer._library.encode_batch_fast
    ids = TextDataset([example], tokenizer, width=64).ids
    raw, whole, count = best(
        lambda: encode_alone(lines, add_special_tokens=False),
        lambda: TextDataset([example], tokenizer, width=64),
        lambda: list(count_ngrams(ids, len(tokenizer), 5)),
    )
    row = {"corpus": corpus, "tokenizer": kind.kind, "tokens": len(ids), "raw": len(ids) / raw, "ids": len(ids) / whole}
    row |= {"share": 100 * raw / whole, "counted": len(ids) / count}
    print(row, flush=True)
    return row


def column(key: str, title: str, digits: int | None = None) -> Row:
    """How a column of a table is shown."""
    return {"key": key, "title": title} | ({} if digits is None else {"digits": digits})


ORDERS = [
    column("order", "order"), column("kinds", "kinds of n-grams"), column("unseen", "unseen %", 1),
    *(column(smoothing, smoothing, 2) for smoothing in SMOOTHINGS), column("bits", "bits per character", 3),
    column("by_line", "line by line", 2), column("published", "published", 1),
]  # fmt: skip
ZIPF = [
    column("corpus", "corpus"), column("order", "order"), column("kinds", "kinds of n-grams"),
    column("once", "seen once %", 1), column("slope", "slope", 2), column("head", "slope, ranks to 100", 2),
    column("tail", "slope, ranks from 100", 2),
]  # fmt: skip
SPEED = [
    column("corpus", "corpus"), column("tokenizer", "tokenizer"), column("tokens", "tokens"),
    column("raw", "tokenizers alone, tokens per second", 0), column("ids", "text to array, tokens per second", 0),
    column("share", "share %", 0), column("counted", "counted to order 5, tokens per second", 0),
]  # fmt: skip


def main() -> None:
    """Measure all of it and store it."""
    treebank, plays = recipe("ptb-ngram"), recipe("ngram").with_(corpus=CatalogueText())
    sentences, words, test = training_ngrams(treebank, "test")
    _, letters, valid = training_ngrams(plays, "valid")
    rows = by_order(treebank, words, test)
    for order, figure in PUBLISHED.items():
        rows[order - 1] |= {"by_line": by_line(treebank, sentences, test, order), "published": figure}
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
