"""An n-gram model from a text file to generated text: train, predict, score, report."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from seq2see.cli.app import run as seq2see
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.data.windows import TextDataset
from seq2see.recipes.registry import resolve
from seq2see.runs.compare import compare, compare_texts
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.make_ensemble import make_ensemble
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder, read_scores
from seq2see.runs.train import dry_run, train_recipe
from seq2see.tasks.ngram import Ngram
from seq2see.tasks.task import task_of
from seq2see.training.loop import Interrupted, read_metrics

SENTENCES = ("the cat sat on the mat. 猫坐在垫子上。\n", "a dog lay by his rug. 狗躺到毯子里。\n")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "book.txt"
    order = np.random.default_rng(0).integers(0, 2, 150)
    path.write_text("".join(SENTENCES[number] for number in order), encoding="utf-8")
    return path


class Listener:
    """Records the log lines, and can stop the run."""

    def __init__(self, stop_at: int = 0):
        self.lines: list[str] = []
        self.steps: list[int] = []
        self.stop_at = stop_at

    def log(self, text: str) -> None:
        self.lines.append(text)

    def step(self, step: int, metrics: dict[str, float]) -> None:
        self.steps.append(step)
        if step == self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    changes = {"target.max_tokens": 32, "decoding.do_sample": False, "decoding.max_new_tokens": 12}
    recipe = resolve("ngram", [book], changes)
    return train_recipe(recipe, tmp_path_factory.mktemp("runs") / "counted")


def test_it_continues_a_text(run: RunFolder):
    model = load(run.path)
    assert model("the cat sat").text == "the cat sat on the mat."
    assert [each.text for each in model.predict(["狗躺到", "a dog lay"])] == [
        "狗躺到毯子里。\na dog l", "a dog lay by his rug."
    ]  # fmt: skip


def test_beam_search_and_sampling_work(run: RunFolder):
    model = load(run.path)
    beams = model("the cat", num_beams=3, max_new_tokens=4).outputs
    assert [each.score for each in beams] == sorted((each.score for each in beams), reverse=True)
    score = model.score("", beams[0].text)
    assert beams[0].log_probability == pytest.approx(score, abs=1e-3)
    samples = {model("the ", do_sample=True, seed=seed, max_new_tokens=3).text for seed in range(20)}
    assert samples >= {"the cat", "the mat"}


def test_every_order_is_logged_and_the_loss_falls(run: RunFolder):
    notes = read_metrics(run.metrics)
    assert [note["step"] for note in notes] == list(range(1, 8))
    losses = [note["valid_loss"] for note in notes]
    assert losses == sorted(losses, reverse=True)
    unseen = [note["unseen_ngrams"] for note in notes]
    assert unseen == sorted(unseen)
    assert unseen[0] == 0
    assert unseen[-1] > 0
    assert {"seconds", "tokens_per_second"} <= read_metrics(run.path / "timing.jsonl")[0].keys()


def test_unseen_ngrams_are_those_that_the_training_text_does_not_have(run: RunFolder):
    recipe, model = run.recipe(), load(run.path)
    splits, _ = task_of(recipe).read(recipe)
    train, valid = (
        (BOS, *task_of(recipe).dataset(recipe, model.tokenizers, splits[name]).ids.tolist())
        for name in ("train", "valid")
    )
    for note in read_metrics(run.metrics):
        order = note["step"]
        counted = {train[end - order : end] for end in range(order, len(train) + 1)}
        new = [valid[max(end - order, 0) : end] not in counted for end in range(2, len(valid) + 1)]
        assert note["unseen_ngrams"] == pytest.approx(np.mean(new))
        assert note["ngrams"] == len(counted - {(BOS,)})


def test_a_text_without_a_test_split_is_scored_on_the_validation_split(run: RunFolder, monkeypatch, capsys):
    splits, reports = task_of(run.recipe()).read(run.recipe())
    without = splits | {"valid": splits["test"], "test": []}
    before = evaluate(run)["perplexity"]
    monkeypatch.setattr(Ngram, "read", lambda task, recipe: (without, reports))
    assert seq2see(["eval", str(run.path)]) == 0
    assert "(valid, teacher forcing)" in capsys.readouterr().out.replace("\n", " ")
    after = json.loads((run.evaluation / "scores.json").read_text(encoding="utf-8"))["perplexity"]
    assert after == before | {"split": "valid"}


def test_windows_do_not_change_the_perplexity(run: RunFolder, monkeypatch):
    """Evaluation uses windows with context tokens; scoring the text at once gives the same perplexity."""
    recipe, model = run.recipe(), load(run.path)
    splits, _ = task_of(recipe).read(recipe)
    whole = task_of(recipe).dataset(recipe, model.tokenizers, splits["test"])
    probabilities, _ = model.module.decoder.score_text(torch.from_numpy(whole.ids.astype(np.int64)))
    scores = evaluate(run)["perplexity"]
    assert len(whole) > 1
    assert scores["per_token"] == pytest.approx(float(probabilities.log().mean().neg().exp()), rel=1e-5)
    assert scores["unit"] == "character"
    assert scores["bits_per_character"] == pytest.approx(math.log2(scores["per_token"]))
    monkeypatch.setattr(Ngram, "dataset", without_context)
    assert evaluate(run)["perplexity"]["per_token"] > 1.01 * scores["per_token"]


def without_context(task, recipe, tokenizers, examples) -> TextDataset:
    return TextDataset(examples, tokenizers.target, recipe.target.max_tokens)


def test_eval_names_the_unit(run: RunFolder, capsys):
    assert seq2see(["eval", str(run.path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("perplexity 1.")
    assert "per character" in printed
    assert "character accuracy" in printed
    assert "(test, teacher forcing)" in " ".join(printed.split())


def test_a_stopped_run_starts_again(book: Path, tmp_path: Path):
    recipe = resolve("ngram", [book], {})
    with pytest.raises(Interrupted) as stopped:
        train_recipe(recipe, tmp_path / "run", Listener(stop_at=3))
    assert (stopped.value.step, stopped.value.saved_step) == (3, 0)
    assert not RunFolder(tmp_path / "run").finished
    again, whole = Listener(), tmp_path / "whole"
    assert train_recipe(recipe, tmp_path / "run", again).path == tmp_path / "run"
    train_recipe(recipe, whole)
    assert again.steps == list(range(1, 8))
    for name in ("metrics.jsonl", "model/model.safetensors", "samples/step-000007.tsv", "zipf.json"):
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes()


def test_a_dry_run_counts_nothing(book: Path):
    lines: list[str] = []
    dry_run(resolve("ngram", [book], {}), lines.append)
    assert any("n-grams of 1 to 7, counted in" in line for line in lines)


def test_samples_and_frequencies_are_stored(run: RunFolder):
    first, *rows = (run.samples / "step-000007.tsv").read_text(encoding="utf-8").splitlines()
    assert first == "source\treference\toutput"
    assert rows
    ranks = json.loads((run.path / "zipf.json").read_text(encoding="utf-8"))
    assert list(ranks) == ["1", "2", "3"]
    text = task_of(run.recipe()).dataset(
        run.recipe(), load(run.path).tokenizers, task_of(run.recipe()).read(run.recipe())[0]["train"]
    )
    one = ranks["1"]
    assert sum(count * times for count, times in zip(one["counts"], one["frequencies"], strict=True)) == len(text.ids)
    assert one["counts"] == sorted(one["counts"], reverse=True)


def test_the_report_shows_orders_and_frequencies(run: RunFolder):
    evaluate(run)
    page = write_report(run).read_text(encoding="utf-8")
    notes = read_metrics(run.metrics)
    for note in notes:
        row = (note["step"], f"{note['ngrams']:,}", f"{math.exp(note['valid_loss']):.2f}")
        row = (*row, f"{note['unseen_ngrams']:.1%}")
        assert "".join(f'<td class="number">{figure}</td>' for figure in row) in page
    assert "perplexity per character (test, teacher forcing)" in page
    assert "每字符困惑度" in page
    assert "7 orders, counted in one pass" in page
    assert "一遍数完 7 阶" in page
    assert page.count("data:image/png") == 2
    assert (run.path / "curves.png").read_bytes() != (run.path / "zipf.png").read_bytes()
    assert "3,000" not in page  # steps that were never taken


def test_a_text_shorter_than_the_order_is_refused(tmp_path: Path):
    (tmp_path / "short.txt").write_text("abcabc\n" * 3, encoding="utf-8")
    files = [tmp_path / "short.txt"]
    with pytest.raises(UserError, match=r"short\.txt: .*too few for n-grams of 7"):
        train_recipe(resolve("ngram", files, {"target.tokenizer.kind": "whitespace"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_text_of_one_symbol_is_refused(tmp_path: Path):
    (tmp_path / "one.txt").write_text("猫" * 200, encoding="utf-8")
    with pytest.raises(UserError, match="no other character than '猫': there is nothing to predict"):
        train_recipe(resolve("ngram", [tmp_path / "one.txt"], {}), tmp_path / "run")


def test_an_empty_text_is_refused(tmp_path: Path):
    (tmp_path / "empty.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(UserError, match="no text in this file"):
        train_recipe(resolve("ngram", [tmp_path / "empty.txt"], {}), tmp_path / "run")


@pytest.mark.parametrize(
    "changes", [{"training.steps": 5}, {"objective.label_smoothing": 0.1}, {"target.head": "untied"}], ids=str
)
def test_settings_without_effect_are_refused(book: Path, changes):
    with pytest.raises(UserError, match=r"There is no setting '(training|objective|head)'"):
        resolve("ngram", [book], changes)


def test_an_ngram_model_is_a_task_of_its_own(book: Path):
    """It is counted, so its recipes have no settings of training, embeddings and head."""
    with pytest.raises(UserError, match="no kind 'ngram'"):
        resolve("write", [book], {"decoder.kind": "ngram"})
    with pytest.raises(UserError, match=r"'decoder\.kind' cannot be 'transformer'"):
        resolve("ngram", [book], {"decoder.kind": "transformer"})


def test_two_runs_are_compared_if_they_have_the_same_tokenizer(book: Path, run: RunFolder, tmp_path: Path, capsys):
    changes = {"target.max_tokens": 32, "decoding.do_sample": False}
    worse = train_recipe(resolve("ngram", [book], changes | {"decoder.order": 1}), tmp_path / "worse")
    words = train_recipe(resolve("ngram", [book], changes | {"target.tokenizer.kind": "words"}), tmp_path / "words")
    assert seq2see(["eval", str(run.path), str(worse.path)]) == 0
    before, after = (read_scores(each)["perplexity"]["per_token"] for each in (run, worse))
    expected = f"perplexity per character {before:.3f} -> {after:.3f}, {after / before - 1:.1%} higher; bits per"
    assert expected in capsys.readouterr().out
    assert seq2see(["eval", str(run.path), str(words.path)]) == 2
    bits = read_scores(words)["perplexity"]["bits_per_character"]
    refused = " ".join(capsys.readouterr().err.split())
    assert "the tokenizers differ" in refused
    assert f"words {bits:.3f}" in refused


def test_runs_of_different_texts_are_not_compared(book: Path, run: RunFolder, tmp_path: Path):
    (tmp_path / "other.txt").write_text(SENTENCES[0] * 90, encoding="utf-8")
    changes = {"target.max_tokens": 32, "decoding.do_sample": False}
    other = train_recipe(resolve("ngram", [tmp_path / "other.txt"], changes), tmp_path / "other")
    with pytest.raises(UserError, match="not evaluated on the same text"):
        compare_texts(run, other)
    evaluate(run)
    with pytest.raises(UserError, match="no table of predictions"):
        compare(run, run)


def test_two_ngram_models_can_be_an_ensemble(book: Path, run: RunFolder, tmp_path: Path):
    changes = {"target.max_tokens": 32, "decoder.order": 2, "decoding.do_sample": False}
    other = train_recipe(resolve("ngram", [book], changes), tmp_path / "pairs")
    both = make_ensemble([run, other], tmp_path / "both")
    single, pairs = (evaluate(each)["perplexity"]["per_token"] for each in (run, other))
    assert single < evaluate(both)["perplexity"]["per_token"] < pairs


def test_several_files_are_several_texts(book: Path, tmp_path: Path):
    text = book.read_text(encoding="utf-8")
    for name, part in (("one.txt", text[:2000]), ("two.txt", text[2000:])):
        (tmp_path / name).write_text(part, encoding="utf-8")
    run = train_recipe(resolve("ngram", [tmp_path / "one.txt", tmp_path / "two.txt"], {}), tmp_path / "run")
    model = load(run.path)
    eos = model.module.decoder.unigrams[EOS]
    assert float(eos) > 1e-4  # it was counted once
    assert evaluate(run)["perplexity"]["per_token"] < 2


@pytest.mark.parametrize("smoothing", ["back-off", "kneser-ney"])
def test_other_smoothings_and_words_count_too(book: Path, tmp_path: Path, smoothing: str):
    changes = {"decoder.smoothing": smoothing, "decoder.order": 3, "target.tokenizer.kind": "whitespace"}
    run = train_recipe(resolve("ngram", [book], changes | {"decoding.do_sample": False}), tmp_path / "run")
    assert load(run.path)("the cat", max_new_tokens=5).text == "the cat sat on the mat. 猫坐在垫子上。"
    assert evaluate(run)["perplexity"]["unit"] == "word"
