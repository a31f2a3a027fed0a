"""A run remembers its splits: what is judged is what was held out, or it is told, or refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seq2see.api import resolve
from seq2see.cli.scores import print_scores
from seq2see.core.errors import UserError
from seq2see.runs.evaluate import evaluate
from seq2see.runs.prepare import read_corpus
from seq2see.runs.recipe import Recipe
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.split_fingerprints import (
    changed_splits,
    fingerprint,
    split_fingerprint,
    write_common_fingerprints,
    write_split_fingerprints,
)
from seq2see.runs.train import train_recipe
from seq2see.sources.examples import Example


def pairs(path: Path, first: int, last: int) -> Path:
    path.write_text("".join(f"n{number}\tno {number}\n" for number in range(first, last)), encoding="utf-8")
    return path


def known(recipe: Recipe, folder: Path) -> RunFolder:
    """A run that remembers the splits as they are now."""
    folder.mkdir()
    run = RunFolder(folder)
    write_split_fingerprints(
        run, {name: split_fingerprint(examples) for name, examples in read_corpus(recipe)[0].items()}
    )
    return run


def changed(run: RunFolder, recipe: Recipe) -> list[str]:
    return changed_splits(run, recipe, read_corpus(recipe)[0]).get("changed_splits", [])


def test_what_is_as_it_was_needs_no_words(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    run = known(recipe, tmp_path / "run")
    assert changed(run, recipe) == []
    assert json.loads((tmp_path / "run" / "splits.json").read_text())["test"]["examples"] == 3  # 5 % of 60


def test_a_run_that_remembers_nothing_is_judged_as_before(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    assert changed(RunFolder(tmp_path), recipe) == []


def test_where_all_has_grown_what_is_held_out_now_may_have_been_learned(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    run = known(recipe, tmp_path / "run")
    pairs(tmp_path / "a.tsv", 0, 200)
    with pytest.raises(UserError, match=r"3 examples of .* then, 10 examples of .* may have been learned") as refused:
        changed(run, recipe)
    assert "a.tsv" in refused.value.location
    assert "Put the data back" in refused.value.hint


def test_a_test_file_that_is_another_is_told_and_training_files_that_grow_beside_it_are_not(tmp_path):
    held = pairs(tmp_path / "held.tsv", 100, 110)
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {"corpus.test": [str(held)]})
    run = known(recipe, tmp_path / "run")
    pairs(held, 200, 207)
    (told,) = changed(run, recipe)
    assert "test split is not the one of training (10 examples" in told
    assert "7 examples" in told
    assert str(held) in told
    pairs(held, 100, 110)
    pairs(tmp_path / "a.tsv", 0, 80)
    assert changed(run, recipe) == []


def test_a_text_that_was_learned_is_not_judged(tmp_path):
    """A book is judged on a chapter of its own, which no reader of pairs would notice."""
    (tmp_path / "book.txt").write_text("one day\ntwo days\nthree days\n" * 20)
    (tmp_path / "held.txt").write_text("four nights\n" * 20)
    recipe = resolve("ngram", [tmp_path / "book.txt"], {"corpus.test": [str(tmp_path / "held.txt")]})
    run = known(recipe, tmp_path / "run")
    (tmp_path / "held.txt").write_text("two days\nthree days\n")
    with pytest.raises(UserError, match="all of it was learned"):
        changed(run, recipe)
    (tmp_path / "held.txt").write_text("two days\nthree nights\n")
    assert len(changed(run, recipe)) == 1


def draw(folder: Path, split: str, count: int) -> None:
    for label, shade in (("dark", 10), ("light", 200)):
        (folder / split / label).mkdir(parents=True)
        for number in range(count):
            pixels = np.full((8, 8, 3), shade + number, np.uint8)
            Image.fromarray(pixels).save(folder / split / label / f"{split}{number}.png")


def test_a_folder_of_test_images_that_has_vanished_is_not_replaced_by_learned_ones(tmp_path):
    for split, count in (("train", 12), ("valid", 2), ("test", 3)):
        draw(tmp_path / "photos", split, count)
    recipe = resolve("classify-image", [tmp_path / "photos"], {"source.image_size": 8})
    run = known(recipe, tmp_path / "run")
    assert changed(run, recipe.with_(**{"source.image_size": 16})) == []  # images may be seen in another size
    shutil.move(tmp_path / "photos", tmp_path / "moved")
    moved = resolve("classify-image", [tmp_path / "moved"], {"source.image_size": 8})
    assert changed(run, moved) == []
    labeled = read_corpus(recipe.with_(corpus=moved.corpus))[0]["test"]
    assert split_fingerprint(replace(labeled, labels=labeled.labels[::-1])) != split_fingerprint(labeled)
    shutil.rmtree(tmp_path / "moved" / "test")
    with pytest.raises(UserError, match=r"6 examples then, 1 example now.*may have been learned"):
        changed(run, moved)


def test_without_a_test_split_that_of_validation_is_judged(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    run, splits = RunFolder(tmp_path), {"train": [Example("a", "b")], "valid": [Example("c", "d")], "test": []}
    write_split_fingerprints(run, {name: split_fingerprint(examples) for name, examples in splits.items()})
    assert changed_splits(run, recipe, splits) == {}
    assert "valid split" in changed_splits(run, recipe, {**splits, "valid": [Example("e", "f")]})["changed_splits"][0]
    (told,) = changed_splits(run, recipe, {**splits, "valid": [], "test": [Example("e", "f")]})["changed_splits"]
    assert "test split" in told


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ([Example("a", "b"), Example("e", "f")], "2 examples of 4 characters now"),  # one of the two was learned
        ([Example("x", "b")], "1 example of 2 characters now"),  # another text may have the same translation
        ([], "0 examples of 0 characters now"),
    ],
)
def test_what_was_not_learned_is_judged_and_told(tmp_path, test, told):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    run, splits = RunFolder(tmp_path), {"train": [Example("a", "b")], "valid": [], "test": [Example("c", "d")]}
    write_split_fingerprints(run, {name: split_fingerprint(examples) for name, examples in splits.items()})
    assert told in changed_splits(run, recipe, {**splits, "test": test})["changed_splits"][0]
    further = changed_splits(run, recipe, {**splits, "longer": test or splits["test"]})["changed_splits"]
    assert "The longer split is not the one of training (0 examples of 0 characters then" in further[0]


def test_an_ensemble_remembers_what_its_members_agree_on(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    one, same = known(recipe, tmp_path / "one"), known(recipe, tmp_path / "same")
    pairs(tmp_path / "a.tsv", 0, 80)
    other, old, both = known(recipe, tmp_path / "other"), RunFolder(tmp_path / "old"), RunFolder(tmp_path / "both")
    for members in ([one, other], [one, old], [old, one], [old, old]):
        write_common_fingerprints(both, members)
        assert not both.splits.exists()
    write_common_fingerprints(both, [one, same])
    assert json.loads(both.splits.read_text()) == json.loads(one.splits.read_text())


def test_a_file_that_says_something_else_is_told(tmp_path):
    recipe = resolve("translate", [pairs(tmp_path / "a.tsv", 0, 60)], {})
    for wrong in ("{", "[]", '{"train": {}}', '{"test": {"sha256": "0"}}'):
        (tmp_path / "splits.json").write_text(wrong)
        with pytest.raises(UserError, match="cannot be read"):
            changed(RunFolder(tmp_path), recipe)


def test_training_remembers_and_judging_compares(tmp_path, capsys):
    (tmp_path / "book.txt").write_text("the cat sat\na dog lay\n" * 60)
    (tmp_path / "held.txt").write_text("a dog sat\n" * 20)
    recipe = resolve("ngram", [tmp_path / "book.txt"], {"corpus.test": [str(tmp_path / "held.txt")]})
    run = train_recipe(recipe, tmp_path / "run")
    assert "changed_splits" not in evaluate(run)
    (tmp_path / "held.txt").write_text("the dog lay\n" * 20)
    scores = evaluate(run)
    print_scores(run, scores)
    assert f"note   {scores['changed_splits'][0]}" in capsys.readouterr().out
    (tmp_path / "book.txt").write_text("the cat lay\n" * 60)
    with pytest.raises(UserError, match="may have been learned"):
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


def test_the_place_does_not_matter():
    assert fingerprint([Example("a", "b", location="x:1")]) == fingerprint([Example("a", "b", location="y:2")])
