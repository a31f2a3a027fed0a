"""The field's own words: those of the glossary are used, and the dialect that its last table lists is not."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, get_args, get_origin

import pytest
from source_tree import PACKAGE, ROOT, Module, defined_names, modules, project_files, tables

from seq2see.core.settings import choices
from seq2see.labs.claims import CLAIMS
from seq2see.recipes.registry import RECIPES
from seq2see.tasks.task import TASKS, task_named

ENGLISH, CHINESE = (tables(ROOT / "docs" / f"glossary{ending}") for ending in (".md", ".zh.md"))
*SUBJECTS, UNUSED = ENGLISH
WORDS = [row[0] for subject in SUBJECTS for row in ENGLISH[subject]]


def banned_in(place: str) -> set[str]:
    """The words of the last table that are banned in names, on pages, or in settings only."""
    return {word for row in ENGLISH[UNUSED] if place in row[2] for word in re.findall(r"`(\w+)`", row[0])}


BANNED, BANNED_ON_PAGES, BANNED_SETTINGS = (banned_in(place) for place in ("names", "pages", "settings"))

# "path name": why a banned word is right there.
EXCEPTIONS = {
    "src/seq2see/layers/positions.py slopes": "ALiBi's own word for its m (Press et al. 2022)",
    "src/seq2see/metrics/zipf.py zipf_slope": "the slope of a straight line in Zipf's plot",
    "src/seq2see/tasks/ngram.py slope": "the slope of a straight line in Zipf's plot",
    "src/seq2see/models/ngram_lm.py is_seen": "seen and unseen n-grams are the words of the literature on smoothing",
    "src/seq2see/tasks/ngram.py seen_lengths": "seen and unseen n-grams, as above",
    "src/seq2see/training/ngram_smoothing.py seen": "seen and unseen n-grams, as above",
}
PAGE_EXCEPTIONS = {
    "glossary.md": "it lists the words",
    "glossary.zh.md": "it lists the words",
}

# "page word": why a banned word is right on this page.
PAGE_WORD_EXCEPTIONS = {
    "ngram.md slope": "the slope of a straight line in Zipf's plot",
    "lab.md slope": "the slope of a straight line in Zipf's plot",
}

# Words of the pages' list that are ordinary English or a name in a docstring or a comment.
GOOD_IN_COMMENTS = {
    *("behind", "curve", "doubled", "doubles", "meanwhile", "narrow", "pace", "picked", "pull", "stretch", "taken"),
    *("slope", "slopes"),  # of a straight line, and ALiBi's word for its m
    "elman",  # Elman 1990
}

# Chinese terms that would name a second time what the glossary has a name for.
CHINESE_SYNONYMS = {
    "令牌": "词元", "标记器": "分词器", "词汇表": "词表", "集束搜索": "束搜索", "波束搜索": "束搜索",
    "解码机": "解码器", "编码机": "编码器", "强制教学": "教师强制", "暴露偏置": "暴露偏差", "隐状态": "隐藏状态",
    "遮罩": "掩码", "注意力机制": "注意力", "困惑值": "困惑度", "位置嵌入": "位置编码", "食谱": "配方",
    "孪生模型": "加速版", "例行任务": "回调", "选择器": "解码策略", "长流": "连续批", "样子": "增强视图",
}  # fmt: skip


def words_of(name: str) -> list[str]:
    """The words a name is made of: of snake case, of camel case, of a file's or a recipe's name."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[-./=]", "_", name.strip("_")).lower().split("_")


def is_banned(name: str) -> bool:
    """Whether a name, or a word or two that it is made of, should be another."""
    plain = words_of(name)
    pairs = ["_".join(pair) for pair in pairwise(plain)]
    return "_".join(plain) in BANNED or any(word in BANNED for word in (*plain, *pairs))


