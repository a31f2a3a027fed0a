"""A captioning model for videos: train, predict, score, report, resume; on drawn videos and on files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_recipes import stop_and_resume

from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.data.generated.shapes import MovingShapesCorpus
from seq2see.recipes.registry import resolve
from seq2see.runs.load import load
from seq2see.runs.prepare import prepare
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import dry_run, train_recipe
from seq2see.tasks.model_folder import Recipe

SMALL = {
    "corpus.size": 60,
    "source.image_size": 16,
    "source.frames": 4,
    "encoder.width": 16,
    "decoder.width": 16,
    "training.steps": 12,
    "training.evaluate_every": 4,
    "training.batch_size": 12,
}


def small(**changes) -> Recipe:
    return resolve("caption-video", [], SMALL | changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A model with attention that has memorized six videos."""
    much = {"corpus.size": 6, "training.steps": 160, "training.evaluate_every": 80, "training.learning_rate": 5e-3}
    return train_recipe(small(**much, **{"decoder.attention": "additive"}), tmp_path_factory.mktemp("runs") / "learned")


@pytest.fixture(scope="module")
def videos():
    return MovingShapesCorpus(size=6).videos(16, 3, 4)[0]["train"]


def test_it_describes_videos(run: RunFolder, videos, tmp_path: Path):
    model = load(run.path)
    predictions = model.predict(list(videos.pixels))
    assert [each.text for each in predictions] == list(videos.labels)
    score = model.score(videos.pixels[2], predictions[2].text)
    assert predictions[2].outputs[0].log_probability == pytest.approx(score, abs=1e-4)
    beam = model.predict(list(videos.pixels), num_beams=3)
    assert [each.text for each in beam] == list(videos.labels)
    many = model.predict([videos.pixels[number % 6] for number in range(70)])  # enough for an optimized copy
    assert [each.text for each in many] == [videos.labels[number % 6] for number in range(70)]
    backwards = model.score(videos.pixels[2][::-1].copy(), videos.labels[2])
    assert backwards != pytest.approx(model.score(videos.pixels[2], videos.labels[2]), abs=1e-3)


def test_gifs_and_folders_of_frames_are_read(run: RunFolder, videos, tmp_path: Path, capsys):
    frames = [Image.fromarray(frame).resize((64, 64), Image.Resampling.NEAREST) for frame in videos.pixels[1]]
    doubled = [frame for frame in frames for _ in range(2)]
    doubled[0].save(tmp_path / "短片.webp", save_all=True, append_images=doubled[1:], lossless=True)
    (tmp_path / "frames").mkdir()
    for number, frame in enumerate(frames, 9):
        frame.save(tmp_path / "frames" / f"{number}.png")
    assert command(["predict", str(run.path), str(tmp_path / "短片.webp"), str(tmp_path / "frames")]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [videos.labels[1]] * 2
    assert "frames" not in printed.err
    larger = load(run.path)(str(tmp_path / "frames"), image_size=32)
    assert larger.text == videos.labels[1]
    assert "resized from 32 x 32 to 16 x 16 pixels, the size of the training videos" in larger.warnings
    frames[0].save(tmp_path / "one.png")
    assert command(["predict", str(run.path), str(tmp_path / "one.png")]) == 0
    assert "single frame" in capsys.readouterr().err


def test_it_is_scored_plotted_and_reported(run: RunFolder, videos, few_drawn_images: int, capsys):
    assert command(["eval", str(run.path)]) == 0
    assert "exact match %" in capsys.readouterr().out
    assert json.loads((run.evaluation / "scores.json").read_text())["test"]["pairs"] == few_drawn_images
    assert (run.samples / "batch.png").read_bytes().startswith(b"\x89PNG")
    assert (run.path / "attention" / "frames.png").read_bytes().startswith(b"\x89PNG")
    attention = load(run.path).predict([videos.pixels[0]])[0].attention
    assert attention.source == ["1", "2", "3", "4"]
    assert attention.matrix.sum(1) == pytest.approx(np.ones(len(attention.target)), abs=1e-5)
    page = write_report(run).read_text(encoding="utf-8")
    assert "the words with the most attention" in page
    assert "注意力最大的词" in page


def test_a_stopped_run_resumes_to_the_same_result(tmp_path: Path):
    stop_and_resume(small(), tmp_path)


def test_a_dry_run_shows_the_size_of_videos():
    lines: list[str] = []
    dry_run(small(), lines.append)
    assert any("image          4 frames of 16 x 16 pixels" in line for line in lines)
    assert any("videos of 4 frames of 16 x 16" in line for line in lines)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"augmentation": {"shift": 1}}, "no setting 'augmentation'"),
        ({"corpus": {"kind": "shapes"}}, "'shapes'.* does not match .*'moving-shapes', 'captioned-videos'"),
        ({"source": {"kind": "image"}}, "'source.kind' cannot be 'image'.*'video'"),
        ({"encoder": {"kind": "transformer"}}, "'encoder.kind' cannot be 'transformer'.*'recurrent'"),
    ],
)
def test_incompatible_settings_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        small(**changes)


