"""Scores of outputs: both kinds of BLEU with their signatures, and comparisons of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.cli.evaluate import print_scores
from seq2see.core.errors import UserError
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.metrics.bleu import has_moses
from seq2see.recipes.registry import recipe, resolve
from seq2see.runs import evaluate
from seq2see.runs.compare import compare_answers, largest_changes
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from seq2see.tasks import text_scores, translate
from seq2see.tasks.task import task_named, task_of
from seq2see.tasks.text_scores import score_outputs
from seq2see.tasks.translate import Translate, target_language

OUTPUTS, REFERENCES = ["ein mann singt im regen ."], ["Ein Mann singt im Regen."]


def german():
    changes = {"corpus": CatalogueCorpus(languages="en-de"), "metrics": ("bleu", "bleu-tokenized")}
    return recipe("pocket-transformer").model_copy(update=changes)


def test_the_target_language_comes_from_the_corpus():
    assert target_language(german()) == "de"
    assert target_language(recipe("puzzle-copy")) == "en"


@pytest.mark.skipif(not has_moses(), reason="the extra `moses` is not installed")
def test_both_bleus_are_shown_side_by_side_each_with_its_signature(capsys):
    scores = score_outputs(german().metrics, REFERENCES, OUTPUTS, language="de")
    assert scores["bleu-tokenized"]["value"] == pytest.approx(100)
    assert scores["bleu"]["value"] < 50
    truth = {"per_token": 2.0, "bits_per_character": 1.0, "token_accuracy": 50.0}
    print_scores(task_named("translate"), "here", {"test": scores, "perplexity": truth})
    shown = " ".join(capsys.readouterr().out.split())
    assert "BLEU: sacreBLEU signature nrefs:1|case:mixed|eff:no|tok:13a" in shown
    assert "BLEU lower-cased, tokenized: sacreBLEU signature nrefs:1|case:lc|eff:no|tok:none" in shown
    assert "lang:de" in shown
    assert "100.0" in shown
    assert "chrF2" not in shown  # a metric that is not computed has no column


def test_scores_fit_into_80_columns(capsys):
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    truth = {"per_token": 2.0, "bits_per_character": 1.0, "token_accuracy": 50.0}
    truth |= {"unknown_rate": 1.5, "unit": "character"}
    print_scores(
        task_named("translate"),
        "here",
        {"test": {"pairs": 1, "bleu": {"value": 1, "signature": signature}}, "perplexity": truth},
    )
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"  {signature}" in lines


def test_any_of_several_references_counts():
    references = [("a cat", "one cat"), ("a dog",)]
    scores = score_outputs(("exact_match",), ["a cat", "a dog"], ["one cat", "a cat"], references)
    assert scores == {"pairs": 2, "exact_match": 50}


def test_without_its_package_a_metric_is_left_out(monkeypatch):
    monkeypatch.setattr(text_scores, "has_moses", lambda: False)
    assert score_outputs(german().metrics, REFERENCES, OUTPUTS).keys() == {"pairs", "bleu"}


def evaluated(path, rows):
    """A run folder with predictions only: (source, output, chrF2)."""
    lines = [f"{source}\treference\t{output}\t{score:.2f}\t-1.0\n" for source, output, score in rows]
    (path / "eval").mkdir(parents=True)
    (path / "eval" / "test.tsv").write_text("source\treference\toutput\tchrf\tscore\n" + "".join(lines))
    return RunFolder(path)


def test_the_largest_gains_come_first_and_the_largest_losses_last(tmp_path):
    names = "abcdefgh"
    before = evaluated(tmp_path / "one", [(name, "old", 50.0) for name in names])
    scores = [60.0, 40.0, 50.0, 90.0, 10.0, 51.0, 70.0, 30.0]
    after = evaluated(tmp_path / "two", list(zip(names, ["new"] * 8, scores, strict=True)))
    found = largest_changes(before, after, count=2)
    assert [(each.source, each.gain) for each in found] == [("d", 40.0), ("g", 20.0), ("h", -20.0), ("e", -40.0)]
    assert (found[0].first, found[0].second, found[0].reference) == ("old", "new", "reference")


def test_runs_that_were_tested_on_other_pairs_are_not_compared(tmp_path):
    runs = [evaluated(tmp_path / name, [(name, "x", 1.0)]) for name in "ab"]
    with pytest.raises(UserError, match="not tested on the same examples"):
        largest_changes(*runs)


@pytest.mark.parametrize(
    "task, scores, headline",
    [
        ("translate", {}, ""),
        (
            "translate",
            {"test": {"bleu": {"value": 31.26}, "exact_match": 5.0}, "perplexity": {"bits_per_character": 1.0}},
            "BLEU 31.3",
        ),
        (
            "translate",
            {"test": {"exact_match": 97.35}, "perplexity": {"bits_per_character": 1.0}},
            "exact match 97.3 %",
        ),
        ("tag", {"test": {"accuracy": 99.51, "macro_f1": 90.0}}, "accuracy 99.5 %"),
        ("translate", {"test": {"pronunciation": {"word_error_rate": 28.04}}}, "word error rate 28.0 %"),
        ("fill", {"masked_tokens": {"accuracy": 65.4, "perplexity": 5.0}}, "masked accuracy 65.4 %"),
        ("forecast", {"series": {"rows": [{"name": "model", "errors": {"1": 0.2104, "4": 0.3}}]}}, "RMSE 0.2104"),
        ("write", {"perplexity": {"bits_per_character": 0.9087}}, "0.909 bits per character"),
    ],
)
def test_every_task_has_one_score_in_the_list_of_runs(task, scores, headline):
    assert task_named(task).headline(scores) == headline


def with_predictions(folder: Path, recipe_name: str, rows: list[tuple[str, str, str]]) -> RunFolder:
    """A run folder with label predictions: text, label, prediction."""
    run = RunFolder(folder)
    run.evaluation.mkdir(parents=True)
    run.recipe_file.write_text(recipe(recipe_name).toml(), encoding="utf-8")
    lines = ["text\tlabel\tprediction\tprobability", *("\t".join([*row, "0.5"]) for row in rows), ""]
    (run.evaluation / "test-predictions.tsv").write_text("\n".join(lines), encoding="utf-8")
    return run


def test_examples_that_only_one_of_two_classifiers_gets_right_are_listed(tmp_path):
    texts = [("a", "very good"), ("b", "bad"), ("c", "bad"), ("d", "very good")]
    one = with_predictions(tmp_path / "one", "sst2-lstm", [(*each, "bad") for each in texts])
    other = with_predictions(
        tmp_path / "two", "sst2-lstm", [(*each, "very good") for each in texts[:3]] + [(*texts[3], "very bad")]
    )
    found = compare_answers(one, other)
    assert (found.accuracy.first.score, found.accuracy.second.score) == (50.0, 25.0)
    assert found.only_first == [["b", "bad", "bad", "very good"], ["c", "bad", "bad", "very good"]]
    assert found.only_second == [["a", "very good", "bad", "very good"]]


def test_every_tag_counts_and_missing_tags_do_not(tmp_path):
    truth = ("I see it", "I/A see/B it/A")
    one = with_predictions(tmp_path / "one", "ud-english-ewt", [(*truth, "I/A see/A it/B")])
    other = with_predictions(tmp_path / "two", "ud-english-ewt", [(*truth, "I/A see/B")])
    found = compare_answers(one, other)
    assert (found.accuracy.first.score, found.accuracy.second.score) == (pytest.approx(100 / 3), 100.0)
    assert found.only_second == [[*truth, "I/A see/A it/B", "I/A see/B"]]


def test_a_run_without_evaluation_is_not_compared(tmp_path):
    run = with_predictions(tmp_path / "one", "sst2-lstm", [("a", "x", "x")])
    with pytest.raises(UserError, match="not evaluated yet"):
        compare_answers(run, RunFolder(tmp_path / "nothing"))


def test_outputs_with_other_references_are_not_compared(tmp_path):
    first, second = (evaluated(tmp_path / name, [("猫", "a cat", 50.0)]) for name in ("first", "second"))
    table = second.evaluation / "test.tsv"
    table.write_text(table.read_text(encoding="utf-8").replace("\treference\ta", "\tanother\ta"), encoding="utf-8")
    with pytest.raises(UserError, match="not tested on the same examples"):
        largest_changes(first, second)


def test_heads_are_selected_on_validation_and_scored_on_test(tmp_path, monkeypatch):
    few = {"encoder.width": 16, "decoder.width": 16, "encoder.depth": 1, "decoder.depth": 1, "training.steps": 1}
    settings = resolve("pocket-transformer", [], {"corpus.size": 40, **few})
    splits = {name: examples[:5] for name, examples in task_of(settings).read(settings)[0].items()}
    monkeypatch.setattr(Translate, "read", lambda task, recipe: (splits, []))
    run, collect, calls = train_recipe(settings, tmp_path / "run"), translate.collect_attention, []

    def recording(module, pairs, tokenizers):
        calls.append(list(pairs.examples))
        return collect(module, pairs, tokenizers)

    monkeypatch.setattr(translate, "collect_attention", recording)
    evaluate.evaluate(run, max_new_tokens=2)
    assert calls[:2] == [splits["valid"], splits["test"]]  # then for the figure, one example at a time
