"""Ensembles: an ensemble is a run like any other, and incompatible runs are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tiny_recipes import tiny_recipe, write_pairs

from seq2see.cli.app import run as command
from seq2see.cli.predict import interactive
from seq2see.core.errors import UserError
from seq2see.decoding.ensemble import Ensemble
from seq2see.runs.compare import largest_changes
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.make_ensemble import make_ensemble
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder, read_scores
from seq2see.runs.train import train_recipe

TEXTS = ["红猫", "小鱼", "大牛大牛大牛", "老鸡"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs of different seed and shape, and an ensemble of them."""
    folder = tmp_path_factory.mktemp("home")
    pairs = write_pairs(folder / "pairs.tsv")
    changes = {"training.steps": 40, "training.learning_rate": 1e-2, "training.schedule.warmup": 5}
    train_recipe(tiny_recipe(pairs, **changes), folder / "one")
    other = {"target.head": "untied", "encoder.width": 24, "decoder.width": 24, "training.seed": 2}
    train_recipe(tiny_recipe(pairs, **(changes | other)), folder / "two")
    make_ensemble([RunFolder(folder / "one"), RunFolder(folder / "two")], folder / "both")
    return folder


def test_its_score_is_the_mean_of_probabilities_token_by_token(home: Path):
    both, *members = (load(home / name) for name in ("both", "one", "two"))
    batch = both._batch("红猫", "the red cat")
    with torch.inference_mode():
        probabilities = [each.module(batch).softmax(-1)[0].gather(1, batch.labels[0][:, None]) for each in members]
    expected = ((probabilities[0] + probabilities[1]) / 2).log().sum().item()
    assert both.score("红猫", "the red cat") == pytest.approx(expected, abs=1e-4)
    assert both.score("红猫", "the red cat") != pytest.approx(members[0].score("红猫", "the red cat"), abs=1e-3)


def test_it_predicts_and_its_outputs_have_their_scores(home: Path):
    both = load(home / "both")
    assert isinstance(both.module, Ensemble)
    for prediction in both.predict(TEXTS, num_beams=3):
        best = prediction.outputs[0]
        if best.finished:
            assert both.score(prediction.source, best.text) == pytest.approx(best.log_probability, abs=1e-4)


def test_an_ensemble_of_one_run_twice_is_that_run(home: Path):
    run = RunFolder(home / "one")
    twice, single = load(make_ensemble([run, run], home / "twice").path), load(run.path)
    for left, right in zip(twice.predict(TEXTS, num_beams=3), single.predict(TEXTS, num_beams=3), strict=True):
        assert left.text == right.text
        assert left.score == pytest.approx(right.score, abs=1e-4)


def test_ensembles_can_be_members_and_are_flattened(home: Path):
    three = make_ensemble([RunFolder(home / name) for name in ("both", "one")], home / "three")
    assert sorted(path.name for path in three.model.glob("*.safetensors")) == [
        "member-2.safetensors", "member-3.safetensors", "model.safetensors",
    ]  # fmt: skip
    assert len(load(three.path).module.members) == 3


def test_it_does_not_need_the_runs_of_its_members(home: Path, tmp_path: Path):
    before = load(home / "both")("红猫").score
    shutil.copytree(home / "both", tmp_path / "both")
    assert load(tmp_path / "both")("红猫").score == before


def test_it_is_evaluated_and_reported_but_not_traced(home: Path):
    run = RunFolder(home / "both")
    scores = evaluate(run)
    assert scores["test"]["pairs"] > 0
    assert scores["perplexity"]["per_token"] > 1
    assert not (run.path / "attention").exists()
    both, one, two = (
        sum(weight.numel() for weight in load(home / name).module.parameters()) for name in ("both", "one", "two")
    )
    assert both == one + two
    assert f"{both:,}" in write_report(run).read_text(encoding="utf-8")
    with pytest.raises(UserError, match="cannot be traced"):
        load(run.path).trace("红猫")
    with pytest.raises(UserError, match="cannot be traced"):
        _ = load(run.path)("红猫").attention


def test_a_damaged_member_is_refused(home: Path, tmp_path: Path):
    shutil.copytree(home / "both", tmp_path / "both")
    file = tmp_path / "both" / "model" / "member-2.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"member-2\.safetensors is damaged"):
        load(tmp_path / "both")
    file.unlink()
    with pytest.raises(UserError, match=r"member-2\.safetensors is missing"):
        load(tmp_path / "both")


def test_a_single_model_has_no_members(home: Path):
    assert "members" not in json.loads((home / "one" / "model" / "config.json").read_text())
    assert len(json.loads((home / "both" / "model" / "config.json").read_text())["members"]) == 1