def test_user_videos_are_trained_on_and_captioned(videos, tmp_path: Path, capsys):
    """A folder with folders of frames, animated images and a list of captions."""
    lines = ["video,caption"]
    for number, (frames, caption) in enumerate(zip(videos.pixels, videos.labels, strict=True)):
        first, *others = [Image.fromarray(frame) for frame in frames]
        if number % 2:
            first.save(tmp_path / f"片{number}.webp", save_all=True, append_images=others, lossless=True)
            lines.append(f'片{number}.webp,"{caption}"')
            continue
        (tmp_path / str(number)).mkdir()
        for index, frame in enumerate([first, *others], 8):
            frame.save(tmp_path / str(number) / f"{index}.png")
        lines.append(f'{number},"{caption}"')
    (tmp_path / "captions.csv").write_text("\n".join(lines), encoding="utf-8")
    sizes = {path: value for path, value in SMALL.items() if path != "corpus.size"}
    run = train_recipe(resolve("caption-video", [tmp_path], sizes), tmp_path / "run")
    assert run.recipe().corpus.kind == "captioned-videos"
    assert json.loads((run.path / "data_report.json").read_text())["reports"][0]["totals"]["kept"] == 6
    assert command(["eval", str(run.path)]) == 0
    assert command(["predict", str(run.path), str(tmp_path / "0"), str(tmp_path / "片1.webp")]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 2


def test_folders_of_splits_keep_their_division(videos, tmp_path: Path):
    for split, indices in (("train", (0, 1, 2)), ("valid", (3,)), ("test", (4, 5))):
        (tmp_path / split).mkdir()
        for index in indices:
            first, *others = [Image.fromarray(frame) for frame in videos.pixels[index]]
            first.save(tmp_path / split / f"{index}.webp", save_all=True, append_images=others, lossless=True)
        lines = [f'{index}.webp,"{videos.labels[index]}"' for index in indices]
        (tmp_path / split / "captions.csv").write_text("\n".join(["video,caption", *lines]))
    sizes = {path: value for path, value in SMALL.items() if path != "corpus.size"}
    prepared = prepare(resolve("caption-video", [tmp_path], sizes), lambda _: None)
    for split, indices in (("train", (0, 1, 2)), ("valid", (3,)), ("test", (4, 5))):
        assert [example.target for example in prepared.splits[split]] == [videos.labels[index] for index in indices]
        assert (prepared.splits[split].pixels == videos.pixels[list(indices)]).all()


def test_pixels_of_an_image_are_refused(run: RunFolder):
    with pytest.raises(UserError, match="frame x height x width x 3"):
        load(run.path).predict([np.zeros((16, 16, 3), np.uint8)])
