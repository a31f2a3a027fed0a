"""A text classifier from a table to labels: train, predict, score, report, resume, and fine-tune a BERT."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import pytest
import torch
from tiny_recipes import stop_and_resume, tiny_recipe

from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.models.build import named_tensors
from seq2see.recipes.registry import resolve
from seq2see.runs import load as loading
from seq2see.runs.compare import compare
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import dry_run, new_trainer, prepare, train_recipe

GOOD, BAD = ("good", "fine", "lovely", "好", "妙"), ("bad", "dull", "poor", "坏", "差")
THINGS = ("video", "book", "song", "meal", "show", "电影", "书", "歌", "菜", "戏")
SMALL = {"source.tokenizer.vocab_size": 400, "training.batch_tokens": 128, "training.patience": 0}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Praise and blame; "not" reverses the label, so that word order matters."""
    path = tmp_path_factory.mktemp("data") / "my.tsv"
    lines = []
    for words, labels in ((GOOD, ("praise", "blame")), (BAD, ("blame", "praise"))):
        for word in words:
            for thing in THINGS:
                lines += [f"the {thing} is {word}\t{labels[0]}\n", f"the {thing} is not {word}\t{labels[1]}\n"]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def learned(table: Path, out: Path, name: str = "classify-text", **changes) -> RunFolder:
    much = {
        "training.steps": 150,
        "training.evaluate_every": 75,
        "training.learning_rate": 5e-3,
        "training.batch_tokens": 512,
    }
    return train_recipe(tiny_recipe(table, name, **SMALL | much | {"encoder.width": 32} | changes), out)


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return learned(table, tmp_path_factory.mktemp("runs") / "learned")


def test_it_predicts_the_label_and_all_probabilities(run: RunFolder):
    model = load(run.path)
    found = model("the video is good")
    assert found.text == "praise"
    (candidates,) = found.candidates
    assert [each.text for each in candidates] == ["praise", "blame"]
    assert sum(each.probability for each in candidates) == pytest.approx(1, abs=1e-5)
    assert [each.text for each in model.predict(["the song is not fine", "the 菜 is 坏", "the 书 is not 差"])] == [
        "blame", "blame", "praise"
    ]  # fmt: skip
    assert len(model("the video is good", top_k=1).candidates[0]) == 1
    assert model.score("the video is good", "blame") < model.score("the video is good", "praise") < 0


@pytest.mark.parametrize("precision, near", [("float32", 1e-5), ("bf16", 0.1)])
@pytest.mark.parametrize("count, packed", [(64, False), (65, True)])
def test_large_batches_have_packed_weights_and_the_same_predictions(run, monkeypatch, count, packed, precision, near):
    model, texts = load(run.path), [f"the {thing} is {word}" for thing in THINGS for word in (*GOOD, *BAD)][:count]
    one_by_one = [model(text) for text in texts]
    calls, batches, pack = [], [], loading.optimize_for_inference

    def recording(*arguments):
        calls.append(arguments)
        packed_model = copy.copy(pack(*arguments))
        packed_model.forward = lambda batch: (batches.append(batch), type(packed_model).forward(packed_model, batch))[1]
        return packed_model

    monkeypatch.setattr(loading, "optimize_for_inference", recording)
    together = model.predict(texts, precision=precision)
    assert calls == [(model.module, precision)] * packed
    assert len(batches) == 2 * packed
    assert [each.text for each in together] == [each.text for each in one_by_one]
    scores = [[each.score for each in some] for some in (together, one_by_one)]
    assert scores[0] == pytest.approx(scores[1], abs=near)
    assert (max(abs(first - second) for first, second in zip(*scores, strict=True)) > 1e-5) == (precision == "bf16")


def test_an_encoder_only_model_refuses_most_decoding_settings(run: RunFolder):
    with pytest.raises(UserError, match="'precision' cannot be 'int8'"):
        load(run.path).predict(["the video is good"], precision="int8")
    with pytest.raises(UserError, match=r"It supports prediction\.top_k and prediction\.precision"):
        load(run.path).predict(["the video is good"], num_beams=2)


def test_a_text_has_no_image_size(run: RunFolder):
    with pytest.raises(UserError, match="'image_size' has no effect"):
        load(run.path).predict(["the video is good"], image_size=3)


def test_an_empty_text_is_refused_and_a_long_one_is_truncated(run: RunFolder):
    with pytest.raises(UserError, match="The text is empty"):
        load(run.path)("  ")
    assert load(run.path)("the video is good " * 200).truncated


@pytest.mark.parametrize(
    "name", ["classify-text", "classify-text-gru", "classify-text-cnn"], ids=["transformer", "gru", "cnn"]
)
def test_every_encoder_learns_the_word_not(table: Path, tmp_path: Path, name):
    changes = {} if name != "classify-text-cnn" else {"encoder.dropout": 0.0}
    run = learned(table, tmp_path / "run", name, **changes)
    scores = evaluate(run)
    assert scores["test"]["accuracy"] >= 90