def settings_of(cls: type, path: str = "", seen: frozenset[type] = frozenset()) -> Iterator[str]:
    """The paths of all settings below a class, with the kinds and the words that a setting may have as its value."""
    for name, field in cls.model_fields.items():  # type: ignore[attr-defined]
        yield f"{path}{name}"
        if name == "kind":
            yield f"{path}kind={field.default}"
        elif get_origin(field.annotation) is Literal:
            yield from (f"{path}{name}={value}" for value in get_args(field.annotation))
        for option in choices(field.annotation):
            if option not in seen:
                yield from settings_of(option, f"{path}{name}.", seen | {option})


@pytest.mark.parametrize(
    "name",
    [
        *("attn", "src_lengths", "_cfg", "Utils", "d_model", "MayLook", "slope", "look_back", "by_errand"),
        *("PictureSet", "judge_texts", "beside", "AtHand", "put_product", "is_told", "Remarks", "go_round", "Crew"),
    ],
)
def test_the_rule_notices(name):
    assert is_banned(name)


@pytest.mark.parametrize("name", ["attention", "source", "seq2seq", "num_beams", "lookup", "unknown", "kept", "return"])
def test_the_rule_lets_pass(name):
    assert not is_banned(name)


def test_no_name_in_the_source_is_a_banned_one():
    found = {
        f"{module} {name}": line
        for module in modules()
        for name, line in [*defined_names(module), (module.path.stem, 1)]
        if is_banned(name)
    }
    wrong = [f"{name} (line {line})" for name, line in found.items() if name not in EXCEPTIONS]
    assert not wrong, "docs/glossary.md says how to write these:\n" + "\n".join(wrong)
    assert set(EXCEPTIONS) <= set(found), f"no longer exceptions: {sorted(set(EXCEPTIONS) - set(found))}"


def test_no_setting_recipe_or_file_has_a_banned_name():
    files = [path.relative_to(PACKAGE).as_posix() for path in project_files() if path.is_relative_to(PACKAGE)]
    settings = {path for name in TASKS for path in settings_of(task_named(name).recipe)}
    wrong = [name for name in (*sorted(settings), *RECIPES, *files) if is_banned(name)]
    assert not wrong, "docs/glossary.md says how to write these:\n" + "\n".join(wrong)


def has_banned_setting(path: str) -> bool:
    """Whether a setting or its value has the name that another name has replaced; `path` may end in `=value`."""
    name, _, value = path.rpartition(".")[-1].partition("=")
    return not {name, value}.isdisjoint(BANNED_SETTINGS)


def test_no_setting_has_an_old_name():
    paths = sorted({path for name in TASKS for path in settings_of(task_named(name).recipe)})
    assert {"training.batches=contiguous", "encoder.kind=text-cnn", "decoder.context"} <= set(paths)
    wrong = [path for path in paths if has_banned_setting(path)]
    assert not wrong, "docs/glossary.md says how to write these:\n" + "\n".join(wrong)


@pytest.mark.parametrize("path", ["training.rate", "decoder.tau", "training.batches=streams", "corpus.kind=waves"])
def test_an_old_setting_is_noticed(path):
    assert has_banned_setting(path)


@pytest.mark.parametrize("path", ["training.learning_rate", "decoder.kind=ngram", "training.batches=contiguous"])
def test_a_setting_of_today_is_right(path):
    assert not has_banned_setting(path)


def test_no_page_has_a_word_of_the_dialect():
    pages = [path for path in project_files() if path.suffix == ".md" and path.name not in PAGE_EXCEPTIONS]
    wrong = [
        f"{path.relative_to(ROOT)}:{number} {word}"
        for path in pages
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for word in re.findall(r"[a-z]+", line.lower())
        if word in BANNED_ON_PAGES and f"{path.name} {word}" not in PAGE_WORD_EXCEPTIONS
    ]
    assert not wrong, "docs/glossary.md says how to write these:\n" + "\n".join(wrong)


