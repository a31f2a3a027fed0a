"""A ViT classifier on drawn shapes or a folder of images: train, predict, score, trace, resume."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_recipes import stop_and_resume

from seq2see.cli.app import run as command
from seq2see.cli.predict import interactive
from seq2see.core.errors import UserError
from seq2see.data.generated.shapes import Scenes
from seq2see.models.build import named_tensors
from seq2see.recipes.registry import resolve
from seq2see.runs.batch_inference import OutputFile
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.prepare import prepare
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import batches, dry_run, new_trainer, train_recipe
from seq2see.tasks.model_folder import Recipe

SMALL = {
    "source.image_size": 16,
    "source.embedding.size": 4,
    "encoder.width": 16,
    "encoder.depth": 1,
    "encoder.heads": 2,
    "training.steps": 12,
    "training.evaluate_every": 4,
    "training.batch_size": 16,
}
COLORS = {"红": (220, 40, 30), "green": (40, 200, 60), "blue": (40, 60, 220)}


def small(*data: Path, name: str = "classify-image", **changes) -> Recipe:
    drawn = {} if data else {"corpus.size": 200}
    return resolve(name, list(data), SMALL | drawn | changes)


def painted(color: tuple[int, ...], number: int) -> Image.Image:
    """An image that is mostly of one color, in a size of its own."""
    rng = np.random.default_rng(number)
    height, width = rng.integers(12, 40, 2)
    pixels = np.array(color) + rng.normal(0, 40, (height, width, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, one with a Chinese name."""
    folder = tmp_path_factory.mktemp("data") / "photos"
    for index, (label, color) in enumerate(COLORS.items()):
        (folder / label).mkdir(parents=True)
        for number in range(40):
            ending = ("png", "jpg")[number % 2]
            painted(color, 100 * index + number).save(folder / label / f"图 {number}.{ending}")
    return folder


