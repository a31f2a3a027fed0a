"""One word for one thing: the words of the glossary are used, and their synonyms are not."""

from __future__ import annotations

import re

import pytest
from source_tree import ROOT, defined_names, modules, project_files, tables

ENGLISH, CHINESE = (tables(ROOT / "docs" / f"glossary{ending}") for ending in (".md", ".zh.md"))
*SUBJECTS, UNUSED = ENGLISH
WORDS = [row[0] for subject in SUBJECTS for row in ENGLISH[subject]]
BANNED = {word for row in ENGLISH[UNUSED] for word in re.findall(r"`(\w+)`", row[0])}

# Chinese terms that would name a second time what the glossary has a name for.
CHINESE_SYNONYMS = {
    "令牌": "词元", "标记器": "分词器", "词汇表": "词表", "集束搜索": "束搜索", "波束搜索": "束搜索",
    "解码机": "解码器", "编码机": "编码器", "强制教学": "教师强制", "暴露偏置": "暴露偏差", "隐状态": "隐藏状态",
    "遮罩": "掩码", "注意力机制": "注意力", "困惑值": "困惑度", "位置嵌入": "位置编码", "食谱": "配方",
}  # fmt: skip


def is_banned(name: str) -> bool:
    """Whether a name, or one of the words it is made of, should be another."""
    plain = name.strip("_").lower()
    return plain in BANNED or any(word in BANNED for word in plain.split("_"))


@pytest.mark.parametrize("name", ["attn", "src_lengths", "_cfg", "Utils", "d_model"])
def test_the_rule_notices(name):
    assert is_banned(name)


@pytest.mark.parametrize("name", ["attention", "source", "seq2seq", "num_beams", "sequence"])
def test_the_rule_lets_pass(name):
    assert not is_banned(name)


def test_no_name_in_the_source_is_a_banned_one():
    wrong = [
        f"{module}:{line} {name}"
        for module in modules()
        for name, line in [*defined_names(module), (module.path.stem, 1)]
        if is_banned(name)
    ]
    assert not wrong, "docs/glossary.md says how to write these:\n" + "\n".join(wrong)


def test_every_word_of_the_glossary_is_used_in_the_source():
    text = " ".join(module.text for module in modules())
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|[\s_-]+", " ", text).lower()  # SelfAttention is self-attention, too
    missing = [word for word in WORDS if not re.search(rf"\b{word.replace('-', ' ')}", text)]
    assert not missing, f"nothing in the source is called so: {missing}"


def test_every_word_means_one_thing():
    assert len(WORDS) == len(set(WORDS))
    assert not set(WORDS) & BANNED


def test_both_glossaries_list_the_same_words():
    assert [[row[:2] for row in rows] for rows in list(ENGLISH.values())[:-1]] == [
        [row[:2] for row in rows] for rows in list(CHINESE.values())[:-1]
    ]
    banned = [[row[0] for row in list(pages.values())[-1]] for pages in (ENGLISH, CHINESE)]
    assert banned[0] == banned[1]


def test_chinese_texts_use_the_terms_of_the_glossary():
    wrong = [
        f"{path.relative_to(ROOT)}: {found} should be {term}"
        for path in project_files()
        if path.name != "test_glossary.py"
        for found, term in CHINESE_SYNONYMS.items()
        if found in path.read_text(encoding="utf-8")
    ]
    assert not wrong, "\n".join(wrong)
