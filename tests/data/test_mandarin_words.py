"""Mandarin words from a small archive: the target is how the word is spoken, and no test word is trained on."""

from __future__ import annotations

import importlib.util
import io
import tarfile

import pytest
from sound_stubs import RATE, noise, wav

from catalogue_stubs import stub_catalogue
from seq2see.core.errors import UserError
from seq2see.data import hold_out
from seq2see.data.catalogue import mandarin_words
from seq2see.data.catalogue.mandarin_words import MandarinWords

HOMOPHONES = ("公式", "公事", "攻势", "工事", "权力", "权利", "形式", "形势")
WORDS = (*"人大小山水火木土金天地你我他上下左右中国好书月日年", "你好", "老虎", "西安", *HOMOPHONES)
SKIPPED = ("一下儿", "从_到_", "abc")


def archive(folder: str, names) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as opened:
        for number, name in enumerate(names):
            content = wav(noise(0.2, number))
            member = tarfile.TarInfo(f"{folder}/cmn-{name}.mp3")
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return file.getvalue()


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    pytest.importorskip("pypinyin")
    monkeypatch.setattr(mandarin_words, "require_packages", lambda *names: None)  # the stubs are WAV
    write_files = stub_catalogue(tmp_path, monkeypatch)
    syllables = ["ren2", "da4", "ma1", "_hm1", "lv4", "shan1", "shui3", "wo3", "hao3", "ni3"]
    write_files("audio-cmn", {
        "words.tar": archive("words", (*WORDS, *SKIPPED)), "syllables.tar": archive("syllables", syllables),
    })  # fmt: skip
    return MandarinWords()


@pytest.mark.parametrize(
    "word, spoken",
    [("你好", "ni2 hao3"), ("便宜", "pian2 yi5"), ("绿", "lv4"), ("女儿", "nv3 er2"), ("一下儿", ""), ("从_到_", "")],
)
def test_the_pronunciation_has_the_tones_of_connected_speech(word, spoken):
    pytest.importorskip("pypinyin")
    assert mandarin_words.pronunciation(word) == spoken


def test_words_of_one_pronunciation_are_in_one_split_and_syllables_in_training(corpus, monkeypatch):
    monkeypatch.setattr(hold_out, "HELD_OUT", 0.3)
    splits, [report] = corpus.recordings(RATE)
    assert report.read == len(WORDS) + len(SKIPPED) + 10 == report.kept + report.skipped + report.rejected
    assert (report.skipped, report.rejected) == (4, 0)
    texts = {name: set(each.texts) for name, each in splits.items()}
    assert not texts["train"] & (texts["valid"] | texts["test"])
    assert not texts["valid"] & texts["test"]
    assert all(texts.values())
    assert any(text.startswith(("gong1", "quan2", "xing2")) for text in texts["test"] | texts["valid"])
    assert {"ma1", "lv4"} <= texts["train"]
    assert "ren2" in texts["train"] | texts["valid"] | texts["test"]
    assert set(splits["train"].speakers) == {"Yue Tan", "Chen Wang"}
    assert set(splits["test"].speakers) == {"Yue Tan"}


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'pip install "seq2see\[audio\]"'):
        MandarinWords().recordings(RATE)
