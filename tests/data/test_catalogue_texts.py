"""Running texts of the catalogue, with stand-ins: where they are found and how each is divided."""

from __future__ import annotations

import hashlib
import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from seq2see.core.errors import UserError
from seq2see.data.catalogue import corpus_files
from seq2see.data.catalogue.catalogue import TEXT_READERS, CatalogueCorpus, CatalogueText
from seq2see.data.catalogue.corpus_files import check, list_corpora
from seq2see.data.catalogue.entries import CATALOGUE
from seq2see.recipes.registry import resolve

PLAYS = "".join(f"ROMEO:\nLine {number}, 第{number}行.\n\n" for number in range(40))
SENTENCES = {name: f" the {name} <unk> said \n so n't \n" for name in ("train", "valid", "test")}
CONTENTS = {
    "tinyshakespeare/input.txt.xz": PLAYS,
    "timemachine/timemachine.txt.xz": "".join(f"Chapter {number}\n" for number in range(100)),
    **{f"ptb/ptb.{name}.txt.xz": text for name, text in SENTENCES.items()},
}


@pytest.fixture(autouse=True)
def shelf(tmp_path, monkeypatch) -> Path:
    """Small texts in SEQ2SEE_DATA, which the catalogue takes for the real ones; nothing else is seen."""
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(corpus_files, "fetch", lambda wanted: pytest.fail(f"fetches {wanted.url}"))
    for name, text in CONTENTS.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(text.encode()))
    for name in TEXT_READERS:
        files = [
            replace(file, content_sha256=hashlib.sha256(CONTENTS[file.path].encode()).hexdigest())
            for file in CATALOGUE[name].files
        ]
        monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], files=tuple(files)))
    return tmp_path / "data"


def joined(splits) -> dict[str, str]:
    return {name: "".join(example.target for example in examples) for name, examples in splits.items()}


def test_nine_tenths_of_the_plays_are_the_training_split_to_the_character():
    found = joined(CatalogueText().splits())
    assert found["train"] == PLAYS[: int(0.9 * len(PLAYS))]
    assert found["valid"] == PLAYS[int(0.9 * len(PLAYS)) :]
    assert found["test"] == ""


def test_the_treebank_keeps_its_own_splits_and_its_line_endings():
    assert joined(CatalogueText(name="ptb").splits()) == SENTENCES


def test_of_the_novel_the_end_is_held_out():
    found = joined(CatalogueText(name="timemachine").splits())
    assert "".join(found.values()) == "".join(found[name] for name in ("train", "valid", "test"))
    assert found["train"] + found["valid"] + found["test"] == CONTENTS["timemachine/timemachine.txt.xz"]
    assert 0 < len(found["valid"]) < 0.1 * len(found["train"])


def test_another_text_under_the_same_name_is_refused(shelf):
    (shelf / "ptb" / "ptb.test.txt.xz").write_bytes(lzma.compress(b"something else\n"))
    with pytest.raises(UserError, match="not the expected file"):
        CatalogueText(name="ptb").splits()
    assert [each.status for each in check("ptb")] == ["verified", "verified", "mismatch"]


def test_the_error_for_a_missing_text_says_where_to_put_it(shelf):
    (shelf / "ptb" / "ptb.train.txt.xz").unlink()
    with pytest.raises(UserError, match="ptb is not on this machine") as error:
        CatalogueText(name="ptb").splits()
    assert "SEQ2SEE_DATA" in error.value.hint


def test_every_text_of_the_catalogue_has_a_reader_and_is_listed():
    texts = {name for name, entry in CATALOGUE.items() if entry.columns == ("text",)}
    assert texts == set(TEXT_READERS)
    assert {each.name for each in list_corpora() if each.found} >= texts


def test_a_text_is_no_corpus_of_pairs():
    with pytest.raises(UserError, match="running text, not pairs"):
        CatalogueCorpus(name="ptb").splits()


def test_recipes_of_writing_can_use_it():
    recipe = resolve("write", [], {"corpus.kind": "catalogue-text", "corpus.name": "timemachine"})
    assert recipe.corpus == CatalogueText(name="timemachine")
    with pytest.raises(UserError, match=r"corpus\.name"):
        resolve("write", [], {"corpus.kind": "catalogue-text", "corpus.name": "hamlet"})