def prose_of(module: Module) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, with their lines."""
    for node in module.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_no_docstring_or_comment_has_a_word_of_the_dialect():
    banned = BANNED_ON_PAGES - GOOD_IN_COMMENTS
    assert {"errand", "twin", "whoever", "told", "judge", "tokeniser"} <= banned
    wrong = [
        f"{module}:{line} {word}"
        for module in modules()
        for line, text in prose_of(module)
        for word in re.findall(r"[a-z]+", text.lower())
        if word in banned
    ]
    assert not wrong, "docs/glossary.md says how to write these:\n" + "\n".join(wrong)


def messages_of(module: Module) -> Iterator[tuple[int, str]]:
    """The texts of several words in a module that are no docstrings: messages of errors, titles, help."""
    docstrings = {id(node.value) for node in module.nodes if isinstance(node, ast.Expr)}
    for node in module.nodes:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        if is_text and id(node) not in docstrings:
            yield node.lineno, node.value


def test_no_message_has_a_word_of_the_dialect():
    banned = BANNED_ON_PAGES - GOOD_IN_COMMENTS
    wrong = [
        f"{module}:{line} {word}"
        for module in modules()
        if "pocket" not in module.path.parts  # its words are those of a corpus
        for line, text in messages_of(module)
        for word in re.findall(r"[a-z]+", text.lower())
        if word in banned
    ]
    assert not wrong, "docs/glossary.md says how to write these:\n" + "\n".join(wrong)


def classes_defined_twice(trees: Iterable[tuple[str, Iterable[ast.AST]]]) -> dict[str, list[str]]:
    """The locations of each class name that is defined more than once, also if twice in one file."""
    homes = defaultdict(list)
    for path, nodes in trees:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(f"{path}:{node.lineno}")
    return {name: where for name, where in homes.items() if len(where) > 1}


def test_no_class_name_exists_twice():
    assert not classes_defined_twice((str(module), module.nodes) for module in modules())


def test_a_second_class_of_one_name_is_noticed():
    once, twice, nested = (
        ast.parse(text) for text in ("class A: pass", "class B: pass\nclass A: pass", "class C:\n  class C: pass")
    )
    assert not classes_defined_twice([("a.py", ast.walk(once))])
    assert classes_defined_twice([("a.py", ast.walk(once)), ("b.py", ast.walk(twice))]) == {"A": ["a.py:1", "b.py:2"]}
    assert classes_defined_twice([("c.py", ast.walk(nested))]) == {"C": ["c.py:1", "c.py:2"]}


def test_every_word_of_the_glossary_is_used_in_the_source():
    text = " ".join(module.text for module in modules())
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|[\s_-]+", " ", text).lower()  # SelfAttention is self-attention, too
    missing = [word for word in WORDS if not re.search(rf"\b{word.replace('-', ' ').lower()}", text)]
    assert not missing, f"the source does not use these words: {missing}"


def test_every_word_means_one_thing():
    assert not [word for word, count in Counter(WORDS).items() if count > 1]
    assert not set(WORDS) & BANNED


def test_both_glossaries_list_the_same_words():
    assert [[row[:2] for row in rows] for rows in list(ENGLISH.values())[:-1]] == [
        [row[:2] for row in rows] for rows in list(CHINESE.values())[:-1]
    ]
    banned = [[row[0] for row in list(pages.values())[-1]] for pages in (ENGLISH, CHINESE)]
    assert banned[0] == banned[1]


def without_quotes(text: str) -> str:
    """A text without the sentences of the course notes, which have terms of their own."""
    for claim in CLAIMS:
        text = text.replace(claim.quote, "")
    return text


def test_chinese_texts_use_the_terms_of_the_glossary():
    wrong = [
        f"{path.relative_to(ROOT)}: {found} should be {term}"
        for path in project_files()
        if path.name != "test_glossary.py"
        for found, term in CHINESE_SYNONYMS.items()
        if found in without_quotes(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)
