"""A ViT from drawn shapes, or from a folder of pictures, to a label: train, ask, score, look inside, resume."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import stop_and_go_on

from seq2see.api import resolve
from seq2see.core.errors import UserError
from seq2see.workbench.dry import dry_run
from seq2see.workbench.evaluate import evaluate
from seq2see.workbench.predict import load
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.train import train_recipe

SMALL = {
    "source.side": 16,
    "source.frontend.size": 4,
    "corpus.size": 200,
    "encoder.width": 16,
    "encoder.depth": 1,
    "encoder.heads": 2,
    "training.steps": 12,
    "training.save_every": 4,
    "training.tokens": 16,
}


def small(name: str = "classify-image", **changes) -> Recipe:
    return resolve(name, [], SMALL | changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A model that has learnt to tell some shapes."""
    much = {"corpus.size": 1500, "training.steps": 300, "training.save_every": 150, "training.tokens": 32}
    changes = much | {"encoder.width": 32, "encoder.depth": 2, "training.rate": 3e-3}
    return train_recipe(small(**changes), tmp_path_factory.mktemp("runs") / "learnt")


def test_it_learns_to_tell_shapes(run: RunFolder):
    scores = evaluate(run)["test"]
    assert scores["accuracy"] > 25  # chance is 10
    assert len(scores["classes"]) == 10
    _, *rows = (run.evaluation / "test-answers.tsv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == scores["answers"] == 1000
    assert rows[0].split("\t")[1] in rows[0].split("\t")[0]  # a picture is called by its caption
    assert (run.evaluation / "confusion.png").read_bytes().startswith(b"\x89PNG")


def test_pixels_in_memory_are_answered(run: RunFolder):
    pictures = run.recipe().corpus.pictures(16, 3)[0]["test"]
    found = load(run.path).predict(list(pictures.pixels[:200]))
    right = sum(each.text == label for each, label in zip(found, pictures.labels, strict=False))
    assert right > 50
    assert sum(choice.probability for choice in found[0].guesses[0]) == pytest.approx(1, abs=1e-5)


def test_samples_show_label_and_answer(run: RunFolder):
    _, row, *_ = (run.samples / "step-000300.tsv").read_text(encoding="utf-8").splitlines()
    caption, label, answer = row.split("\t")
    assert label in caption
    assert answer in evaluate(run)["test"]["classes"]


def test_a_stopped_run_goes_on_to_the_same_end(tmp_path: Path):
    stop_and_go_on(small(), tmp_path)


def test_a_dry_run_says_what_would_be_seen():
    said: list[str] = []
    dry_run(small(), said.append)
    assert any("source (16, 3, 16, 16)" in line for line in said)
    assert any("sees    16 x 16 pixels of 3 numbers each" in line for line in said)
    assert any("answers " in line for line in said)


def test_pictures_and_texts_are_not_mixed():
    with pytest.raises(UserError, match=r"corpus\.kind=shapes goes with source\.kind=picture"):
        resolve("classify-text", [], {"corpus": {"kind": "shapes"}})
