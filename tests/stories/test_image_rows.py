"""Benchmark rows of images and videos: a run folder gives a row, and a table has the rows of its task."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import images
from row_files import Row, read_rows, write_row

from seq2see.core.errors import UserError
from seq2see.recipes.registry import RECIPES, resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from seq2see.training.loop import read_metrics

SHORT = {
    "corpus.size": 40,
    "source.image_size": 16,
    "training.steps": 4,
    "training.evaluate_every": 2,
    "training.batch_size": 8,
}
SMALL = {
    "classify-image": {"source.embedding.size": 8, "encoder.width": 16, "encoder.depth": 1, "encoder.heads": 2},
    "caption-video": {"source.frames": 2, "encoder.width": 16, "decoder.width": 16},
}


@pytest.fixture
def scored(tmp_path, request) -> tuple[Row, RunFolder]:
    """A row of a run that was trained elsewhere, with another seed and on another machine."""
    changes = SHORT | SMALL[request.param] | {"training.seed": 3}
    run = train_recipe(resolve(request.param, [], changes), tmp_path / "run")
    environment = json.loads((run.path / "env.json").read_text())
    (run.path / "env.json").write_text(json.dumps(environment | {"device": "a large GPU"}))
    images.main(["score", str(run.path), "--out", str(tmp_path / "rows")])
    (row,) = read_rows(tmp_path / "rows")
    return row, run


@pytest.mark.parametrize("scored", SMALL, indirect=True)
def test_a_finished_run_gives_a_row(scored):
    row, run = scored
    assert (row.recipe, row.seed) == (run.recipe().name, 3)
    assert row.environment["device"] == "a large GPU"
    timing = read_metrics(run.path / "timing.jsonl")
    assert len(timing) == 2
    assert row.metrics["seconds"] == pytest.approx(sum(row["seconds"] for row in timing), abs=0.06)
    assert row.metrics["steps"] == 4
    if row.recipe == "classify-image":
        assert (
            row.metrics["test_accuracy"] == json.loads((run.evaluation / "scores.json").read_text())["test"]["accuracy"]
        )
    else:
        test = evaluate(run)["test"]
        assert row.metrics["test_exact_match"] == test["exact_match"]
        assert row.metrics["test_bleu"] == pytest.approx(test["bleu"]["value"])
        assert len(row.outputs["test"]) == test["pairs"]


def test_each_task_has_its_table_with_machines_and_seeds(tmp_path):
    metrics = {"steps": 5, "weights": 7, "seconds": 60.0, "test_accuracy": 91.0, "valid_accuracy": 90.0}
    for seed in (1, 2):
        write_row(Row("cifar10-vit", seed, metrics=metrics, environment={"device": "GPU"}), tmp_path / "rows")
    write_row(Row("fashion-mnist-hybrid", 1, metrics=metrics, environment={"device": "x86"}), tmp_path / "rows")
    caption_metrics = {"test_exact_match": 97.9, "valid_exact_match": 97.0, "test_bleu": 99.0, "weights": 7}
    write_row(Row("caption-video", 1, metrics=caption_metrics, environment={"device": "x86"}), tmp_path / "rows")
    results = tmp_path / "images.json"
    images.main(["collect", str(tmp_path / "rows"), "--results", str(results)])
    tables = json.loads(results.read_text())["tables"]
    assert [row["recipe"] for row in tables["natural"]["rows"]] == ["cifar10-vit", "fashion-mnist-hybrid"]
    assert [row["machine"] for row in tables["natural"]["rows"]] == ["GPU", "x86"]
    assert tables["natural"]["rows"][0]["seconds"] == [60.0, 60.0]
    assert [each["title"] for each in tables["natural"]["columns"]] == [
        "recipe", "change", "seeds", "weights", "steps", "seconds", "valid accuracy %", "test accuracy %", "machine",
    ]  # fmt: skip
    assert tables["captioning"]["rows"][0]["test_exact_match"] == [97.9]
    assert tables["synthetic"]["rows"] == tables["photos"]["rows"] == []


def test_a_row_that_no_table_shows_is_refused(tmp_path):
    write_row(Row("g2p", 1), tmp_path)
    with pytest.raises(UserError, match="g2p"):
        images.main(["collect", str(tmp_path), "--results", str(tmp_path / "images.json")])


def test_every_table_shows_existing_recipes():
    shown = [name for names, _ in images.TABLES.values() for name in names]
    assert set(shown) <= RECIPES.keys()
    assert len(set(shown)) == len(shown)
