"""Scores of outputs: both BLEUs, each with its own signature, and none that was not computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.api import resolve
from seq2see.cli.scores import headline_score, print_scores
from seq2see.core.errors import UserError
from seq2see.metrics.tokenized_bleu import has_moses
from seq2see.recipes.registry import recipe
from seq2see.runs import evaluate, prepare
from seq2see.runs.compare import compare_answers, largest_changes
from seq2see.runs.evaluate import score_outputs, target_language
from seq2see.runs.prepare import read_corpus
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from seq2see.sources.catalogue import CatalogueCorpus

OUTPUTS, REFERENCES = ["ein mann singt im regen ."], ["Ein Mann singt im Regen."]


def german():
    changes = {"corpus": CatalogueCorpus(languages="en-de"), "metrics": ("bleu", "bleu-tokenized")}
    return recipe("pocket-transformer").model_copy(update=changes)


def test_the_language_that_is_written_comes_from_the_corpus():
    assert target_language(german()) == "de"
    assert target_language(recipe("puzzle-copy")) == "en"


@pytest.mark.skipif(not has_moses(), reason="the extra `moses` is not installed")
def test_both_bleus_are_shown_side_by_side_each_with_its_signature(capsys):
    scores = score_outputs(german(), REFERENCES, OUTPUTS)
    assert scores["bleu-tokenized"]["value"] == pytest.approx(100)
    assert scores["bleu"]["value"] < 50
    truth = {"per_token": 2.0, "bits_per_character": 1.0, "token_accuracy": 50.0}
    print_scores("here", {"test": scores, "perplexity": truth})
    shown = " ".join(capsys.readouterr().out.split())
    assert "BLEU: sacreBLEU signature nrefs:1|case:mixed|eff:no|tok:13a" in shown
    assert "BLEU lower-cased, tokenized: sacreBLEU signature nrefs:1|case:lc|eff:no|tok:none" in shown
    assert "lang:de" in shown
    assert "100.0" in shown
    assert "chrF2" not in shown  # what was not measured has no column


def test_what_is_told_fits_into_80_columns(capsys):
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    truth = {"per_token": 2.0, "bits_per_character": 1.0, "token_accuracy": 50.0, "unknown_rate": 1.5, "unit": "character"}
    print_scores("here", {"test": {"pairs": 1, "bleu": {"value": 1, "signature": signature}}, "perplexity": truth})
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"  {signature}" in lines


def test_of_several_right_answers_any_will_do():
    exact = german().model_copy(update={"metrics": ("exact_match",)})
    answers = [("a cat", "one cat"), ("a dog",)]
    assert score_outputs(exact, ["a cat", "a dog"], ["one cat", "a cat"], answers) == {"pairs": 2, "exact_match": 50}


def test_without_its_package_a_metric_is_left_out(monkeypatch):
    monkeypatch.setattr(evaluate, "has_moses", lambda: False)
    assert score_outputs(german(), REFERENCES, OUTPUTS).keys() == {"pairs", "bleu"}


def evaluated(path, rows):
    """A run of which nothing is there but its predictions: (source, output, chrF2)."""
    lines = [f"{source}\treference\t{output}\t{score:.2f}\t-1.0\n" for source, output, score in rows]
    (path / "eval").mkdir(parents=True)
    (path / "eval" / "test.tsv").write_text("source\treference\toutput\tchrf\tscore\n" + "".join(lines))
    return RunFolder(path)


def test_what_the_second_run_gained_comes_first_and_what_it_lost_last(tmp_path):
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
    "scores, told",
    [
        ({}, ""),
        ({"test": {"bleu": {"value": 31.26}, "exact_match": 5.0}, "perplexity": {"bits_per_character": 1.0}}, "BLEU 31.3"),
        ({"test": {"exact_match": 97.35}, "perplexity": {"bits_per_character": 1.0}}, "97.3 % exact"),
        ({"test": {"accuracy": 99.51, "macro_f1": 90.0}}, "99.5 % right"),
        ({"test": {"pronunciation": {"word_error_rate": 28.04}}}, "28.0 % words wrong"),
        ({"masked_tokens": {"accuracy": 65.4, "perplexity": 5.0}}, "65.4 % of hidden right"),
        ({"series": {"rows": [{"name": "model", "errors": {"1": 0.2104, "4": 0.3}}]}}, "error 0.2104"),
        ({"perplexity": {"bits_per_character": 0.9087}}, "0.909 bits per character"),
    ],
)
def test_every_task_has_one_figure_in_the_list_of_runs(scores, told):
    assert headline_score(scores) == told


def answered(folder: Path, recipe_name: str, rows: list[tuple[str, str, str]]) -> RunFolder:
    """A run that was judged to have named these labels: text, label, answer."""
    run = RunFolder(folder)
    run.evaluation.mkdir(parents=True)
    run.recipe_file.write_text(recipe(recipe_name).toml(), encoding="utf-8")
    lines = ["text\tlabel\tanswer\tprobability", *("\t".join([*row, "0.5"]) for row in rows), ""]
    (run.evaluation / "test-predictions.tsv").write_text("\n".join(lines), encoding="utf-8")
    return run


def test_what_only_one_of_two_classifiers_got_right_is_told(tmp_path):
    texts = [("a", "very good"), ("b", "bad"), ("c", "bad"), ("d", "very good")]
    one = answered(tmp_path / "one", "sst2-lstm", [(*each, "bad") for each in texts])
    other = answered(
        tmp_path / "two", "sst2-lstm", [(*each, "very good") for each in texts[:3]] + [(*texts[3], "very bad")]
    )
    found = compare_answers(one, other)
    assert (found.accuracy.first.score, found.accuracy.second.score) == (50.0, 25.0)
    assert found.only_first == [["b", "bad", "bad", "very good"], ["c", "bad", "bad", "very good"]]
    assert found.only_second == [["a", "very good", "bad", "very good"]]


def test_of_tags_each_counts_and_those_that_were_not_given_do_not(tmp_path):
    truth = ("I see it", "I/A see/B it/A")
    one = answered(tmp_path / "one", "ud-english-ewt", [(*truth, "I/A see/A it/B")])
    other = answered(tmp_path / "two", "ud-english-ewt", [(*truth, "I/A see/B")])
    found = compare_answers(one, other)
    assert (found.accuracy.first.score, found.accuracy.second.score) == (pytest.approx(100 / 3), 100.0)
    assert found.only_second == [[*truth, "I/A see/A it/B", "I/A see/B"]]


def test_what_was_not_judged_or_has_no_answers_is_not_compared(tmp_path):
    run = answered(tmp_path / "one", "sst2-lstm", [("a", "x", "x")])
    with pytest.raises(UserError, match="not evaluated yet"):
        compare_answers(run, RunFolder(tmp_path / "nothing"))


def test_answers_to_other_references_are_not_compared(tmp_path):
    first, second = (evaluated(tmp_path / name, [("猫", "a cat", 50.0)]) for name in ("first", "second"))
    table = second.evaluation / "test.tsv"
    table.write_text(table.read_text(encoding="utf-8").replace("\treference\ta", "\tanother\ta"), encoding="utf-8")
    with pytest.raises(UserError, match="not tested on the same examples"):
        largest_changes(first, second)


def test_heads_are_chosen_on_validation_and_judged_on_test(tmp_path, monkeypatch):
    few = {"encoder.width": 16, "decoder.width": 16, "encoder.depth": 1, "decoder.depth": 1, "training.steps": 1}
    settings = resolve("pocket-transformer", [], {"corpus.size": 40, **few})
    splits = {name: examples[:5] for name, examples in read_corpus(settings)[0].items()}
    for module in (prepare, evaluate):
        monkeypatch.setattr(module, "read_corpus", lambda recipe: (splits, []))
    run, read, asked = train_recipe(settings, tmp_path / "run"), evaluate.collect_attention, []

    def watched(module, pairs, tokenizers):
        asked.append(list(pairs.examples))
        return read(module, pairs, tokenizers)

    monkeypatch.setattr(evaluate, "collect_attention", watched)
    evaluate.evaluate(run, max_new_tokens=2)
    assert asked == [splits["valid"], splits["test"]]
