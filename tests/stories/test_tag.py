"""A tagger from a CoNLL file to tags: train, predict, score, report, resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_recipes import stop_and_resume, tiny_recipe

from seq2see.cli.app import run as command
from seq2see.cli.predict import interactive
from seq2see.core.errors import UserError
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import dry_run, train_recipe
from seq2see.runs.word_embeddings import WordEmbeddings

WHO = {"Ann": "B-PER", "Bob": "B-PER", "Eve": "B-PER", "小明": "B-PER"}
WHERE = {"Rome": "B-LOC", "Oslo": "B-LOC", "Bern": "B-LOC", "北京": "B-LOC"}
SMALL = {"source.tokenizer.vocab_size": 330, "training.batch_tokens": 128, "training.patience": 0}
WHOLE = {"source.tokenizer.kind": "characters", "source.embedding.kind": "ngrams", "source.embedding.buckets": 2000}
WHOLE |= {"training.batch_tokens": 256, "training.patience": 0}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "names.conll"
    lines = []
    for who in WHO:
        for location in WHERE:
            for verb in ("sees", "loves", "leaves", "visits"):
                lines.append(f"{who} B-PER\nSmith I-PER\n{verb} O\nold O\n{location} B-LOC\n\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(names: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    changes = {"training.steps": 60, "training.evaluate_every": 30, "training.learning_rate": 1e-2, "encoder.width": 32}
    return train_recipe(tiny_recipe(names, "tag", **SMALL | changes), tmp_path_factory.mktemp("runs") / "learned")


def test_every_word_gets_its_tag(run: RunFolder):
    model = load(run.path)
    assert model("Ann Smith sees old Rome").text == "Ann/B-PER Smith/I-PER sees/O old/O Rome/B-LOC"
    assert model("小明 Smith loves old 北京").text.split()[4] == "北京/B-LOC"
    assert model("Ann Smith sees old Rome").candidates == ()
    candidates = model("Ann Smith sees", top_k=2).candidates
    assert [len(each) for each in candidates] == [2, 2, 2]
    assert candidates[0][0].text == "B-PER"
    with pytest.raises(UserError, match="The text is empty"):
        model("  ")
    assert load(run.path)("Ann " * 400).truncated


def test_a_word_longer_than_the_model_reads_is_cut_and_reported(run: RunFolder, names: Path, tmp_path: Path, capsys):
    url = "http://" + "x" * 3000
    assert load(run.path)(f"{url} Smith sees").truncated
    assert load(run.path)(f"{url} Smith sees").text.split()[1].startswith("Smith/")
    (tmp_path / "in.txt").write_text(f"Ann sees\n{url}\nBob sees\n")
    assert command(["predict", str(run), "-f", str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.txt")]) == 0
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 3
    test = tmp_path / "test.conll"
    test.write_text(f"{url} O\nSmith I-PER\n\n")
    recipe = tiny_recipe(names, "tag", **SMALL, **{"corpus.test": [str(test)], "training.steps": 1})
    evaluated = train_recipe(recipe, tmp_path / "run")
    assert command(["eval", str(evaluated)]) == 0
    assert "note   test: 1 words are longer than" in capsys.readouterr().out


def test_it_is_scored_by_words_and_by_spans(run: RunFolder, capsys):
    scores = evaluate(run)["test"]
    assert scores["accuracy"] == 100
    assert scores["spans"]["f1"] == 1
    assert set(scores["classes"]) == {"B-PER", "I-PER", "O", "B-LOC"}
    assert scores["examples"] == 5 * 3
    assert command(["eval", str(run.path)]) == 0
    assert "F1 of spans 100.0 %" in capsys.readouterr().out
    page = write_report(run).read_text(encoding="utf-8")
    assert "B-PER" in page
    assert (run.evaluation / "confusion.png").exists()
    _, first, *_ = (run.evaluation / "test-predictions.tsv").read_text(encoding="utf-8").splitlines()
    assert "/I-PER" in first.split("\t")[1]


def test_the_command_line_tags_lines(run: RunFolder, capsys):
    assert command(["predict", str(run.path), "Bob Smith visits old Oslo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["text"].startswith("Bob/B-PER Smith/I-PER")


def test_at_the_prompt_three_dots_are_a_text(run: RunFolder, monkeypatch, capsys):
    typed = iter(["Ada", "...", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    interactive(load(run.path), {"prefix": ""})
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.startswith("Ada/")
    assert second.startswith(".../")


def test_samples_show_words_with_their_tags(run: RunFolder):
    _, row, *_ = (run.samples / "step-000060.tsv").read_text(encoding="utf-8").splitlines()
    words, tags, output = row.split("\t")
    assert tags == output
    assert words.split()[1] == "Smith"


def test_the_pocket_corpus_has_tags(tmp_path: Path):
    changes = {"corpus.size": 300, "training.steps": 3, "training.evaluate_every": 3, "encoder.width": 16}
    for name in ("tag", "tag-zh"):
        run = train_recipe(resolve(name, [], changes), tmp_path / name)
        assert {"VERB", "NOUN"} <= set(evaluate(run)["test"]["classes"])


def test_a_dry_run_shows_words_and_tags(names: Path):
    lines: list[str] = []
    dry_run(tiny_recipe(names, "tag", **SMALL), lines.append)
    assert any("labels         B-PER I-PER O O B-LOC" in line for line in lines)


@pytest.mark.parametrize("changes", [SMALL, WHOLE | {"source.embedding.word_dropout": 0.2}], ids=["subwords", "words"])
def test_a_stopped_run_resumes_to_the_same_result(names: Path, tmp_path: Path, changes):
    stop_and_resume(tiny_recipe(names, "tag", **changes), tmp_path)


def test_word_inputs_are_embedded_by_subword_ngrams(names: Path, tmp_path: Path, capsys):
    much = {"training.steps": 60, "training.evaluate_every": 30, "training.learning_rate": 1e-2, "encoder.width": 32}
    run = train_recipe(tiny_recipe(names, "tag", **WHOLE | much), tmp_path / "run")
    assert evaluate(run)["test"]["accuracy"] == 100
    model = load(run.path)
    assert model("小明 Smith loves old 北京").text == "小明/B-PER Smith/I-PER loves/O old/O 北京/B-LOC"
    assert model("Ann Smith adoves old Rome").text.split()[2] == "adoves/O"
    assert write_report(run).exists()
    assert command(["predict", str(run.path), "Bob Smith visits old Oslo"]) == 0
    assert "Oslo/B-LOC" in capsys.readouterr().out
    assert model.embed(["Ann sees Rome", "Bob"]).shape == (2, 32)
    with pytest.raises(UserError, match="no embedding table"):
        WordEmbeddings(model.stored)


def test_an_unknown_test_tag_is_reported_with_its_line(names: Path, tmp_path: Path):
    (tmp_path / "test.conll").write_text("Ann B-PER\n\nMars B-PLANET\n", encoding="utf-8")
    recipe = tiny_recipe(names, "tag", **SMALL | {"corpus.test": [str(tmp_path / "test.conll")]})
    with pytest.raises(UserError, match=r"test\.conll:3: The tag 'B-PLANET' \(of the word 'Mars'\) does not occur"):
        train_recipe(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()  # refused before training


def test_every_tag_of_one_file_is_in_the_training_split(names: Path, tmp_path: Path):
    rare = "".join(f"Mars B-{number}\nshines{number} O\n\n" for number in range(20))
    (tmp_path / "my.conll").write_text(names.read_text(encoding="utf-8") + rare, encoding="utf-8")
    splits = resolve("tag", [tmp_path / "my.conll"], {}).corpus.splits()
    assert {tag for each in splits["train"] for tag in each.source_tags} >= {f"B-{number}" for number in range(20)}


def test_one_tag_for_all_words_is_refused(tmp_path: Path):
    (tmp_path / "my.conll").write_text("".join(f"词{n} O\n\n" for n in range(30)), encoding="utf-8")
    with pytest.raises(UserError, match=r"my\.conll:\d+: All training words have the tag 'O'"):
        train_recipe(tiny_recipe(tmp_path / "my.conll", "tag", **SMALL), tmp_path / "run")


def test_tagged_words_have_no_bpe_dropout(names: Path):
    with pytest.raises(UserError, match="tagged words are tokenized once"):
        tiny_recipe(names, "tag", **SMALL | {"source.tokenizer.dropout": 0.1})


def test_a_bert_can_be_fine_tuned(names: Path, tmp_path: Path):
    changes = {"source.max_tokens": 24, "source.tokenizer.vocab_size": 330, "training.batch_tokens": 192}
    filler = train_recipe(tiny_recipe(names, "fill", **changes), tmp_path / "fill")
    small = {"training.steps": 2, "training.evaluate_every": 2, "training.patience": 0, "pretrained": str(filler.path)}
    run = train_recipe(resolve("tag", [names], small), tmp_path / "tuned")
    assert run.recipe().encoder == filler.recipe().encoder
    assert len(load(run.path)("Ann Smith sees").text.split()) == 3