@pytest.mark.parametrize("side", ["source", "target"])
def test_runs_with_other_vocabularies_are_refused_by_name(home: Path, tmp_path: Path, side: str):
    rows = (home / "pairs.tsv").read_text(encoding="utf-8")
    old, new = ("猫", "狮") if side == "source" else ("cat", "lion")
    (tmp_path / "pairs.tsv").write_text(rows.replace(old, new), encoding="utf-8")
    own = {"source.tokenizer.kind": "characters", "target.tokenizer.kind": "words", "target.vocabulary": "separate"}
    one = train_recipe(tiny_recipe(home / "pairs.tsv", **own), tmp_path / "first")
    other = train_recipe(tiny_recipe(tmp_path / "pairs.tsv", **own), tmp_path / "stranger")
    with pytest.raises(UserError, match=f"stranger and .*first have different {side} vocabularies"):
        make_ensemble([one, other], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_incompatible_runs_are_refused(home: Path, tmp_path: Path):
    one = RunFolder(home / "one")
    with pytest.raises(UserError, match="at least two"):
        make_ensemble([one], tmp_path / "both")
    shutil.copytree(one.path, tmp_path / "half")
    shutil.rmtree(tmp_path / "half" / "model")
    with pytest.raises(UserError, match="not finished"):
        make_ensemble([one, RunFolder(tmp_path / "half")], tmp_path / "both")


def test_the_command_line_makes_one_and_compares_it(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert command(["ensemble", str(home / "one"), str(home / "two"), "--out", str(tmp_path / "vote")]) == 0
    assert "2 members" in capsys.readouterr().out
    assert RunFolder(tmp_path / "vote").recipe().name == "vote"
    assert json.loads((tmp_path / "vote" / "env.json").read_text())["members"] == [
        str(home / "one"), str(home / "two"),
    ]  # fmt: skip
    assert command(["predict", str(tmp_path / "vote"), "红猫"]) == 0
    assert capsys.readouterr().out.strip()


def test_a_comparison_shows_what_changed_most(home: Path, capsys: pytest.CaptureFixture[str]):
    assert command(["eval", str(home / "one"), str(home / "two")]) == 0
    shown = capsys.readouterr().out
    changes = largest_changes(RunFolder(home / "one"), RunFolder(home / "two"))
    assert changes
    assert "largest changes" in shown
    for each in changes:
        assert f"{each.gain:+7.1f}  {each.source}" in shown
        assert f"{home / 'two'}: {each.second}" in shown
    gains = [each.gain for each in changes]
    assert gains == sorted(gains, reverse=True)
    back = largest_changes(RunFolder(home / "two"), RunFolder(home / "one"))
    assert sorted(-each.gain for each in back) == sorted(gains)
    assert largest_changes(RunFolder(home / "one"), RunFolder(home / "one")) == []


def test_a_comparison_does_not_use_predictions_with_other_settings(home: Path):
    names = [str(home / "one"), str(home / "two")]
    assert command(["eval", names[0]]) == 0
    own = read_scores(RunFolder(home / "one"))
    assert command(["eval", names[0], "--set", "decoding.max_new_tokens=1"]) == 0
    assert read_scores(RunFolder(home / "one"))["decoding"] == {"max_new_tokens": 1}
    assert command(["eval", *names]) == 0
    assert read_scores(RunFolder(home / "one")) == own


def test_the_prompt_with_a_translator(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    typed = iter(["红猫", "...", "", "红猫", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    model = load(home / "one")
    interactive(model, {"prefix": ""})
    outputs = [model("红猫").text, model("...").text]  # dots are a text: a translator has nothing to continue
    assert capsys.readouterr().out.split("\n")[1:] == [*outputs, ""]
    interactive(model, {"prefix": ""}, as_json=True)
    assert json.loads(capsys.readouterr().out.split("\n")[1])["outputs"][0]["text"] == outputs[0]


def test_the_prompt_prints_all_requested_outputs(home: Path, monkeypatch, capsys: pytest.CaptureFixture[str]):
    typed = iter(["红猫", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    model, several = load(home / "one"), {"num_beams": 3, "num_return_sequences": 3}
    interactive(model, {"prefix": "", **several})
    assert capsys.readouterr().out.split("\n")[1:] == [*(each.text for each in model("红猫", **several).outputs), ""]


@pytest.mark.parametrize("wrong", [{"precision": "int4"}, {"num_return_sequences": 2}, {"num_beam": 2}], ids=str)
def test_the_prompt_reports_a_wrong_setting_before_the_first_input(wrong: dict, home: Path, capsys):
    with pytest.raises(UserError, match=next(iter(wrong))):
        interactive(load(home / "one"), {"prefix": "", **wrong})
    assert capsys.readouterr().out == ""


def test_damaged_scores_are_reported(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(home / "one", tmp_path / "broken")
    (tmp_path / "broken" / "eval").mkdir(exist_ok=True)
    (tmp_path / "broken" / "eval" / "scores.json").write_text('{"test": ')
    assert command(["eval", str(tmp_path / "broken"), str(home / "two")]) == 2
    error = capsys.readouterr().err
    assert "scores.json: This file of scores is damaged. Delete the file, and evaluate the run again" in error
