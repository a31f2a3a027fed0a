"""A masked language model from a text file to filled masks: train, predict, score, trace, report, resume."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_recipes import stop_and_resume, tiny_recipe

from seq2see.cli.app import run as command
from seq2see.cli.evaluate import print_scores
from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.masking import crop_around_masks, encode_with_masks
from seq2see.recipes.registry import resolve
from seq2see.runs.compare import compare
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.make_ensemble import make_ensemble
from seq2see.runs.reordering import reordering
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import dry_run, train_recipe
from seq2see.tasks.fill import Fill
from seq2see.tasks.model import TextAttention
from seq2see.tasks.task import task_of

SENTENCE = "the cat sat on the mat. 猫坐在垫子上。\n"
SMALL = {"source.max_tokens": 24, "training.batch_tokens": 192, "encoder.width": 32, "encoder.dropout": 0.0}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "book.txt"
    path.write_text(SENTENCE * 120, encoding="utf-8")
    return path


def learned(book: Path, out: Path, name: str, **changes) -> RunFolder:
    much = {"training.steps": 400, "training.evaluate_every": 200, "training.batch_tokens": 384}
    much |= {"training.learning_rate": 1e-2, "training.schedule.warmup": 20}
    return train_recipe(tiny_recipe(book, name, **SMALL | much | changes), out)


@pytest.fixture(scope="module")
def run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that has memorized its one sentence, character by character."""
    return learned(book, tmp_path_factory.mktemp("runs") / "learned", "fill-characters")


def test_it_fills_one_mask_or_several(run: RunFolder):
    model = load(run.path)
    assert model("the c[MASK]t sat").text == "the cat sat"
    assert [each.text for each in model.predict(["the cat s[MASK]t on t[MASK]e mat", "猫[MASK]在垫子上。"])] == [
        "the cat sat on the mat",
        "猫坐在垫子上。",
    ]


def test_it_has_candidates_for_each_mask(run: RunFolder):
    found = load(run.path)("the c[MASK]t s[MASK]t", top_k=3)
    assert [len(candidates) for candidates in found.candidates] == [3, 3]
    for candidates in found.candidates:
        assert candidates[0].text == "a"
        assert 1 >= candidates[0].probability > candidates[1].probability > candidates[2].probability > 0
    all_candidates = load(run.path)("the c[MASK]t", top_k=0).candidates[0]
    assert sum(each.probability for each in all_candidates) == pytest.approx(1, abs=0.01)
    assert "[MASK]" not in {each.text for each in all_candidates}


def test_a_score_is_the_log_probability_of_the_token(run: RunFolder):
    model = load(run.path)
    best = model("the c[MASK]t")
    assert model.score("the c[MASK]t", "a") == pytest.approx(best.score, abs=1e-4)
    assert model.score("the c[MASK]t", "o") < best.score
    with pytest.raises(UserError, match="not a possible prediction"):
        model.score("the c[MASK]t s[MASK]t", "a")


def test_a_line_without_a_mask_is_reported_with_its_number(run: RunFolder, tmp_path: Path, capsys):
    (tmp_path / "new.txt").write_text("the [MASK] sat\n\nthe cat sat\n", encoding="utf-8")
    assert command(["predict", str(run.path), "--file", str(tmp_path / "new.txt")]) == 2
    assert "line 3: There is no [MASK] in 'the cat sat'" in capsys.readouterr().err


def test_a_text_without_a_mask_is_refused(run: RunFolder):
    with pytest.raises(UserError, match=r"no \[MASK\]"):
        load(run.path)("the cat")


def test_a_long_text_is_cropped_around_its_mask(run: RunFolder):
    found = load(run.path)(SENTENCE * 3 + "the c[MASK]t sat")
    assert found.truncated
    assert found.text.endswith("the cat sat")
    assert not load(run.path)("the c[MASK]t").truncated


def test_a_long_text_without_a_mask_is_truncated_for_reordering(run: RunFolder):
    model = load(run.path)
    text = "the cat " * 100
    assert reordering(model, text).ids == model.named_batch(text, None).batch.source.values[0].tolist()
    assert len(reordering(model, text).ids) == model.config.model.source_text.max_tokens + 2


