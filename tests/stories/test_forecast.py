"""A series from a table to its forecasts: train, predict, score, report, resume."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from tiny_recipes import stop_and_resume, tiny_recipe

from seq2see.cli.app import run as command
from seq2see.cli.evaluate import print_scores
from seq2see.cli.predict import interactive
from seq2see.core.errors import UserError
from seq2see.interop.hugging_face_causal import causal_layout
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate, evaluate_texts
from seq2see.runs.load import load
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import dry_run, prepare, train_recipe
from seq2see.tasks.task import task_of


def sine(time: int) -> float:
    return 20 + 5 * math.sin(0.5 * time)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sine without noise, in degrees: two values determine the next."""
    path = tmp_path_factory.mktemp("data") / "weather.csv"
    rows = [f"{day},{sine(day)!r}\n" for day in range(400)]
    path.write_text("day,温度\n" + "".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    recipe = resolve(
        "forecast-autoregressive",
        [table],
        {"training.steps": 600, "training.learning_rate": 2e-2, "training.patience": 0},
    )
    return train_recipe(recipe, tmp_path_factory.mktemp("runs") / "linear")


def test_it_forecasts_a_series(run: RunFolder):
    context = " ".join(str(sine(day)) for day in range(400, 410))
    forecast = [float(word) for word in load(run.path)(context, max_new_tokens=4).text.split()]
    assert forecast == pytest.approx([sine(day) for day in range(410, 414)], abs=0.25)


def test_a_sine_is_linear_in_its_last_two_values_and_errors_grow_with_the_steps(run: RunFolder):
    scores = evaluate(run)["series"]
    assert scores["values"] == 80
    errors = {(row["name"], row["context"]): row["errors"] for row in scores["rows"]}
    assert errors["linear", 2]["64"] < 1e-6
    assert errors["linear", 1]["1"] > 0.5
    assert errors["model", 4]["1"] < 0.25 < errors["persistence", 1]["1"]
    assert errors["model", 4]["1"] < errors["model", 4]["64"]


def test_two_models_of_a_series_are_compared_by_their_errors(run: RunFolder, table: Path, tmp_path: Path, capsys):
    changes = {"training.steps": 3, "training.patience": 0}
    other = train_recipe(resolve("forecast", [table], changes), tmp_path / "other")
    elsewhere = train_recipe(resolve("forecast", [], changes), tmp_path / "elsewhere")
    assert command(["eval", str(run.path), str(other.path)]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"root mean squared error: (\d+ ahead [-\de.]+ -> [-\de.]+(, )?){4}", line)
    assert command(["eval", str(run.path), str(elsewhere.path)]) == 2
    assert "not evaluated on the same series" in capsys.readouterr().err


def test_the_report_shows_forecasts_and_errors_by_context(run: RunFolder, capsys):
    scores = evaluate(run)
    page = write_report(run).read_text(encoding="utf-8")
    assert "最小二乘" in page
    assert "64 ahead" in page
    assert page.count("data:image/png") >= 2
    print_scores(task_of(run.recipe()), run, scores)
    printed = capsys.readouterr().out
    assert "this model" in printed
    assert "80 test values" in printed
    first, *rows = (run.evaluation / "forecasts.tsv").read_text(encoding="utf-8").splitlines()
    assert first.split("\t") == ["time", "value", "1 ahead", "4 ahead", "16 ahead", "64 ahead"]
    assert len(rows) == 80
    assert rows[0].split("\t")[0] == "321"
    assert float(rows[0].split("\t")[1]) == pytest.approx(sine(320), abs=1e-3)
    assert float(rows[0].split("\t")[2]) == pytest.approx(sine(320), abs=0.5)


@pytest.mark.parametrize("name", ["forecast", "forecast-gru"])
def test_a_stopped_run_resumes_to_the_same_result(table: Path, tmp_path: Path, name):
    stop_and_resume(tiny_recipe(table, name, **{"training.steps": 12}), tmp_path)


def test_a_dry_run_shows_numbers(table: Path):
    lines: list[str] = []
    dry_run(tiny_recipe(table, "forecast"), lines.append)
    assert any(line.startswith("  labels         · · · ") for line in lines)
    assert any("320" not in line and "train 240, valid 80, test 80 values" in line for line in lines)


@pytest.mark.parametrize(
    "text, message",
    [
        ("1\n2\nx\n4\n", r"short\.csv:3: 'x' is not a number"),
        ("1\n2\n3\n", "too few for a model with a context of 4"),
        ("5\n" * 50, "All training values are 5"),
    ],
)
def test_a_bad_series_is_refused_in_one_sentence(tmp_path: Path, text, message):
    (tmp_path / "short.csv").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        train_recipe(resolve("forecast", [tmp_path / "short.csv"], {}), tmp_path / "run")


def test_an_error_does_not_end_the_prompt(run: RunFolder, monkeypatch, capsys):
    typed = iter(["0.1 many", "0.1 0.2 0.3 0.4 0.5", "...", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    interactive(load(run.path), {"prefix": "", "max_new_tokens": 2})
    printed = capsys.readouterr()
    assert printed.err == "seq2see: 'many' is not a number. Write numbers as 12.5 or 1e-3.\n"
    first, second = printed.out.splitlines()[-2:]
    model = load(run.path)
    assert first.strip() == model("0.1 0.2 0.3 0.4 0.5", max_new_tokens=2).text
    assert second.strip() == model(f"0.1 0.2 0.3 0.4 0.5{first}", max_new_tokens=2).text


@pytest.mark.parametrize("engine", ["hf", "ct2", "onnx"])
def test_a_forecasting_model_cannot_be_exported(run: RunFolder, capsys, engine):
    assert command(["export", str(run.path), "--to", engine]) == 2
    assert "cannot hold a model with" in capsys.readouterr().err


def test_operations_without_meaning_for_a_series_are_refused(run: RunFolder):
    model = load(run.path)
    with pytest.raises(UserError, match="forecasts from the last 4 values, but the input has 2"):
        model("1 2")
    with pytest.raises(UserError, match="'num_beams' has no effect"):
        model("1 2 3 4", num_beams=3)
    with pytest.raises(UserError, match="'one' is not a number"):
        model("one two three four")
    with pytest.raises(UserError, match="no probabilities"):
        model.score("1 2 3 4", "5")
    with pytest.raises(UserError, match="Only language models"):
        evaluate_texts(model, [run.recipe_file])
    numbers = resolve("forecast", [], {"decoder.kind": "transformer", "decoder.width": 32})
    with pytest.raises(UserError, match=r"target\.kind=series"):
        causal_layout(numbers.model)
    with pytest.raises(UserError, match="generates no text"):
        evaluate(run, num_beams=2)


@pytest.mark.parametrize(
    "content, message",
    [
        ("0.1 0.2 0.3 0.4\n", r"my\.csv: There is no number in it\. Write one number per line"),
        ("7\n" * 90, r"my\.csv: All training values are 7"),
        ("1\n2\n3\n", r"my\.csv: There are 3 values"),
    ],
)
def test_every_error_names_the_file(tmp_path: Path, content, message):
    (tmp_path / "my.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        prepare(resolve("forecast", [tmp_path / "my.csv"], {}), lambda text: None)
