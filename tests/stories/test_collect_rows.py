"""Benchmark rows: a row file has the metrics of a run, and tables have the values of the rows."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import row_files
import rows as row_command
from collect_rows import Corpus, ablation_table, collect, gather_tables, lengths_table, metrics_table
from row_files import Row, make_row, read_rows, same_seeds, score_row, write_row
from tiny_recipes import tiny_recipe, write_pairs

from seq2see.core.errors import UserError
from seq2see.metrics.bleu import corpus_bleu
from seq2see.runs.run_folder import RunFolder

SOURCES = [" ".join(["word"] * length) for length in (3, 8, 9, 12, 12, 21)]
REFERENCES = [f"the small dog number {index} runs over the green grass today ." for index in range(6)]
TEST = Corpus(SOURCES, REFERENCES)
LADDER = ("low", "middle", "high")


def outputs(wrong: int, seed: int = 0) -> list[str]:
    """The references, with `wrong` of the sentences changed; which ones depends on the seed."""
    spoilt = {(seed + index) % 6 for index in range(wrong)}
    return [text.replace("dog", "cat") if index in spoilt else text for index, text in enumerate(REFERENCES)]


def row(recipe: str, seed: int, wrong: int, label: str = "") -> Row:
    texts = outputs(wrong, seed)
    bleu = corpus_bleu(texts, REFERENCES).value
    metrics = {"steps": 100, "weights": 7, "seconds": 10.0 + seed, "valid_bleu": bleu - 1, "test_bleu": bleu}
    machine = {"python": "3.12", "torch": "2.11", "device": "GPU"}
    return Row(recipe, seed, label, {"a": 1} if label else {}, metrics, {"bleu": "tok:13a"}, {"test": texts}, machine)


ROWS = [
    *(row("low", seed, wrong=5) for seed in (1, 2)),
    *(row("high", seed, wrong=0) for seed in (1, 2, 3)),
    *(row("high", seed, wrong=3, label="without x") for seed in (1, 2)),
    row("high", 1, wrong=1, label="without y"),
    row("high", 9, wrong=1, label="another seed"),
]


@pytest.fixture(scope="module")
def found() -> dict:
    return collect(ROWS, LADDER, TEST)


class TestTables:
    def test_the_ladder_has_a_row_for_each_measured_recipe_with_a_value_for_each_seed(self, found):
        table = found["tables"]["ladder"]
        assert [each["recipe"] for each in table["rows"]] == ["low", "high"]
        low, high = table["rows"]
        assert low["seconds"] == [11.0, 12.0]
        assert low["weights"] == 7
        assert high["test_bleu"] == [100.0, 100.0, 100.0]
        assert "p" not in low
        assert high["p"] == pytest.approx(1 / 1001)

    def test_neighbors_are_compared_as_a_whole_and_seed_by_seed(self, found):
        (step,) = found["tables"]["neighbors"]["rows"]
        assert (step["first"], step["second"]) == ("low", "high")
        low = [each.metrics["test_bleu"] for each in ROWS[:2]]
        assert step["difference"] == pytest.approx(100 - sum(low) / 2, abs=1e-3)
        assert step["p_of_seeds"] == "0.001, 0.001"  # seed 3 has no counterpart

    def test_an_ablation_is_compared_with_the_same_seeds_and_ordered_by_its_loss(self):
        table = ablation_table(ROWS, TEST)["rows"]
        assert [each["change"] for each in table] == ["baseline", "without x", "without y", "another seed"]
        whole, x, y, alone = table
        assert len(whole["test_bleu"]) == 3
        cost = sum(each.metrics["test_bleu"] for each in ROWS[5:7]) / 2 - 100
        assert x["difference"] == pytest.approx(cost, abs=1e-3)
        assert x["valid_difference"] == pytest.approx(cost, abs=1e-3)
        assert x["settings"] == {"a": 1}
        assert x["difference"] < y["difference"] < 0
        assert "difference" not in alone

    def test_sentences_are_grouped_by_their_source_words(self):
        table = lengths_table({"low": [row("low", 3, wrong=2)]}, TEST)["rows"]
        assert [(each["words"], each["pairs"]) for each in table] == [("1–8", 2), ("9–10", 1), ("11–12", 2), ("20+", 1)]
        # Seed 3 spoils sentences 3 and 4, those with 12 words.
        assert [each["low"][0] == 100 for each in table] == [True, True, False, True]

    def test_examples_are_the_outputs_of_all_recipes_for_a_sentence_that_changed(self, found):
        (example,) = found["examples"]  # the last rung lost nowhere
        index = SOURCES.index(example["source"])
        assert example["change"] == "low → high"
        assert example["reference"] == example["outputs"]["high"] == REFERENCES[index]
        assert example["outputs"]["low"] == REFERENCES[index].replace("dog", "cat")

    def test_long_sentences_are_no_examples(self):
        last = [*REFERENCES[:5], "x"]
        rungs = [Row("low", 1, outputs={"test": last}), row("high", 1, wrong=0)]
        assert collect(rungs, LADDER, TEST)["examples"] == []

    def test_the_largest_loss_of_the_last_recipe_is_shown_too(self):
        better, worse = row("middle", 1, wrong=0), row("high", 1, wrong=1)
        (example,) = collect([better, worse], LADDER, TEST)["examples"]
        assert example["change"] == "high → middle"

    def test_results_have_environment_and_signatures_and_no_other_outputs(self, found):
        assert found["environment"] == {"python": "3.12", "torch": "2.11", "device": "GPU"}
        assert found["signatures"] == {"bleu": "tok:13a"}
        assert json.dumps(found).count("the small dog") <= 3

    def test_every_column_has_values_in_some_row(self, found):
        for table in found["tables"].values():
            for column in table["columns"]:
                if column["key"] not in ("test_chrf", "test_bleu-tokenized"):
                    assert any(column["key"] in each for each in table["rows"]), column

    def test_any_recipe_gives_a_table_of_its_metrics(self):
        one = Row("g2p", 1, metrics={"steps": 5, "test_word_error_rate": 20.5, "test_decoding_seconds": 3.0})
        two = Row("g2p", 2, metrics={"steps": 5, "test_word_error_rate": 21.5})
        table = metrics_table([one, two])
        assert table["rows"][0]["test_word_error_rate"] == [20.5, 21.5]
        titles = [column["title"] for column in table["columns"]]
        assert "test word error rate %" in titles
        assert not any("decoding" in title or "valid" in title for title in titles)

    def test_rows_are_added_to_a_results_file_and_replace_older_ones(self, tmp_path, capsys):
        def gathered(name: str, *rows: Row) -> dict:
            for each in rows:
                write_row(each, tmp_path / name)
            shown = {"all": (("one", "two"), ("accuracy",)), "none": (("three",), ())}
            gather_tables(tmp_path / name, tmp_path / "results.json", "command", shown, metrics_table)
            return json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))

        here, there = (
            {"python": "3.11", "torch": "2", "device": "here"},
            {"python": "3.12", "torch": "2", "device": "gone"},
        )
        one = Row("one", 1, metrics={"test_accuracy": 90.0}, environment=here)
        two = Row("two", 1, metrics={"test_accuracy": 80.0}, environment=here)
        gathered("first", two, one)
        again = replace(one, metrics={"test_accuracy": 91.0}, environment=there)
        found = gathered("then", again, replace(again, label="changed"))
        table = found["tables"]["all"]
        rows = [(row["recipe"], row["change"], row["test_accuracy"]) for row in table["rows"]]
        assert rows == [("one", "", [91.0]), ("one", "changed", [91.0]), ("two", "", [80.0])]
        assert table["columns"][-1]["key"] == "test_accuracy"
        assert found["tables"]["none"]["rows"] == []
        assert found["environment"] == {"python": "3.11, 3.12", "torch": "2", "device": "gone, here"}
        with pytest.raises(UserError, match="No table shows four"):
            gathered("last", replace(one, recipe="four"))

    def test_a_table_keeps_its_columns_without_new_rows(self, tmp_path, capsys):
        shown = {"all": (("one",), ("accuracy",)), "other": (("two",), ("accuracy",))}
        for name in ("one", "two"):
            write_row(Row(name, 1, metrics={"test_accuracy": 90.0}, environment=ROWS[0].environment), tmp_path / name)
            gather_tables(tmp_path / name, tmp_path / "results.json", "command", shown, metrics_table)
        tables = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["tables"]
        assert tables["all"]["columns"] == tables["other"]["columns"]
        assert tables["all"]["columns"][-1]["key"] == "test_accuracy"


class TestFiles:
    def test_a_row_survives_writing_and_reading(self, tmp_path):
        path = write_row(ROWS[5], tmp_path)
        assert path.name == "high-without-x-seed1.json"
        assert read_rows(tmp_path) == [ROWS[5]]

    def test_rows_are_paired_by_seed(self):
        pairs = same_seeds([row("a", seed, 0) for seed in (1, 2, 3)], [row("b", seed, 0) for seed in (3, 1)])
        assert [(a.seed, b.seed) for a, b in pairs] == [(1, 1), (3, 3)]

    def test_a_run_becomes_a_row_once(self, tmp_path, monkeypatch, capsys):
        pairs = write_pairs(tmp_path / "pairs.tsv")
        monkeypatch.setattr(row_files, "resolve", lambda name, data, changes: tiny_recipe(pairs, name, **changes))
        out = tmp_path / "rows"
        arguments = ["row", "pocket-transformer", "--seed", "5", "--label", "Tiny one", "--out", str(out)]
        arguments += ["--set", "training.steps=4", "--set", "target.head=untied"]
        row_command.main(arguments)
        (made,) = read_rows(out)
        assert (made.recipe, made.label, made.seed) == ("pocket-transformer", "Tiny one", 5)
        assert made.overrides == {"training.steps": 4, "target.head": "untied"}
        assert made.metrics["steps"] == 4
        assert made.metrics["seconds"] > 0
        assert {"valid_bleu", "test_bleu", "test_chrf", "valid_exact_match", "weights"} <= made.metrics.keys()
        assert {split: len(texts) for split, texts in made.outputs.items()} == {"valid": 3, "test": 3}
        assert made.signatures["bleu"].startswith("nrefs:1")
        run = RunFolder(out / "runs" / "pocket-transformer-tiny-one-seed5")
        assert run.recipe().training.seed == 5

        def never(*_):
            raise AssertionError("this run exists already")

        monkeypatch.setattr(row_files, "train_recipe", never)
        row_command.main(arguments)
        assert "exists already" in capsys.readouterr().out
        (out / f"{made.name}.json").unlink()
        row_command.main([*arguments, "--shared"])  # the run exists without its row file; its time is unknown
        (shared,) = read_rows(out)
        assert shared.metrics == {name: value for name, value in made.metrics.items() if name != "seconds"} | {
            name: value for name, value in shared.metrics.items() if name.endswith("decoding_seconds")
        }
        again = make_row(Row(made.recipe, 5, made.label, made.overrides), out)
        assert (again.outputs, again.metrics["seconds"]) == (made.outputs, made.metrics["seconds"])
        assert score_row(Row("ensemble", 1), run, {}).outputs == made.outputs
        row_command.main(["table", str(out), "--results", str(tmp_path / "results" / "x.json")])
        stored = json.loads((tmp_path / "results" / "x.json").read_text())
        assert stored["rows"][0]["test_bleu"] == [round(made.metrics["test_bleu"], 4)]
        assert stored["command"] == "python benchmarks/rows.py"