def test_it_is_scored_label_by_label(run: RunFolder, capsys):
    scores = evaluate(run)["test"]
    assert set(scores["classes"]) == {"praise", "blame"}
    assert sum(map(sum, scores["confusion"])) == scores["examples"] == 10
    assert sum(each["support"] for each in scores["classes"].values()) == 10
    head, *rows = (run.evaluation / "test-predictions.tsv").read_text(encoding="utf-8").splitlines()
    assert head == "text\tlabel\tprediction\tprobability"
    assert len(rows) == 10
    assert (run.evaluation / "confusion.png").read_bytes().startswith(b"\x89PNG")
    assert command(["eval", str(run.path)]) == 0
    printed = capsys.readouterr().out
    assert "precision %" in printed
    assert "macro F1" in printed
    page = write_report(run).read_text(encoding="utf-8")
    assert "Confusion matrix" in page
    assert "precision" in page
    assert "精确率" in page
    with pytest.raises(UserError, match="no table of predictions"):
        compare(run, run)
    assert command(["eval", str(run.path), str(run.path)]) == 0
    printed = capsys.readouterr().out
    assert "difference 0.00 (0.00 ± 0.00), p = 1.000" in printed
    assert "0 test examples that" in printed


def test_the_report_shows_the_most_confident_mistakes(run: RunFolder):
    evaluate(run)
    path = run.evaluation / "test-predictions.tsv"
    path.write_text(path.read_text(encoding="utf-8") + "<b>odd</b>\tpraise\tblame\t0.9700\n", encoding="utf-8")
    page = write_report(run).read_text(encoding="utf-8")
    assert "&lt;b&gt;odd&lt;/b&gt;" in page
    assert "Most confident mistakes" in page


def test_samples_show_label_and_prediction(run: RunFolder):
    _, row, *_ = (run.samples / "step-000150.tsv").read_text(encoding="utf-8").splitlines()
    text, label, answer = row.split("\t")
    assert text.startswith("the ")
    assert {label, answer} <= {"praise", "blame"}