def test_predictions_do_not_depend_on_the_batch(run: RunFolder):
    model = load(run.path)
    texts = ["the c[MASK]t", "猫坐在[MASK]子上。", "[MASK]", "mat. 猫[MASK]在"]
    together = model.predict(texts)
    for text, each in zip(texts, together, strict=True):
        alone = model(text)
        assert alone.text == each.text
        assert alone.score == pytest.approx(each.score, abs=1e-4)


def test_settings_without_effect_are_refused_at_prediction(run: RunFolder, tmp_path: Path):
    model = load(run.path)
    for wrong in ({"num_beams": 4}, {"prefix": "the"}):
        with pytest.raises(UserError, match="encoder-only model"):
            model("the c[MASK]t", **wrong)
    with pytest.raises(UserError, match="generative models"):
        load(run.path, engine="ct2")
    with pytest.raises(UserError, match="generative models"):
        make_ensemble([run, run], tmp_path / "both")
    with pytest.raises(UserError, match="not evaluated yet"):
        compare(run, run)
    with pytest.raises(UserError, match="no effect"):
        evaluate(run, num_beams=4)


def test_it_is_scored_by_the_masked_tokens(run: RunFolder, capsys):
    scores = evaluate(run)
    assert scores["masked_tokens"]["accuracy"] > 75  # some masks are hard: their neighbors are replaced
    assert 1 <= scores["masked_tokens"]["perplexity"] < 3
    print_scores(task_of(run.recipe()), run, scores)
    printed = capsys.readouterr().out
    assert "masked tokens (test): accuracy" in printed
    assert "perplexity" in printed
    windows = json.loads((run.evaluation / "token_losses.json").read_text(encoding="utf-8"))
    assert all(len(each["tokens"]) == len(each["losses"]) == 24 for each in windows)
    text = SENTENCE.replace(" ", "▁").replace("\n", "⏎")
    assert all("".join(each["tokens"]) in text * 3 for each in windows)
    losses = [loss for each in windows for loss in each["losses"]]
    assert sum(losses) / len(losses) < 0.5


def test_the_report_shows_scores_and_token_losses(run: RunFolder):
    evaluate(run)
    page = write_report(run).read_text(encoding="utf-8")
    assert "perplexity of masked tokens" in page
    assert "被遮住词元的困惑度" in page
    assert page.count('class="strip"') == 4
    assert "lines read = kept + skipped + rejected" in page


def test_samples_show_masks_and_predictions(run: RunFolder):
    first, *rows = (run.samples / "step-000400.tsv").read_text(encoding="utf-8").splitlines()
    assert first == "source\treference\toutput"
    masked, truth, output = rows[0].split("\t")
    assert masked.count("[MASK]") == 4
    assert truth.replace("⏎", "\n") in SENTENCE * 3
    assert output == truth


def test_its_attention_is_bidirectional(run: RunFolder):
    shown = TextAttention.of(load(run.path).trace("c[MASK]t"))
    assert shown.source == shown.target == ["<bos>", "c", "[MASK]", "t", "<eos>"]
    (weights,) = shown.weights
    assert weights.shape[-2:] == (5, 5)
    assert (weights > 0).all()


