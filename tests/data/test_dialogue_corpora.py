"""The corpora of dialogues of the catalogue, on small files of their formats."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path

import pytest

from seq2see.core.errors import UserError
from seq2see.data.catalogue import corpus_files, dialogue_corpora
from seq2see.data.catalogue.corpus_files import CorpusFiles
from seq2see.data.catalogue.dialogue_corpora import (
    CatalogueDialogues,
    hold_out_dialogues,
    pair_hashes,
    read_chatterbot,
    read_chitchat,
    read_xdailydialog,
)
from seq2see.data.catalogue.entries import CATALOGUE, File
from seq2see.data.dialogue import alternating


def files(folder: Path, name: str, contents: dict[str, bytes]) -> CorpusFiles:
    for path, content in contents.items():
        (folder / path).write_bytes(content)
    return CorpusFiles(CATALOGUE[name], folder, tuple(File(path) for path in contents))


def texts(dialogues) -> list[list[str]]:
    return [[message.content for message in each.messages] for each in dialogues]


def test_dialogues_of_the_second_file_that_share_a_pair_with_the_first_are_left_out(tmp_path: Path):
    first = "How are you ? __eou__ Fine . __eou__ Good .\nWho ? __eou__ Me .\n"
    second = "Hello __eou__ how are you? __eou__ fine __eou__\t1\t2 2\nYes __eou__ No __eou__\t1\t1 1\n"
    corpus = files(tmp_path, "xdailydialog", {
        "1k_En.txt.xz": lzma.compress(first.encode()), "en_dev.txt.xz": lzma.compress(second.encode()),
        "1k_Zh.txt.xz": lzma.compress("好吗？__eou__好。\n".encode()),
        "zh_dev.txt.xz": lzma.compress("谁？__eou__我。\n".encode()),
    })  # fmt: skip
    found = texts(read_xdailydialog(corpus, "en"))
    assert found == [["How are you ?", "Fine ."], ["Who ?", "Me ."], ["Yes", "No"]]
    assert texts(read_xdailydialog(corpus, "zh")) == [["好吗？", "好。"], ["谁？", "我。"]]


def test_what_one_person_writes_in_a_row_is_one_message(tmp_path: Path):
    content = {"x": {"messages": [[{"text": "Hi"}, {"text": "you\nthere"}], [{"text": ""}], [{"text": "Hello"}]]}}
    corpus = files(tmp_path, "chitchat", {"dataset.json": json.dumps(content).encode()})
    assert texts(read_chitchat(corpus, "en")) == [["Hi you there", "Hello"]]
    corpus = files(tmp_path, "chitchat", {"dataset.json": b'{"x": 3}'})
    with pytest.raises(UserError, match="not the chitchat dataset"):
        read_chitchat(corpus, "en")


def test_the_lists_of_an_archive_are_read_by_language(tmp_path: Path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in (("english/a.yml", "- - Hi\n  - Hello\n"), ("chinese/a.yml", "- - 好吗\n  - 好\n")):
            info = tarfile.TarInfo(f"chatterbot_corpus/data/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    corpus = files(tmp_path, "chatterbot", {"a.tar.xz": lzma.compress(buffer.getvalue())})
    assert texts(read_chatterbot(corpus, "en")) == [["Hi", "Hello"]]
    assert texts(read_chatterbot(corpus, "zh")) == [["好吗", "好"]]


def test_an_installed_package_is_located_and_not_imported(tmp_path: Path, monkeypatch):
    package = tmp_path / "chitchat_dataset"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    content = {
        str(number): {"messages": [[{"text": f"{letter}{number}"}] for letter in "abcd"]} for number in range(30)
    }
    (package / "dataset.json").write_text(json.dumps(content))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SEQ2SEE_DATA", raising=False)
    assert corpus_files.get_corpus("chitchat").package.startswith("chitchat_dataset")
    splits = CatalogueDialogues(name="chitchat").splits()
    assert all(splits[name] for name in ("valid", "test"))
    with pytest.raises(UserError, match="English dialogues only"):
        CatalogueDialogues(name="chitchat", language="zh").splits()


def test_training_has_every_message_as_a_reply_and_no_pair_of_a_held_out_dialogue():
    dialogues = [alternating([f"{number} a", f"{number} b", f"{number} c", "bye"]) for number in range(40)]
    dialogues += [alternating([f"x{number}", f"{number} a", f"{number} b"]) for number in range(40)]
    dialogues += [alternating([f"{number} y", f"{number} z"]) for number in range(40)]  # has one reply only
    splits = hold_out_dialogues(dialogues)
    held_out = {pair for name in ("valid", "test") for each in texts(splits[name]) for pair in pair_hashes(each)}
    trained = texts(splits["train"])
    assert not any(held_out & pair_hashes(each) for each in trained)
    assert all(len(each) > 1 for each in trained)
    replies = {each.messages[index].content for each in splits["train"] for index in each.replies}
    assert {"0 b", "0 c"} & replies
    assert dialogue_corpora.DIALOGUE_READERS.keys() == set(CatalogueDialogues.model_fields["name"].annotation.__args__)


def test_a_member_of_an_archive_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(dialogue_corpora, "MAX_MEMBER", 17)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in (("a", "- - Hi\n  - Hello\n\n"), ("b", "- - Bye\n  - Ciao\n")):  # 18 and 17 bytes
            info = tarfile.TarInfo(f"data/english/{name}.yml")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    corpus = files(tmp_path, "chatterbot", {"a.tar.xz": lzma.compress(buffer.getvalue())})
    assert texts(read_chatterbot(corpus, "en")) == [["Bye", "Ciao"]]