def test_the_command_line_predicts_line_by_line(run: RunFolder, tmp_path: Path, capsys):
    (tmp_path / "new.txt").write_text("the video is good\n\nthe video is bad\n", encoding="utf-8")
    assert command(["predict", str(run.path), "--file", str(tmp_path / "new.txt")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["praise", "", "blame"]
    assert lines[0].split("\t")[1].startswith("praise 0.")
    assert command(["predict", str(run.path), "the video is bad", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["candidates"][0][0]["text"] == "blame"


def test_labels_are_stored_with_the_model(run: RunFolder):
    assert json.loads((run.model / "labels.json").read_text(encoding="utf-8")) == ["blame", "praise"]
    assert "labels.json" in (run.model / "MANIFEST.json").read_text(encoding="utf-8")


def test_json_lines_are_read_and_short_labels_give_no_warning(table: Path, tmp_path: Path):
    rows = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]
    long = [["very " * 30 + text, label] for text, label in rows]
    path = tmp_path / "my.jsonl"
    path.write_text("".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in long), encoding="utf-8")
    lines: list[str] = []
    prepare(tiny_recipe(path, "classify-text", **SMALL), lines.append)
    assert "labels 2" in lines[0]
    assert not [line for line in lines if "times as long" in line or "length ratio" in line]


def test_an_unknown_test_label_is_reported_with_its_line(table: Path, tmp_path: Path):
    (tmp_path / "test.tsv").write_text("the end\tpraise\nthe start\tugly\n", encoding="utf-8")
    recipe = tiny_recipe(table, "classify-text", **SMALL | {"corpus.test": [str(tmp_path / "test.tsv")]})
    with pytest.raises(UserError, match=r"test\.tsv:2: The label 'ugly' does not occur"):
        train_recipe(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()  # refused before training


def test_every_label_of_one_file_is_in_the_training_split(tmp_path: Path):
    lines = [f"text {n}\t{'odd' if n % 2 else 'even'}\n" for n in range(60)] + [f"rare {n}\t{n}\n" for n in range(20)]
    (tmp_path / "my.tsv").write_text("".join(lines), encoding="utf-8")
    lines: list[str] = []
    prepare(tiny_recipe(tmp_path / "my.tsv", "classify-text", **SMALL), lines.append)
    assert "labels 22" in lines[0]


def test_a_single_label_is_refused(tmp_path: Path):
    (tmp_path / "my.tsv").write_text("".join(f"text {n}\tsame\n" for n in range(30)), encoding="utf-8")
    with pytest.raises(UserError, match=r"my\.tsv:\d+: All training texts have the label 'same'"):
        prepare(tiny_recipe(tmp_path / "my.tsv", "classify-text", **SMALL), lambda text: None)


def test_a_dry_run_shows_text_and_label(table: Path):
    lines: list[str] = []
    dry_run(tiny_recipe(table, "classify-text", **SMALL), lines.append)
    assert any("labels         praise" in line or "labels         blame" in line for line in lines)


def test_a_stopped_run_resumes_to_the_same_result(table: Path, tmp_path: Path):
    stop_and_resume(tiny_recipe(table, "classify-text", **SMALL), tmp_path)


def test_bpe_dropout_tokenizes_anew_in_every_epoch(table: Path, tmp_path: Path):
    run = train_recipe(
        tiny_recipe(table, "classify-text", **SMALL | {"source.tokenizer.dropout": 0.2}), tmp_path / "run"
    )
    assert load(run.path)("the video is good").text in ("praise", "blame")


# Fine-tuning of a masked language model


@pytest.fixture(scope="module")
def filler(table: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("fill")
    changes = {"source.max_tokens": 24, "source.tokenizer.vocab_size": 400, "encoder.width": 32}
    changes |= {"training.batch_tokens": 192}
    return train_recipe(tiny_recipe(table, "fill", **changes), folder / "fill")


def test_fine_tuning_starts_with_encoder_and_tokenizer_of_a_bert(table: Path, filler: RunFolder, tmp_path: Path):
    changes = {"pretrained": str(filler.path), "training.steps": 2, "training.patience": 0}
    recipe = resolve("classify-text", [table], changes)
    assert recipe.source == filler.recipe().source
    assert recipe.encoder == filler.recipe().encoder
    prepared = prepare(recipe, lambda text: None)
    fresh, learned = named_tensors(new_trainer(recipe, prepared).model), named_tensors(load(filler.path).module)
    encoder_weights = [name for name in fresh if name.startswith(("source.", "encoder."))]
    assert len(encoder_weights) > 10
    assert all(torch.equal(fresh[name], learned[name]) for name in encoder_weights)
    assert prepared.tokenizers.source.fingerprint == load(filler.path).tokenizers.source.fingerprint
    run = train_recipe(recipe, tmp_path / "tuned")
    assert load(run.path)("the video is good").text in ("praise", "blame")
    assert resolve(run.recipe_file, [], {}).pretrained == str(filler.path)


def test_an_incompatible_pretrained_model_is_refused(table: Path, filler: RunFolder, run: RunFolder):
    with pytest.raises(UserError, match="no run 'nowhere'"):
        resolve("classify-text", [table], {"pretrained": "nowhere"})
    for path, value in (("encoder.width", 64), ("encoder.heads", 1), ("source.tokenizer.kind", "characters")):
        message = rf"{path} differs between this recipe and its pretrained model: {value} and "
        with pytest.raises(UserError, match=message):
            resolve("classify-text", [table], {"pretrained": str(filler.path), path: value})
    wide = resolve("classify-text", [table], {"pretrained": str(filler.path)}).with_(**{"encoder.width": 64})
    with pytest.raises(UserError, match="is missing or has another shape"):
        new_trainer(wide, prepare(wide, lambda text: None))
    with pytest.raises(UserError, match="a training of the task translate begins with a single model of this task"):
        resolve("pocket-transformer", [], {"pretrained": str(filler.path)})
    allowed = {"encoder.dropout": 0.4, "encoder.drop_path": 0.1, "source.max_tokens": 20}
    others = resolve("classify-text", [table], {"pretrained": str(filler.path), **allowed})
    assert new_trainer(others, prepare(others, lambda text: None)).step == 0


def test_an_unfinished_run_cannot_be_fine_tuned(table: Path, filler: RunFolder, tmp_path: Path):
    shutil.copytree(filler.path, tmp_path / "half", ignore=shutil.ignore_patterns("model"))
    with pytest.raises(UserError, match="not finished, so it has no weights"):
        resolve("classify-text", [table], {"pretrained": str(tmp_path / "half")})


def test_the_pretrained_model_is_stored_by_its_absolute_path(table: Path, filler: RunFolder, monkeypatch):
    monkeypatch.chdir(filler.path.parent)
    assert resolve("classify-text", [table], {"pretrained": filler.path.name}).pretrained == str(filler.path)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"metrics": ["bleu"]}, "no setting 'metrics'"),
        ({"training.batches": "packed"}, "packed batches"),
        ({"objective.kind": "masked-token"}, "'objective.kind' cannot be 'masked-token'.*'classify'"),
    ],
    ids=str,
)
def test_settings_without_effect_are_refused(table: Path, changes, message):
    with pytest.raises(UserError, match=message):
        resolve("classify-text", [table], changes)
