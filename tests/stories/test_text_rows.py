"""Benchmark rows of text tasks: a row has the scores of `seq2see eval`, and a table has the rows of its task."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import row_files
import rows as row_command
import texts
from row_files import Row, read_rows, write_row
from tiny_recipes import tiny_recipe

from seq2see.core.errors import UserError
from seq2see.recipes.registry import RECIPES, resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.run_folder import RunFolder
from seq2see.training.loop import read_metrics

TAGGED = "".join(
    f"{who} B-PER\n{verb} O\n{location} B-LOC\n\n"
    for who in ("Ann", "Bob", "小明") for verb in ("sees", "loves", "visits") for location in ("Rome", "Oslo", "北京")
)  # fmt: skip
LABELED = "".join(
    f"the {thing} is {word}\t{label}\n"
    for thing in ("video", "book", "song", "电影", "书") for word, label in (("good", "praise"), ("坏", "blame"))
)  # fmt: skip
TEXT = "the cat sat on the mat. 猫坐在垫子上。\n" * 60
DATA = {
    "tag": ("names.conll", TAGGED, {"source.tokenizer.vocab_size": 330}),
    "classify-text": ("my.tsv", LABELED, {"source.tokenizer.vocab_size": 330, "training.patience": 1}),
    "write": ("book.txt", TEXT, {"target.max_tokens": 24}),
    "fill-bert": ("book.txt", TEXT, {"source.max_tokens": 24, "source.tokenizer.vocab_size": 330}),
    "ngram": ("book.txt", TEXT, {}),
}


@pytest.fixture
def made(tmp_path, monkeypatch, request) -> tuple[Row, RunFolder]:
    """A row of the command line, and its run."""
    name, text, changes = DATA[request.param]
    (tmp_path / name).write_text(text, encoding="utf-8")
    small = resolve if request.param == "ngram" else lambda base, data, more: tiny_recipe(data[0], base, **more)
    monkeypatch.setattr(row_files, "resolve", lambda base, _, more: small(base, [tmp_path / name], changes | more))
    row_command.main(["row", request.param, "--out", str(tmp_path / "rows")])
    (row,) = read_rows(tmp_path / "rows")
    assert (tmp_path / "rows" / f"{row.name}.json").stat().st_size < 4096
    return row, RunFolder(tmp_path / "rows" / "runs" / row.name)


def final_loss(run: RunFolder) -> float:
    """The validation loss of the final weights, from the metrics log."""
    losses = [note["valid_loss"] for note in read_metrics(run.path / "metrics.jsonl") if "valid_loss" in note]
    return min(losses) if run.recipe().training.patience else losses[-1]


@pytest.mark.parametrize("made", ["tag", "classify-text"], indirect=True)
def test_rows_of_classifiers_and_taggers_have_accuracies(made):
    row, run = made
    scores = evaluate(run)["test"]
    assert row.metrics["test_accuracy"] == scores["accuracy"]
    assert row.metrics["test_macro_f1"] == scores["macro_f1"]
    assert row.metrics["valid_loss"] == pytest.approx(final_loss(run), rel=1e-5)
    assert 0 <= row.metrics["valid_accuracy"] <= 100
    assert row.metrics["weights"] > 0
    assert row.metrics["seconds"] > 0
    assert ("test_spans_f1" in row.metrics) == (row.recipe == "tag")
    assert "test_perplexity" not in row.metrics
    assert row.outputs == {}


@pytest.mark.parametrize("made", ["write"], indirect=True)
def test_rows_of_language_models_have_perplexities(made):
    row, run = made
    scores = evaluate(run)["perplexity"]
    assert row.metrics["test_perplexity"] == scores["per_token"]
    assert row.metrics["test_bits_per_character"] == scores["bits_per_character"]
    assert row.metrics["test_accuracy"] == scores["token_accuracy"]
    assert row.metrics["valid_loss"] == pytest.approx(final_loss(run), rel=1e-5)
    assert row.metrics["valid_perplexity"] == pytest.approx(math.exp(row.metrics["valid_loss"]))
    assert row.metrics["valid_bits_per_character"] == pytest.approx(row.metrics["valid_loss"] / math.log(2))


@pytest.mark.parametrize("made", ["fill-bert"], indirect=True)
def test_masked_tokens_and_next_sentences_have_separate_scores(made):
    row, run = made
    scores = evaluate(run)
    assert row.metrics["test_accuracy"] == scores["masked_tokens"]["accuracy"]
    assert row.metrics["test_next_sentence_accuracy"] == scores["next_sentence"]["accuracy"]


@pytest.mark.parametrize("made", ["ngram"], indirect=True)
def test_an_ngram_model_has_neither_steps_nor_weights(made):
    row, _ = made
    assert row.metrics.keys().isdisjoint({"steps", "weights"})
    assert row.metrics["test_perplexity"] > 1


def test_a_series_is_measured_elsewhere(tmp_path, monkeypatch):
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("".join(f"{math.sin(index / 5)}\n" for index in range(400)), encoding="utf-8")
    monkeypatch.setattr(row_files, "resolve", lambda base, _, more: tiny_recipe(numbers, base, **more))
    with pytest.raises(UserError, match="series"):
        row_command.main(["row", "forecast-autoregressive", "--out", str(tmp_path / "rows")])


def test_each_task_has_its_table_in_the_order_of_its_page(tmp_path):
    found = {"steps": 5, "weights": 7, "valid_loss": 1.5, "valid_accuracy": 90.0, "test_accuracy": 91.0}
    words = {"valid_perplexity": 90.5, "test_perplexity": 80.25, "test_bits_per_character": 1.25}
    for name, more in (("ptb-awd-lstm", words), ("ptb-lstm", words), ("ud-chinese-gsd", {"test_macro_f1": 80.0})):
        for seed in (1, 2):
            write_row(Row(name, seed, metrics=found | more), tmp_path / "rows")
    results = tmp_path / "texts.json"
    texts.main(["collect", str(tmp_path / "rows"), "--results", str(results)])
    tables = json.loads(results.read_text())["tables"]
    assert [row["recipe"] for row in tables["ptb"]["rows"]] == ["ptb-lstm", "ptb-awd-lstm"]
    assert tables["ptb"]["rows"][1]["test_perplexity"] == [80.25, 80.25]
    assert [each["title"] for each in tables["ptb"]["columns"]][-3:] == [
        "valid perplexity", "test perplexity", "test bits per character",
    ]  # fmt: skip
    assert [each["title"] for each in tables["tags"]["columns"]][-3:] == [
        "valid accuracy %", "test accuracy %", "test macro F1 %",
    ]  # fmt: skip
    assert tables["shakespeare"]["rows"] == tables["labels"]["rows"] == []


def test_a_row_that_no_table_shows_is_refused(tmp_path):
    write_row(Row("g2p", 1), tmp_path)
    with pytest.raises(UserError, match="g2p"):
        texts.main(["collect", str(tmp_path), "--results", str(tmp_path / "texts.json")])


def test_every_table_shows_existing_recipes():
    shown = [name for names, _ in texts.TABLES.values() for name in names]
    assert set(shown) <= RECIPES.keys()
    assert len(set(shown)) == len(shown)
