"""Split fingerprints: a changed test split is reported at evaluation, and training examples in it are refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seq2see.cli.evaluate import print_scores
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.recordings import RecordingExamples, StoredSamples
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.prepare import (
    changed_splits,
    fingerprint,
    split_fingerprint,
    write_common_fingerprints,
    write_split_fingerprints,
)
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.task import task_of


def pairs(path: Path, first: int, last: int) -> Path:
    path.write_text("".join(f"n{number}\tno {number}\n" for number in range(first, last)), encoding="utf-8")
    return path


def with_fingerprints(recipe: Recipe, folder: Path) -> RunFolder:
    """A run folder with the fingerprints of the current splits."""
    folder.mkdir()
    run = RunFolder(folder)
    write_split_fingerprints(
        run, {name: split_fingerprint(examples) for name, examples in task_of(recipe).read(recipe)[0].items()}
    )
    return run


def changed(run: RunFolder, recipe: Recipe) -> list[str]:
    return changed_splits(run, recipe, task_of(recipe).read(recipe)[0]).get("changed_splits", [])


def test_unchanged_splits_give_no_warning(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    run = with_fingerprints(recipe, tmp_path / "run")
    assert changed(run, recipe) == []
    assert json.loads((tmp_path / "run" / "splits.json").read_text())["test"]["examples"] == 3  # 5 % of 60


def test_a_run_without_fingerprints_is_not_checked(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    assert changed(RunFolder(tmp_path), recipe) == []


def test_held_out_examples_of_extended_data_may_be_training_examples(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    run = with_fingerprints(recipe, tmp_path / "run")
    pairs(tmp_path / "a.tsv", 0, 200)
    with pytest.raises(
        UserError, match=r"3 examples of .* then, 10 examples of .* test examples may be among them"
    ) as refused:
        changed(run, recipe)
    assert "a.tsv" in refused.value.location
    assert "Restore the data" in refused.value.hint


def test_a_changed_test_file_is_reported_and_extended_training_files_are_not(tmp_path):
    held = pairs(tmp_path / "held.tsv", 100, 110)
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {"corpus.test": [str(held)]})
    run = with_fingerprints(recipe, tmp_path / "run")
    pairs(held, 200, 207)
    (warning,) = changed(run, recipe)
    assert "test split has changed since training (10 examples" in warning
    assert "7 examples" in warning
    assert str(held) in warning
    pairs(held, 100, 110)
    pairs(tmp_path / "a.tsv", 0, 80)
    assert changed(run, recipe) == []


def test_a_text_of_the_training_data_is_not_evaluated(tmp_path):
    """The test text is a part of the training text."""
    (tmp_path / "book.txt").write_text("one day\ntwo days\nthree days\n" * 20)
    (tmp_path / "held.txt").write_text("four nights\n" * 20)
    recipe = resolve("ngram", [tmp_path / "book.txt"], {"corpus.test": [str(tmp_path / "held.txt")]})
    run = with_fingerprints(recipe, tmp_path / "run")
    (tmp_path / "held.txt").write_text("two days\nthree days\n")
    with pytest.raises(UserError, match="all of it was in the training data"):
        changed(run, recipe)
    (tmp_path / "held.txt").write_text("two days\nthree nights\n")
    assert len(changed(run, recipe)) == 1


def draw(folder: Path, split: str, count: int) -> None:
    for label, shade in (("dark", 10), ("light", 200)):
        (folder / split / label).mkdir(parents=True)
        for number in range(count):
            pixels = np.full((8, 8, 3), shade + number, np.uint8)
            Image.fromarray(pixels).save(folder / split / label / f"{split}{number}.png")


def test_a_deleted_folder_of_test_images_is_not_replaced_by_training_images(tmp_path):
    for split, count in (("train", 12), ("valid", 2), ("test", 3)):
        draw(tmp_path / "photos", split, count)
    recipe = resolve("classify-image", [tmp_path / "photos"], {"source.image_size": 8})
    run = with_fingerprints(recipe, tmp_path / "run")
    assert changed(run, recipe.with_(**{"source.image_size": 16})) == []  # independent of the image size
    shutil.move(tmp_path / "photos", tmp_path / "moved")
    moved = resolve("classify-image", [tmp_path / "moved"], {"source.image_size": 8})
    assert changed(run, moved) == []
    labeled = task_of(recipe.with_(corpus=moved.corpus)).read(recipe.with_(corpus=moved.corpus))[0]["test"]
    assert split_fingerprint(replace(labeled, labels=labeled.labels[::-1])) != split_fingerprint(labeled)
    shutil.rmtree(tmp_path / "moved" / "test")
    with pytest.raises(UserError, match=r"6 examples then, 1 example now.*test examples may be among them"):
        changed(run, moved)


def test_without_a_test_split_the_validation_split_is_checked(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    run, splits = RunFolder(tmp_path), {"train": [Example("a", "b")], "valid": [Example("c", "d")], "test": []}
    write_split_fingerprints(run, {name: split_fingerprint(examples) for name, examples in splits.items()})
    assert changed_splits(run, recipe, splits) == {}
    assert "valid split" in changed_splits(run, recipe, {**splits, "valid": [Example("e", "f")]})["changed_splits"][0]
    (warning,) = changed_splits(run, recipe, {**splits, "valid": [], "test": [Example("e", "f")]})["changed_splits"]
    assert "test split" in warning


@pytest.mark.parametrize(
    ("test", "sizes"),
    [
        (
            [Example("a", "b"), Example("e", "f")],
            "2 examples of 4 characters now",
        ),  # one of the two is a training example
        ([Example("x", "b")], "1 example of 2 characters now"),  # another text may have the same translation
        ([], "0 examples of 0 characters now"),
    ],
)
def test_other_examples_are_evaluated_with_a_warning(tmp_path, test, sizes):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    run, splits = RunFolder(tmp_path), {"train": [Example("a", "b")], "valid": [], "test": [Example("c", "d")]}
    write_split_fingerprints(run, {name: split_fingerprint(examples) for name, examples in splits.items()})
    assert sizes in changed_splits(run, recipe, {**splits, "test": test})["changed_splits"][0]
    further = changed_splits(run, recipe, {**splits, "longer": test or splits["test"]})["changed_splits"]
    assert "The longer split has changed since training (0 examples of 0 characters then" in further[0]


def test_an_ensemble_stores_fingerprints_that_all_members_share(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    one, same = with_fingerprints(recipe, tmp_path / "one"), with_fingerprints(recipe, tmp_path / "same")
    pairs(tmp_path / "a.tsv", 0, 80)
    other, old, both = (
        with_fingerprints(recipe, tmp_path / "other"),
        RunFolder(tmp_path / "old"),
        RunFolder(tmp_path / "both"),
    )
    for members in ([one, other], [one, old], [old, one], [old, old]):
        write_common_fingerprints(both, members)
        assert not both.splits.exists()
    write_common_fingerprints(both, [one, same])
    assert json.loads(both.splits.read_text()) == json.loads(one.splits.read_text())


def test_an_unreadable_file_of_fingerprints_is_reported(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    for wrong in ("{", "[]", '{"train": {}}', '{"test": {"sha256": "0"}}'):
        (tmp_path / "splits.json").write_text(wrong)
        with pytest.raises(UserError, match="cannot be read"):
            changed(RunFolder(tmp_path), recipe)


def test_training_stores_fingerprints_and_evaluation_compares_them(tmp_path, capsys):
    (tmp_path / "book.txt").write_text("the cat sat\na dog lay\n" * 60)
    (tmp_path / "held.txt").write_text("a dog sat\n" * 20)
    recipe = resolve("ngram", [tmp_path / "book.txt"], {"corpus.test": [str(tmp_path / "held.txt")]})
    run = train_recipe(recipe, tmp_path / "run")
    assert "changed_splits" not in evaluate(run)
    (tmp_path / "held.txt").write_text("the dog lay\n" * 20)
    scores = evaluate(run)
    print_scores(task_of(recipe), run, scores)
    assert f"note   {scores['changed_splits'][0]}" in capsys.readouterr().out
    (tmp_path / "book.txt").write_text("the cat lay\n" * 60)
    with pytest.raises(UserError, match="test examples may be among them"):
        evaluate(run)


def test_the_fingerprint_is_the_hash_of_lengths_and_texts():
    by_hand = b"\x01" + 7 * b"\x00" + b"a" + b"\x03" + 7 * b"\x00" + "我".encode()
    assert fingerprint([Example("a", "我")]) == hashlib.sha256(by_hand).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        [Example("a", "c"), Example("b", "d")],
        [Example("c", "d"), Example("a", "b")],
        [Example("a", "b")],
        [Example("ab", ""), Example("c", "d")],
    ],
)
def test_other_texts_or_another_order_give_another_fingerprint(other):
    assert fingerprint(other) != fingerprint([Example("a", "b"), Example("c", "d")])


def test_the_location_does_not_matter():
    assert fingerprint([Example("a", "b", location="x:1")]) == fingerprint([Example("a", "b", location="y:2")])


def test_recordings_in_another_folder_or_at_another_rate_are_the_same():
    def recordings(folder: str, rate: int, text: str = "yes") -> RecordingExamples:
        samples = StoredSamples.of([np.ones(rate, np.float32)])
        return RecordingExamples(samples, rate, (text,), (f"{folder}/yes/1.wav",))

    original = split_fingerprint(recordings("/here", 8000))
    assert original == split_fingerprint(recordings("/there", 16_000))
    assert original != split_fingerprint(recordings("/here", 8000, "no"))