@pytest.fixture(scope="module")
def run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A model that classifies colors."""
    much = {"training.steps": 60, "training.evaluate_every": 30, "training.learning_rate": 3e-3}
    return train_recipe(small(photos, **much), tmp_path_factory.mktemp("runs") / "learned")


def test_it_classifies_files_of_any_size_with_all_probabilities(run: RunFolder, tmp_path: Path):
    model, paths = load(run.path), []
    for number, (label, color) in enumerate(COLORS.items()):
        paths.append(tmp_path / f"{label}.png")
        painted(color, 1000 + number).resize((300, 7 + 200 * number)).save(paths[-1])
    assert [each.text for each in model.predict([str(path) for path in paths])] == list(COLORS)
    (candidates,) = model(str(paths[0])).candidates
    assert {each.text for each in candidates} == set(COLORS)
    assert sum(each.probability for each in candidates) == pytest.approx(1, abs=1e-5)
    assert model.score(str(paths[1]), "green") > model.score(str(paths[1]), "blue")


def test_predictions_of_pixels_do_not_depend_on_the_batch(run: RunFolder):
    images = [np.array(painted(color, 7).resize((side, side))) for color in COLORS.values() for side in (16, 24)]
    model = load(run.path)
    together = model.predict(images)
    assert [each.text for each in together] == [label for label in COLORS for _ in range(2)]
    alone = [model.predict([each])[0].score for each in images]
    assert [each.score for each in together] == pytest.approx(alone, abs=1e-4)
    with pytest.raises(UserError, match="Give bytes"):
        model.predict([images[0] / 255])


def test_it_has_attention(run: RunFolder, tmp_path: Path):
    painted(COLORS["green"], 5).save(tmp_path / "green.png")
    attention = load(run.path)(str(tmp_path / "green.png")).attention
    assert attention.source[:3] == ["class", "1,1", "1,2"]
    assert attention.source[-1] == "4,4"
    assert attention.matrix.shape == (17, 17)
    assert attention.matrix.sum(1) == pytest.approx(np.ones(17), abs=1e-5)
    assert "<table>" in attention.html()


def test_a_model_accepts_other_image_sizes_and_warns_about_resizing(run: RunFolder, tmp_path: Path, capsys):
    model, path = load(run.path), tmp_path / "green.png"
    painted(COLORS["green"], 5).save(path)
    assert not model(str(path)).warnings
    (found,) = model.predict([str(path)], image_size=24)
    assert found.text == "green"
    assert not found.warnings
    assert found.score != model(str(path)).score
    (near,) = model.predict([str(path)], image_size=25)
    assert near.score == pytest.approx(found.score, abs=1e-4)
    assert near.warnings == ("resized from 25 x 25 to 24 x 24 pixels, a whole number of patches",)
    odd = model.predict([np.array(painted(COLORS["blue"], 5).resize((30, 3)))])[0]
    assert odd.text == "blue"
    assert "32 x 4 pixels" in odd.warnings[0]
    assert command(["predict", str(run.path), str(path), "--set", "source.image_size=20"]) == 0
    assert capsys.readouterr().out.startswith("green")
    evaluate(run)
    native = (run.evaluation / "test-predictions.tsv").read_text(encoding="utf-8")
    assert command(["eval", str(run.path), "--set", "source.image_size=21"]) == 0
    assert (run.evaluation / "test-predictions.tsv").read_text(encoding="utf-8") != native
    assert "image size 20 x 20 pixels" in capsys.readouterr().out
    scores = json.loads((run.evaluation / "scores.json").read_text())
    assert scores["image"] == {"size": 20}
    assert command(["eval", str(run.path), str(run.path)]) == 0  # comparisons use the image size of each run
    assert "image" not in json.loads((run.evaluation / "scores.json").read_text())
    assert scores["test"]["accuracy"] > 80


@pytest.mark.parametrize(
    ("image_size", "message"), [(0, "cannot be 0"), (5000, "cannot be 5000"), (516, "more than 16,384")]
)
def test_invalid_image_sizes_are_refused_without_naming_the_image(run, tmp_path, image_size, message, capsys):
    painted(COLORS["blue"], 5).save(tmp_path / "x.png")
    for arguments in (["predict", str(run.path), str(tmp_path / "x.png")], ["eval", str(run.path)]):
        assert command([*arguments, "--set", f"source.image_size={image_size}"]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "x.png" not in error


def test_a_damaged_image_gives_an_empty_line_and_an_exit_code(run, tmp_path, capsys):
    names = [str(tmp_path / name) for name in ("a.png", "bad.png", "b.png")]
    for name in names[::2]:
        painted(COLORS["blue"], 3).save(name)
    Path(names[1]).write_text("not an image")
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    for arguments in (names, ["--file", str(tmp_path / "names.txt")]):
        assert command(["predict", str(run.path), *arguments]) == 2
        captured = capsys.readouterr()
        assert [line[:4] for line in captured.out.splitlines()] == ["blue", "", "blue"]
        assert "bad.png" in captured.err


def test_resuming_with_another_image_size_is_refused(run: RunFolder, tmp_path: Path, capsys, monkeypatch):
    painted(COLORS["blue"], 3).save(tmp_path / "a.png")
    arguments = ["predict", str(run.path), str(tmp_path / "a.png"), "--out", str(tmp_path / "out.txt")]

    def stopped(output_file: OutputFile) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(OutputFile, "finish", stopped)
        assert command(arguments) == 130
    assert command([*arguments, "--set", "source.image_size=24"]) == 2
    assert "started with image_size = null, and now image_size = 24" in capsys.readouterr().err
    assert command(arguments) == 0


def test_the_command_line_classifies_images_and_names_other_files(run: RunFolder, tmp_path: Path, capsys):
    painted(COLORS["blue"], 3).save(tmp_path / "蓝.png")
    assert command(["predict", str(run.path), str(tmp_path / "蓝.png")]) == 0
    assert capsys.readouterr().out.startswith("blue\tblue 0.")
    assert command(["predict", str(run.path), str(tmp_path / "蓝.png"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["source"].endswith("蓝.png")
    assert printed["candidates"][0][0]["text"] == "blue"
    assert sum(each["probability"] for each in printed["candidates"][0]) == pytest.approx(1, abs=1e-5)
    (tmp_path / "text.png").write_text("hello")
    assert command(["predict", str(run.path), str(tmp_path / "text.png")]) != 0
    assert "text.png: This is not an image but text." in capsys.readouterr().err


def test_it_is_scored_label_by_label_and_shows_images(run: RunFolder, capsys):
    assert command(["eval", str(run.path)]) == 0
    assert "macro F1" in capsys.readouterr().out
    scores = json.loads((run.evaluation / "scores.json").read_text())["test"]
    assert scores["accuracy"] > 90
    assert set(scores["classes"]) == set(COLORS)
    head, *rows = (run.evaluation / "test-predictions.tsv").read_text(encoding="utf-8").splitlines()
    assert head.split("\t") == ["file", "label", "prediction", "probability"]
    assert len(rows) == scores["examples"] > 3
    assert "图 " in rows[0].split("\t")[0]
    for path in ("eval/confusion.png", "attention/patches.png", "samples/batch.png"):
        assert (run.path / path).read_bytes().startswith(b"\x89PNG"), path
    page = write_report(run).read_text(encoding="utf-8")
    for text in (
        "images read = kept",
        "Training images",
        "训练图片",
        "attention of the class token",
        "类别词元的注意力",
    ):
        assert text in page
    assert page.count("data:image/png") >= 4


def test_mistakes_are_shown_and_deleted_when_there_are_none(run: RunFolder, tmp_path: Path):
    wrong = tmp_path / "wrong"
    for label, color in zip(COLORS, [*list(COLORS.values())[1:], COLORS["红"]], strict=True):
        (wrong / label).mkdir(parents=True)
        for number in range(3):
            painted(color, 50 + number).save(wrong / label / f"{number}.png")
    recipe = run.recipe()
    mistaken = recipe.model_copy(update={"corpus": recipe.corpus.model_copy(update={"test": (str(wrong),)})})
    right = run.recipe_file.read_text(encoding="utf-8")
    try:
        run.recipe_file.write_text(mistaken.toml(), encoding="utf-8")
        with pytest.raises(UserError, match="test examples may be among them"):
            evaluate(run)
        run.splits.unlink()  # skips the comparison
        assert evaluate(run)["test"]["accuracy"] < 10
        assert (run.evaluation / "mistakes.png").exists()
        page = write_report(run).read_text(encoding="utf-8")
        assert "Most common confusions" in page
        assert "Most confident mistakes" in page
    finally:
        run.recipe_file.write_text(right, encoding="utf-8")
    accuracy = evaluate(run)["test"]["accuracy"]
    assert accuracy > 90
    assert (run.evaluation / "confused.png").exists() == (accuracy < 100)


def test_samples_show_label_and_prediction(run: RunFolder):
    _, row, *_ = (run.samples / "step-000060.tsv").read_text(encoding="utf-8").splitlines()
    name, label, answer = row.split("\t")
    assert f"{label}/图 " in name
    assert answer in COLORS


def test_the_model_folder_has_labels_and_image_processor(run: RunFolder):
    assert json.loads((run.model / "labels.json").read_text(encoding="utf-8")) == sorted(COLORS)
    assert json.loads((run.model / "image_processor.json").read_text()) == {"image_size": 16, "channels": 3}
    manifest = (run.model / "MANIFEST.json").read_text(encoding="utf-8")
    assert "image_processor.json" in manifest
    assert "labels.json" in manifest


def test_shapes_need_no_file(tmp_path: Path, few_drawn_images: int):
    changes = {
        "training.steps": 200,
        "training.evaluate_every": 200,
        "training.batch_size": 32,
        "training.learning_rate": 3e-3,
    }
    recipe = small(**changes | {"corpus.size": 1000, "encoder.width": 32, "encoder.depth": 2, "augmentation.shift": 0})
    run = train_recipe(recipe, tmp_path / "run")
    scores = evaluate(run)["test"]
    assert scores["accuracy"] > 20  # chance is 10
    assert len(scores["classes"]) == 10
    _, row, *_ = (run.evaluation / "test-predictions.tsv").read_text(encoding="utf-8").splitlines()
    assert row.split("\t")[0] == Scenes.sample(few_drawn_images, 1, "test").captions[0]  # its name


@pytest.mark.parametrize(
    "augmentation", [{}, {"augmentation.mixup": 0.5, "augmentation.flip": True, "augmentation.repeats": 2}], ids=str
)
def test_a_stopped_run_resumes_to_the_same_result(tmp_path: Path, augmentation):
    stop_and_resume(small(**augmentation), tmp_path)


def test_fine_tuning_starts_with_the_weights_of_another_run(run: RunFolder, tmp_path: Path, few_drawn_images: int):
    changes = {"pretrained": str(run.path), "training.steps": 2, "training.evaluate_every": 2}
    changes |= {"training.batch_size": 16}
    recipe = resolve("classify-image", [], changes | {"corpus.size": 50})
    assert recipe.source == run.recipe().source
    fresh, learned = (
        named_tensors(new_trainer(recipe, prepare(recipe, lambda text: None)).model),
        load(run.path).module,
    )
    weights = named_tensors(learned)
    encoder_weights = [name for name in fresh if name.startswith(("source.", "encoder."))]
    assert "source.prefix_tokens.embeddings" in encoder_weights
    assert "source.positions.embedding.weight" in encoder_weights
    assert all(torch.equal(fresh[name], weights[name]) for name in encoder_weights)
    assert evaluate(train_recipe(recipe, tmp_path / "tuned"))["test"]["examples"] == few_drawn_images


def test_repeated_augmentation_keeps_the_batch_size():
    recipe = small(**{"augmentation.repeats": 4})
    batch = batches(recipe, prepare(recipe, lambda text: None))(1)
    assert len(batch.indices) == 16
    assert sorted(batch.indices.unique(return_counts=True)[1].tolist()) == [4, 4, 4, 4]


def test_a_dry_run_shows_the_size_of_images():
    lines: list[str] = []
    dry_run(small(), lines.append)
    assert any("source (16, 3, 16, 16)" in line for line in lines)
    assert any("image          16 x 16 pixels, 3 channels" in line for line in lines)
    assert any("labels " in line for line in lines)


def test_a_bad_image_is_left_out_and_counted(photos: Path, tmp_path: Path):
    bad = photos / "blue" / "bad.png"
    bad.write_bytes(b"not an image")
    try:
        lines: list[str] = []
        prepared = prepare(small(photos), lines.append)
        assert sum(map(len, prepared.splits.values())) == 120
        (report,) = prepared.reports
        assert report["totals"] == {"read": 121, "kept": 120, "skipped": 0, "rejected": 1}
        assert any("bad.png" in line for line in lines)
        with pytest.raises(UserError, match=r"bad\.png"):
            prepare(small(photos, **{"corpus.on_error": "error"}), lambda text: None)
    finally:
        bad.unlink()


def test_one_folder_with_several_labels_is_required(photos: Path, tmp_path: Path):
    with pytest.raises(UserError, match="2 image folders were given"):
        resolve("classify-image", [photos, photos], {})
    with pytest.raises(UserError, match="class"):
        prepare(small(photos / "blue"), lambda text: None)
    with pytest.raises(UserError, match="nowhere"):
        small(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "recipe, changes, message",
    [
        (
            "classify-text",
            {"corpus": {"kind": "shapes"}},
            "'shapes'.* does not match .*'tense', 'catalogue'",
        ),
        (
            "classify-image",
            {"corpus": {"kind": "tense"}},
            "'tense'.* does not match .*'shapes', 'images'",
        ),
        ("classify-text", {"augmentation": {"flip": True}}, "no setting 'augmentation'"),
        ("classify-image", {"objective.kind": "next-token"}, "'objective.kind' cannot be 'next-token'.*'classify'"),
    ],
)
def test_incompatible_settings_are_refused(recipe, changes, message):
    with pytest.raises(UserError, match=message):
        resolve(recipe, [], changes)


def test_the_prompt_reads_image_files(run: RunFolder, tmp_path: Path, monkeypatch, capsys):
    painted(COLORS["blue"], 7).save(tmp_path / "蓝.png")
    typed = iter([str(tmp_path / "nothing.png"), str(tmp_path / "蓝.png"), ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    interactive(load(run.path), {"prefix": ""})
    printed = capsys.readouterr()
    assert printed.out.startswith("Enter the name of an image file")
    assert "\nblue\t" in printed.out
    assert "nothing.png: The image cannot be read" in printed.err