def test_the_command_line_prints_candidates(run: RunFolder, capsys):
    assert command(["predict", str(run.path), "the c[MASK]t", "--set", "prediction.top_k=2"]) == 0
    text, candidates = capsys.readouterr().out.strip().split("\t")
    assert text == "the cat"
    assert candidates.startswith("a 0.")
    assert len(candidates.split(", ")) == 2
    assert command(["predict", str(run.path), "猫坐在[MASK]子上。", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"][0]["text"] == "猫坐在垫子上。"
    assert len(found["candidates"][0]) == 5
    assert command(["predict", str(run.path), "the cat"]) == 2
    assert "no [MASK]" in capsys.readouterr().err


def test_subwords_can_be_masked_too(book: Path, tmp_path: Path):
    run = learned(book, tmp_path / "pieces", "fill", **{"source.tokenizer.vocab_size": 330, "training.steps": 240})
    found = load(run.path)("the [MASK] sat on the mat.")
    assert found.text == "the cat sat on the mat."
    assert found.candidates[0][0].text == " cat"


def test_pairs_are_scored_by_next_sentence_prediction(tmp_path: Path, capsys):
    lines = [f"{who} sees {what}.\n{who} likes {what}.\n" for who in ("Ann", "Bob", "Eve") for what in ("cats", "dogs")]
    (tmp_path / "pairs.txt").write_text("".join(lines) * 20, encoding="utf-8")
    changes = {"source.max_tokens": 32, "training.steps": 12, "source.tokenizer.kind": "characters"}
    run = train_recipe(tiny_recipe(tmp_path / "pairs.txt", "fill-bert", **SMALL | changes), tmp_path / "run")
    scores = evaluate(run)
    stored, splits = load(run.path).stored, task_of(run.recipe()).read(run.recipe())[0]
    test = task_of(run.recipe()).dataset(run.recipe(), stored.tokenizers, splits["test"])
    is_masked = test.batch(np.arange(len(test))).labels != IGNORE_INDEX
    assert scores["next_sentence"]["examples"] == is_masked[:, 0].sum() == len(test)
    assert scores["masked_tokens"]["tokens"] == is_masked[:, 1:].sum()
    print_scores(task_of(run.recipe()), run, scores)
    assert "next sentence prediction" in capsys.readouterr().out
    assert load(run.path)("Ann [MASK]ees").text[4:5].strip() != "["
    assert "下一句预测" in write_report(run).read_text(encoding="utf-8")


def test_a_stopped_run_resumes_to_the_same_result(book: Path, tmp_path: Path):
    stop_and_resume(tiny_recipe(book, "fill-characters", **SMALL), tmp_path)


def test_a_dry_run_shows_masks_and_labels(book: Path):
    lines: list[str] = []
    dry_run(tiny_recipe(book, "fill-characters", **SMALL), lines.append)
    assert any(line.startswith("batch  source (8, 26)") for line in lines)
    source = next(line for line in lines if line.startswith("  source"))
    assert "[MASK]" in source
    assert "▁" in source or "a" in source
    assert any("labels" in line for line in lines)


def test_a_loss_that_is_no_number_names_the_text(book: Path, tmp_path: Path):
    changes = SMALL | {
        "training.learning_rate": 1e30,
        "training.schedule.kind": "constant",
        "training.max_grad_norm": 0,
    }
    with pytest.raises(UserError, match=r"The batch contains 8 windows, first near '"):
        train_recipe(tiny_recipe(book, "fill-characters", **changes), tmp_path / "broken")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"training.batches": "packed"}, "running text"),
        ({"metrics": ["bleu"]}, "no setting 'metrics'"),
        ({"source.tokenizer.dropout": 0.1}, "source.tokenizer.dropout=0"),
        ({"objective.kind": "masked-token-next-sentence"}, "goes with objective.kind=masked-token"),
        ({"objective.kind": "next-token"}, "no kind 'next-token'"),
        ({"decoder.kind": "transformer"}, "no setting 'decoder'"),
    ],
    ids=str,
)
def test_settings_without_effect_are_refused(book: Path, changes, message):
    with pytest.raises(UserError, match=message):
        resolve("fill", [book], changes)


def test_a_text_shorter_than_two_windows_is_refused_with_a_setting_that_helps(tmp_path: Path):
    (tmp_path / "short.txt").write_text("我有一支笔，你有一本书。\n" * 6, encoding="utf-8")
    changes = {"training.batch_tokens": 256, "source.max_tokens": 64}
    with pytest.raises(UserError, match=r"short\.txt: The training text has \d+ tokens.* source\.max_tokens to \d+"):
        train_recipe(tiny_recipe(tmp_path / "short.txt", "fill", **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_explorer_offers_the_first_line_of_a_text():
    model = resolve("fill", [], {}).model
    (example,) = Fill().page_examples(model, [Example("", "\n" + "the cat " * 20 + "\nsecond")])
    assert example == Example(("the cat " * 20)[:60], "")


def test_windows_of_unknown_characters_are_no_samples_if_they_cannot_be_encoded_again():
    recipe, task = resolve("fill-characters", [], {"source.max_tokens": 40}), Fill()
    tokenizers = task.fit(recipe, [Example("", "ab" * 50)])
    plain, unknown = (task.dataset(recipe, tokenizers, [Example("", text * 100)]) for text in ("abba", "a中文b字"))
    assert len(task.samples(plain, [], 4)) == 4
    samples = task.samples(unknown, [], 40)
    assert 0 < len(samples) < len(unknown)  # <unk> is five characters
    for each in samples:
        crop_around_masks(encode_with_masks(each.source, unknown.tokenizer), unknown.tokenizer.mask_id, 40)
