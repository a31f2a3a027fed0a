"""A captioning model: train, predict, score, trace, report, resume; on shapes and on a list of images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_recipes import stop_and_resume

from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.prepare import prepare
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import batches, dry_run, train_recipe
from seq2see.tasks.model_folder import Recipe

SMALL = {
    "source.image_size": 16,
    "source.embedding.size": 4,
    "encoder.width": 16,
    "encoder.depth": 1,
    "encoder.heads": 2,
    "decoder.width": 16,
    "decoder.depth": 1,
    "decoder.heads": 2,
    "training.steps": 12,
    "training.evaluate_every": 4,
    "training.batch_size": 16,
}
COLORS = {"red": (220, 40, 30), "green": (40, 200, 60), "blue": (40, 60, 220)}


def small(*data: Path, **changes) -> Recipe:
    return resolve("caption", list(data), SMALL | ({} if data else {"corpus.size": 100}) | changes)


def painted(color: str, number: int) -> Image.Image:
    pixels = np.array(COLORS[color]) + np.random.default_rng(number).normal(0, 40, (20, 24, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list of images, each with a caption in English and one in Chinese."""
    folder = tmp_path_factory.mktemp("data")
    lines = []
    for number in range(120):
        color = list(COLORS)[number % 3]
        painted(color, number).save(folder / f"{number}.png")
        lines += [{"file": f"{number}.png", "caption": text} for text in (f"all is {color}", f"这是 {color}")]
    path = folder / "captions.jsonl"
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(listed: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    much = {"training.steps": 120, "training.evaluate_every": 60, "training.learning_rate": 5e-3, "encoder.width": 32}
    return train_recipe(small(listed, **much), tmp_path_factory.mktemp("runs") / "learned")


def test_it_describes_images(run: RunFolder, tmp_path: Path):
    model = load(run.path)
    for color in COLORS:
        painted(color, 999).resize((90, 60)).save(tmp_path / f"{color}.png")
        found = model(str(tmp_path / f"{color}.png"))
        assert found.text in (f"all is {color}", f"这是 {color}")
    image = np.array(painted("blue", 5).resize((16, 16)))
    assert model.score(image, "all is blue") > model.score(image, "all is red")
    assert model.predict([image], prefix="all is")[0].text == "all is blue"
    mixed = [image, np.array(painted("red", 5)), np.array(painted("green", 6).resize((16, 16)))]
    for found, color in zip(model.predict(mixed, num_beams=3), ("blue", "red", "green"), strict=True):
        assert found.text.endswith(color)
    (large,) = model.predict([str(tmp_path / "blue.png")], image_size=24)
    assert "blue" in large.text


def test_decoding_gives_the_scores_of_teacher_forcing(run: RunFolder):
    model = load(run.path)
    image = np.array(painted("green", 8).resize((16, 16)))
    found = model.predict([image])[0]
    assert found.outputs[0].log_probability == pytest.approx(model.score(image, found.text), abs=1e-4)
    many = model.predict([image] * 70)  # enough for an optimized copy
    assert {each.text for each in many} == {found.text}
    assert many[69].score == pytest.approx(found.score, abs=1e-4)


def test_it_has_attention_for_each_word(run: RunFolder):
    found = load(run.path).predict([np.array(painted("red", 3).resize((16, 16)))])[0]
    attention = found.attention
    assert attention.source[0] == "1,1"
    assert len(attention.source) == 16
    assert attention.target[-1] == "<eos>"
    assert attention.matrix.shape == (len(attention.target), 16)
    assert attention.matrix.sum(1) == pytest.approx(np.ones(len(attention.target)), abs=1e-5)


def test_it_is_scored_by_any_of_the_captions_and_reported(run: RunFolder, capsys):
    assert command(["eval", str(run.path)]) == 0
    assert "exact match %" in capsys.readouterr().out
    scores = json.loads((run.evaluation / "scores.json").read_text())
    assert scores["test"]["exact_match"] > 80
    assert (run.path / "attention" / "regions.png").read_bytes().startswith(b"\x89PNG")
    page = write_report(run).read_text(encoding="utf-8")
    assert "For each word of a caption, its attention to the image" in page
    assert "对图片的注意力" in page
    assert "Training images" in page


def test_the_command_line_describes_images(run: RunFolder, tmp_path: Path, capsys):
    painted("red", 44).save(tmp_path / "红.png")
    assert command(["predict", str(run.path), str(tmp_path / "红.png")]) == 0
    assert "red" in capsys.readouterr().out
    (tmp_path / "bad.png").write_text("no")
    assert command(["predict", str(run.path), str(tmp_path / "bad.png")]) != 0
    assert "bad.png" in capsys.readouterr().err


def test_a_bad_image_is_reported_and_the_others_are_captioned(run: RunFolder, tmp_path: Path, capsys):
    painted("red", 44).save(tmp_path / "red.png")
    painted("blue", 45).save(tmp_path / "blue.png")
    (tmp_path / "坏.png").write_text("no")
    files = [str(tmp_path / name) for name in ("red.png", "坏.png", "missing.png", "blue.png")]
    assert command(["predict", str(run.path), *files]) == 2
    printed = capsys.readouterr()
    first, second, third, fourth = printed.out.split("\n")[:-1]
    assert first.endswith("red")
    assert second == third == ""
    assert fourth.endswith("blue")
    assert "坏.png" in printed.err
    assert "This is not an image but text." in printed.err
    assert "missing.png" in printed.err
    assert command(["predict", str(run.path), *files, "--json"]) == 2
    assert [len(json.loads(line)["outputs"]) for line in capsys.readouterr().out.splitlines()] == [1, 0, 0, 1]
    assert command(["predict", str(run.path), *files, "--set", "decoding.nonsense=1"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("nonsense") == 1


def test_a_bad_image_in_a_long_list_is_reported_and_all_others_are_captioned(run: RunFolder, tmp_path: Path, capsys):
    for color in ("red", "blue"):
        painted(color, 46).save(tmp_path / f"{color}.png")
    (tmp_path / "坏.png").write_text("no")
    names = ["red.png", "坏.png", "", *["red.png"] * 70, "missing.png", "blue.png"]
    lines = [str(tmp_path / name) if name else "" for name in names]
    (tmp_path / "list.txt").write_text("\n".join(lines), encoding="utf-8")
    whole = ["predict", str(run.path), "--file", str(tmp_path / "list.txt"), "--out", str(tmp_path / "outputs.txt")]
    assert command(whole) == 2
    outputs = (tmp_path / "outputs.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert [each.split(" ")[-1] for each in outputs] == ["red", "", "", *["red"] * 70, "", "blue"]
    printed = capsys.readouterr().err
    assert f"{tmp_path / '坏.png'}: This is not an image but text." in printed
    assert f"{tmp_path / 'missing.png'}: The image cannot be read: No such file" in printed
    assert "75 of 75 lines written to" in printed
    (tmp_path / "list.txt").write_text("nowhere.png\n" * 9, encoding="utf-8")
    assert command([*whole[:-1], str(tmp_path / "others.txt")]) == 2
    assert capsys.readouterr().err.count("nowhere.png") == 1, "a wrong folder is reported once"


def test_the_model_folder_has_tokenizer_and_image_processor(run: RunFolder):
    assert {path.name for path in run.model.iterdir()} >= {
        "image_processor.json",
        "tokenizer.json",
        "model.safetensors",
    }
    assert not (run.model / "labels.json").exists()


def test_shapes_come_with_captions(tmp_path: Path, few_drawn_images: int):
    few = {"corpus.size": 200}
    run = train_recipe(small(**few), tmp_path / "run")
    scores = evaluate(run)
    assert scores["test"]["pairs"] == few_drawn_images
    _, row, *_ = (run.samples / "step-000012.tsv").read_text(encoding="utf-8").splitlines()
    name, caption, _ = row.split("\t")
    assert name == "valid 0"
    assert caption.startswith("a ")
    lines: list[str] = []
    dry_run(small(**few), lines.append)
    assert any(line.strip().startswith("decoder input  <bos> a ") for line in lines)


def test_every_epoch_has_the_next_caption(listed: Path):
    recipe = small(listed)
    prepared = prepare(recipe, lambda text: None)
    batch_at, epoch = batches(recipe, prepared), -(-len(prepared.train) // 16)
    starts = [set(batch_at(step).labels[:, 0].tolist()) for step in (1, 1 + epoch, 1 + 2 * epoch)]
    assert [len(each) for each in starts] == [1, 1, 1]  # "all" or "这"
    assert starts[0] != starts[1]
    assert starts[0] == starts[2]


def test_a_stopped_run_resumes_to_the_same_result(tmp_path: Path, listed: Path):
    stop_and_resume(small(listed, **{"augmentation.shift": 2}), tmp_path)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"augmentation.mixup": 0.5}, "mixed images have no caption"),
        ({"target.vocabulary": "shared"}, "images have no vocabulary that could be shared"),
        ({"target": {"kind": "label"}}, "'target.kind' cannot be 'label'.*'text'"),
    ],
)
def test_incompatible_settings_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        small(**changes)


@pytest.mark.parametrize("kind", ["hf", "onnx", "ct2"])
def test_an_impossible_export_is_refused(run: RunFolder, tmp_path: Path, kind, capsys):
    assert command(["export", str(run.path), "--to", kind, "--out", str(tmp_path / kind)]) != 0
    assert "Traceback" not in capsys.readouterr().err
