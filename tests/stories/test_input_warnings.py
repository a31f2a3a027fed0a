"""Warnings of predict and eval about unknown tokens and unspaced words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_recipes import tiny_recipe

from seq2see.cli.app import run as command
from seq2see.cli.predict import interactive
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.tokenizers.tokenizer import Characters, Whitespace, train_tokenizer
from seq2see.data.windows import TextDataset
from seq2see.runs.compare import compare_texts
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load, read_model
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from seq2see.runs.word_embeddings import WordEmbeddings

LINE = "the cat sat on the mat.\n"
SMALL = {"target.max_tokens": 24, "training.batch_tokens": 192, "training.steps": 2, "training.evaluate_every": 2}
SMALL |= {"decoding.max_new_tokens": 4}


def trained(folder: Path, name: str, base: str, **changes) -> RunFolder:
    """A model of a hundred lines; the last lines, its test split, have characters that no other line has."""
    path = folder / "book.txt"
    path.write_text(LINE * 100 + "龙飞凤舞" * 6 + LINE * 4, encoding="utf-8")
    return train_recipe(tiny_recipe(path, base, **SMALL | changes), folder / name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("runs"), "letters", "write")


def test_unknown_tokens_are_listed(run: RunFolder, capsys):
    model = load(run.path)
    assert model("the cat").warnings == ()
    assert model("the 猫").warnings == ("unknown tokens 猫, replaced by <unk>",)
    assert model("一二三四五六 一二").warnings == ("unknown tokens 一 二 三 四 五 and 1 more, replaced by <unk>",)
    assert command(["predict", str(run.path), "the 猫", "the cat"]) == 0
    expected = "seq2see: unknown tokens 猫, replaced by <unk>: the 猫\n"
    assert capsys.readouterr().err == expected


def test_a_mask_is_not_a_row_of_unknown_characters(tmp_path: Path):
    small = {"source.max_tokens": 24, "training.batch_tokens": 192, "training.steps": 2, "training.evaluate_every": 2}
    path = tmp_path / "book.txt"
    path.write_text(LINE * 100, encoding="utf-8")
    model = load(train_recipe(tiny_recipe(path, "fill-characters", **small), tmp_path / "run").path)
    assert model("the c[MASK]t").warnings == ()
    assert model("猫[MASK]").warnings == ("unknown tokens 猫, replaced by <unk>",)


def test_a_few_warnings_are_printed_and_all_are_counted(run: RunFolder, tmp_path: Path, capsys):
    (tmp_path / "new.txt").write_text("一\ncat\n二\n三\n四\n", encoding="utf-8")
    assert command(["predict", str(run.path), "--file", str(tmp_path / "new.txt")]) == 0
    printed = capsys.readouterr().err
    assert printed.count("unknown tokens") == 3
    assert "4 texts have warnings like these" in printed


def test_the_prompt_prints_a_warning_once(run: RunFolder, monkeypatch, capsys):
    typed = iter(["猫", "...", "cat", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    interactive(load(run.path), {"prefix": ""})
    assert capsys.readouterr().err == "(unknown tokens 猫, replaced by <unk>)\n"


def test_scores_with_unknown_tokens_have_a_warning(run: RunFolder, tmp_path: Path, capsys):
    assert evaluate(run)["perplexity"]["unknown_rate"] == pytest.approx(100 * 24 / 144)
    assert "unknown tokens %" in write_report(run).read_text(encoding="utf-8")
    assert command(["eval", str(run.path)]) == 0
    assert "% of characters are unknown;" in capsys.readouterr().out
    for text, warned in ((LINE, False), ("猫" * 30, True)):
        (tmp_path / "own.txt").write_text(text, encoding="utf-8")
        assert command(["eval", str(run.path), "--file", str(tmp_path / "own.txt")]) == 0
        assert ("so these scores are too good" in capsys.readouterr().out) == warned


def test_bits_per_character_with_unknown_tokens_are_marked_as_too_low(run: RunFolder, tmp_path: Path):
    pieces = {"target.tokenizer.kind": "bpe", "target.tokenizer.vocab_size": 300}
    corpus = run.recipe().corpus
    other = train_recipe(run.recipe().with_(**pieces).model_copy(update={"corpus": corpus}), tmp_path / "pieces")
    evaluate(run)
    evaluate(other)
    with pytest.raises(UserError, match=r"% unknown: too low\), \S+ \d+\.\d{3}\."):
        compare_texts(run, other)


def test_an_unk_in_the_text_is_a_word():
    text = [Example("", "the <unk> sat\n" * 3)]
    assert TextDataset(text, train_tokenizer(Whitespace(), ["the <unk> sat\n"] * 3), 8).unknown_rate == 0
    assert TextDataset(text, train_tokenizer(Whitespace(), ["the <unk> ran\n"] * 3), 8).unknown_rate == 3 / 12
    assert TextDataset([Example("", "猫ab")], train_tokenizer(Characters(), ["ab"] * 3), 8).unknown_rate == 1 / 3


def test_a_sentence_without_spaces_is_not_tagged_silently(tmp_path: Path, capsys):
    path = tmp_path / "words.conll"
    sentences = [f"我 PRON\n{verb} VERB\n笔 NOUN\n。 PUNCT\n\nI PRON\nsee VERB\ncats NOUN\n\n" for verb in "有要用卖买"]
    path.write_text("".join(sentences) * 4, encoding="utf-8")
    small = {"source.tokenizer.kind": "characters", "training.batch_tokens": 128}
    run = train_recipe(tiny_recipe(path, "tag", **small), tmp_path / "run")
    model = load(run.path)
    assert model("我 有 笔 。").warnings == model("I see cats .").warnings[1:] == ()
    for text in ("我有笔我有笔", "我 有 笔。", "I see cats.", "see, I see"):
        assert "is treated as one word: put spaces between words and punctuation" in model(text).warnings[0]
    assert model("我 有 猫").warnings == ("unknown tokens 猫, replaced by <unk>",)
    assert command(["predict", str(run.path), "我有笔我有笔"]) == 0
    assert "'我有笔我有笔' is treated as one word" in capsys.readouterr().err


def test_a_word_of_byte_tokens_has_no_neighbors(tmp_path: Path):
    small = {"target.tokenizer.kind": "bpe", "target.tokenizer.vocab_size": 300}
    words = WordEmbeddings(read_model(trained(tmp_path, "pieces", "write", **small).model, torch.device("cpu")))
    assert words.neighbors("cat", 2)
    for word in ("猫", ""):
        with pytest.raises(UserError, match=f"The word '{word}' is not in the vocabulary"):
            words.neighbors(word, 2)
