"""A language model from a text file to generated text: train, predict, score, trace, resume."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tiny_recipes import stop_and_resume, tiny_recipe

from seq2see.cli.evaluate import print_scores
from seq2see.cli.predict import interactive
from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.decoding.engine import Decoding
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import dry_run, train_recipe
from seq2see.tasks.model import TextAttention
from seq2see.tasks.model_folder import ModelConfig
from seq2see.tasks.task import pretrained_task, task_of

SENTENCE = "the cat sat on the mat. 猫坐在垫子上。\n"
SMALL = {"target.max_tokens": 24, "training.batch_tokens": 192, "decoder.width": 32, "decoder.dropout": 0.0}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "book.txt"
    path.write_text(SENTENCE * 120, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(book: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that has memorized its one sentence."""
    changes = SMALL | {"training.steps": 150, "training.evaluate_every": 75, "training.learning_rate": 1e-2}
    changes |= {"training.schedule.warmup": 20, "decoding.max_new_tokens": 12, "decoding.do_sample": False}
    return train_recipe(tiny_recipe(book, "write", **changes), tmp_path_factory.mktemp("runs") / "learned")


def test_it_continues_a_text(run: RunFolder):
    model = load(run.path)
    assert model("the cat sat").text == "the cat sat on the mat."
    assert [each.text for each in model.predict(["the cat sat on", "猫坐在"])] == [
        "the cat sat on the mat. 猫坐", "猫坐在垫子上。\nthe cat"[:15]
    ]  # fmt: skip


def test_a_long_text_is_continued_from_its_end(run: RunFolder):
    model = load(run.path)
    text = SENTENCE * 3 + "the cat sat"
    found = model(text)
    assert found.text == text + " on the mat."
    assert found.truncated
    assert not model("the cat sat").truncated


def test_it_generates_beyond_its_context_window(run: RunFolder):
    model = load(run.path)
    text = model("the cat sat", max_new_tokens=80).text
    assert len(text) == len("the cat sat") + 80
    assert (SENTENCE * 4).startswith(text)
    by_hand = "the cat sat"
    for _ in range(80 // 12):
        by_hand = model(by_hand, max_new_tokens=12).text
    assert text.startswith(by_hand)
    with pytest.raises(UserError, match="limited to 12 tokens each"):
        model("the cat", max_new_tokens=13, num_beams=2, num_return_sequences=2)


def test_min_new_tokens_counts_over_all_segments(run: RunFolder):
    model, ending = load(run.path), {"max_new_tokens": 40, "do_sample": True, "temperature": 100.0}
    found = [model("猫", seed=seed, min_new_tokens=20, **ending).outputs[0] for seed in range(12)]
    ended = [len(each.tokens) - 2 for each in found if each.finished]  # without the prompt and <eos>
    assert min(ended) >= 20
    assert min(ended) < 24  # as soon as possible, in the second segment


def test_segments_of_a_long_sample_have_different_seeds(run: RunFolder):
    settings = {"do_sample": True, "temperature": 100.0, "max_new_tokens": 36}
    tokens = [each.text for each in load(run.path)("the cat sat o", seed=1, **settings).outputs[0].tokens[-36:]]
    assert tokens[12:24] != tokens[24:]


LONG_DRAWS = {"do_sample": True, "temperature": 100.0, "max_new_tokens": 40, "min_new_tokens": 40}


@pytest.mark.parametrize(
    "settings", [{}, {"do_sample": True}, {"num_beams": 3}, {"max_new_tokens": 40}, LONG_DRAWS], ids=str
)
def test_an_output_can_be_streamed(run: RunFolder, settings):
    model = load(run.path)
    chunks = list(model.stream("猫坐在垫", seed=3, **settings))
    assert "猫坐在垫" + "".join(chunks) == model.predict(["猫坐在垫"], seed=3, **settings)[0].text
    assert len(chunks) == 1 if "num_beams" in settings else len(chunks) > 5
    if settings == LONG_DRAWS:
        assert len(chunks) == 40


def test_every_token_has_its_probability(run: RunFolder):
    output = load(run.path)("the cat").outputs[0]
    assert "".join(each.text for each in output.tokens) == output.text.replace(" ", "▁").replace("\n", "⏎")
    assert math.prod(each.probability for each in output.tokens) == pytest.approx(math.exp(output.log_probability))
    assert output.tokens[-1].probability > 0.9  # it has memorized the sentence


@pytest.mark.parametrize("text", ["", "the cat"])
def test_a_text_and_its_prefix_are_truncated_together(run: RunFolder, text: str):
    """Otherwise the model would have positions that it was not trained on."""
    model, prefix = load(run.path), f"{SENTENCE}the cat sat".removeprefix(text)
    found = model(text, prefix=prefix)
    assert found.text == text + prefix + " on the mat."
    assert found.truncated
    assert found.outputs[0].length <= 24
    short = model("the cat", prefix=" sat")
    assert (short.source, short.text, short.truncated) == ("the cat", "the cat sat on the mat.", False)


def test_the_prompt_continues_the_last_output(run: RunFolder, monkeypatch, capsys):
    typed = iter(["the cat sat", "...", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    interactive(load(run.path), {"prefix": ""})
    lines = capsys.readouterr().out.split("\n", 2)[2]
    assert lines == " on the mat.\n 猫坐在垫子上。\nthe\n"


def test_the_prompt_with_a_prefix_prints_the_continuation_and_continues_it(run: RunFolder, monkeypatch, capsys):
    typed = iter(["the cat", "..."])

    def type_next(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", type_next)
    interactive(load(run.path), {"prefix": " sat", "max_new_tokens": 4})
    first, second, end = capsys.readouterr().out.split("\n", 2)[2].splitlines()
    assert (first, end) == (" sat on ", "")  # Ctrl-D ends the line of the prompt
    assert second.startswith(" sat")


def test_it_can_start_from_an_empty_text(run: RunFolder):
    assert len(load(run.path)("").text) == 12


def test_training_text_scores_higher(run: RunFolder):
    model = load(run.path)
    assert model.score("", "the cat sat") > model.score("", "the mat sat")
    whole = model.score("", "the cat") + model.score("the cat", " sat")
    assert whole == pytest.approx(model.score("", "the cat sat"), abs=1e-4)
    best = model("the cat sat").outputs[0]
    assert best.log_probability == pytest.approx(model.score("", best.text), abs=1e-3)


def test_it_is_scored_by_perplexity(run: RunFolder):
    scores = evaluate(run)
    assert scores["perplexity"]["per_token"] < 1.5
    assert scores["perplexity"]["bits_per_character"] < 0.6
    assert "test" not in scores
    page = write_report(run).read_text(encoding="utf-8")
    assert "lines read = kept + skipped + rejected" in page
    assert "120 = 120 + 0 + 0" in page


def test_the_report_shows_token_losses(run: RunFolder):
    evaluate(run)
    windows = json.loads((run.evaluation / "token_losses.json").read_text(encoding="utf-8"))
    text = SENTENCE.replace(" ", "▁").replace("\n", "⏎")
    assert windows
    for window in windows:
        shown = "".join(window["tokens"])
        assert shown in text * 3
        plain = shown.replace("▁", " ").replace("⏎", "\n")
        assert sum(window["losses"]) == pytest.approx(-load(run.path).score("", plain), abs=0.02)
    page = write_report(run).read_text(encoding="utf-8")
    assert "each token predicted from the tokens before it" in page
    assert page.count(' title="') >= sum(len(window["tokens"]) for window in windows)


def test_scores_are_printed_without_a_table_of_translations(run: RunFolder, capsys):
    print_scores(task_of(run.recipe()), run, evaluate(run))
    printed = capsys.readouterr().out
    assert printed.startswith("perplexity 1.")
    assert "bits per character" in printed.replace("\n", " ")


def test_its_attention_is_causal(run: RunFolder):
    model = load(run.path)
    record = model.trace("the", " cat")
    assert record.tokens["target"] == ["<bos>", *"the▁cat"]  # the last token is an input too, without a label
    assert record.tokens["labels"] == [*"the▁cat"]
    assert record.of("attention")[0].values.shape[-2:] == (8, 8)
    assert record.of("attention")[0].values[..., -1, :].sum(-1) == pytest.approx(1, abs=1e-5)
    attention = TextAttention.of(record)
    max_tokens = model.config.model.target_text.max_tokens
    assert len(model.trace((SENTENCE * 9)[:max_tokens], "").tokens["target"]) == max_tokens  # the maximum length
    assert attention.source == ["<bos>", *"the▁ca"]
    assert attention.target == [*"the▁cat"]
    (weights,) = attention.weights
    assert weights.shape[-2:] == (7, 7)
    assert all(weights[..., row, row + 1 :].max(initial=0) == 0 for row in range(7))
    assert model("the cat").attention.target == [*model("the cat").text.replace(" ", "▁").replace("\n", "⏎")]


def test_samples_show_continuations(run: RunFolder):
    first, *rows = (run.samples / "step-000150.tsv").read_text(encoding="utf-8").splitlines()
    assert first == "source\treference\toutput"
    assert all(len(row.split("\t")) == 3 for row in rows)
    prompt, truth, output = rows[0].split("\t")
    assert (prompt + truth).replace("⏎", "\n") in SENTENCE * 2
    assert output == truth


@pytest.mark.parametrize("base", ["write", "write-lstm", "ptb-lstm", "ptb-awd-lstm"])
def test_a_stopped_run_resumes_to_the_same_result(book: Path, tmp_path: Path, base: str):
    stop_and_resume(tiny_recipe(book, base, **SMALL), tmp_path)


def test_a_dry_run_shows_a_window(book: Path):
    lines: list[str] = []
    dry_run(tiny_recipe(book, "write", **SMALL), lines.append)
    assert any(line.startswith("batch  target (8, 24)") for line in lines)
    assert not any("source" in line for line in lines)


def test_a_nan_loss_names_the_text(book: Path, tmp_path: Path):
    changes = SMALL | {
        "training.learning_rate": 1e30,
        "training.schedule.kind": "constant",
        "training.max_grad_norm": 0,
    }
    with pytest.raises(UserError, match=r"The batch contains 8 windows, first near '"):
        train_recipe(tiny_recipe(book, "write", **changes), tmp_path / "broken")


def test_a_text_of_a_few_letters_is_refused(tmp_path: Path):
    (tmp_path / "short.txt").write_text("abc abc\n", encoding="utf-8")
    with pytest.raises(UserError, match="too short"):
        train_recipe(tiny_recipe(tmp_path / "short.txt", "write", **SMALL), tmp_path / "run")


def test_settings_of_a_missing_part_are_refused(book: Path):
    with pytest.raises(UserError, match="no setting 'encoder'"):
        resolve("write", [book], {"encoder.width": 8})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"training.batches": "packed"}, "running text"),
        ({"metrics": ["bleu"]}, "no setting 'metrics'"),
        ({"target.tokenizer.kind": "bpe", "target.tokenizer.dropout": 0.1}, "running text"),
    ],
    ids=str,
)
def test_settings_without_effect_are_refused(book: Path, changes, message):
    with pytest.raises(UserError, match=message):
        resolve("write", [book], changes)


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_many_texts_are_continued_by_an_optimized_copy(run: RunFolder, precision: str):
    model, settings = load(run.path), {"do_sample": False, "max_new_tokens": 12}
    texts = [f"the {'cat sat on the mat '[:length]}" for length in range(1, 13)] * 4
    one_by_one = [model(text, **settings).text for text in texts[:12]]
    together = [each.text for each in model.predict(texts, precision=precision, **settings)]
    assert together[:12] == together[12:24]
    same = sum(first == second for first, second in zip(one_by_one, together[:12], strict=True))
    assert same == 12 if precision == "float32" else same > 8


@pytest.mark.parametrize("name", ["write-rnn", "write-gru", "write-lstm"])
def test_a_recurrent_model_learns_with_a_carried_state(book: Path, tmp_path: Path, name: str):
    changes = SMALL | {"training.steps": 200, "training.evaluate_every": 100, "training.learning_rate": 1e-2}
    changes |= {"training.schedule.warmup": 20, "decoding.max_new_tokens": 12, "decoding.do_sample": False}
    run = train_recipe(tiny_recipe(book, name, **changes), tmp_path / "run")
    assert load(run.path)("the cat sat").text == "the cat sat on the mat."
    assert evaluate(run)["perplexity"]["per_token"] < 1.2
    page = write_report(run).read_text(encoding="utf-8")
    assert "bits per character" in page


def test_a_recurrent_model_generates_without_a_context_window(book: Path, tmp_path: Path, monkeypatch):
    """The state carries the whole text: its first token matters, and generation continues from the state."""
    run = train_recipe(tiny_recipe(book, "write-lstm", **SMALL, **{"training.steps": 60}), tmp_path / "run")
    model, long = load(run.path), {"max_new_tokens": 50, "do_sample": False}
    near = SENTENCE * 2 + "the cat"
    found = model("猫" + near, **long)
    assert len(found.text) == 1 + len(near) + 50
    assert not found.truncated
    assert found.outputs[0].log_probability != model("垫" + near, **long).outputs[0].log_probability
    generated = found.text[1 + len(near) :]
    assert found.outputs[0].log_probability == pytest.approx(model.score("", "猫" + near + generated), abs=1e-3)
    assert "".join(model.stream("猫" + near, **long)) == generated
    assert len(model.predict(["the cat"], num_beams=2, num_return_sequences=2, **long)[0].outputs) == 2
    monkeypatch.setattr("seq2see.decoding.engine.PREFILL_CHUNK", 7)  # a prompt in chunks gives the same
    again = model("猫" + near, **long)
    assert again.text == found.text
    assert again.outputs[0].log_probability == pytest.approx(found.outputs[0].log_probability, abs=1e-4)


def test_an_ensemble_has_the_shortest_context_of_its_members():
    endless, short, shorter = (resolve(name, [], {"target.max_tokens": max_tokens}).model
                               for name, max_tokens in (("write-lstm", 24), ("write", 24), ("write", 20)))  # fmt: skip
    config = ModelConfig(
        task=pretrained_task(endless), name="x", step=1, model=endless, decoding=Decoding(max_new_tokens=8)
    )
    assert config.max_prompt_tokens > 10**9
    assert config.model_copy(update={"members": (short, shorter)}).max_prompt_tokens == 10
    learned = resolve("write-lstm", [], {"training.batches": "bucketed", "target.embedding.positions": "learned"})
    assert learned.model.max_prompt_tokens == learned.target.max_tokens // 2  # learned positions are limited


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        ("write", {}, "recurrent language models"),
        ("pocket-gru", {}, "recurrent language models"),
        ("write-lstm", {"target.embedding.positions": "learned"}, "positions=none"),
        ("write-lstm", {"objective.r_drop": 1.0}, "objective.r_drop=0"),
        ("write-lstm", {"objective.feeding.kind": "free"}, "objective.feeding.kind=teacher"),
    ],
    ids=str,
)
def test_contiguous_batches_are_refused_for_other_models(book: Path, base, changes, message):
    with pytest.raises(UserError, match=message):
        resolve(base, [], {"training.batches": "contiguous"} | changes)


def test_a_recurrent_decoder_generates_too(book: Path, tmp_path: Path):
    changes = {"decoder.kind": "recurrent", "decoder.attention": "none", "target.embedding.positions": "none"}
    run = train_recipe(tiny_recipe(book, "write", **{**SMALL, **changes}), tmp_path / "gru")
    assert load(run.path)("the").text.startswith("the")


@pytest.mark.parametrize("depth", [0, 1])
def test_an_mlp_generates_and_its_perplexity_does_not_depend_on_windows(book: Path, tmp_path: Path, depth):
    changes = SMALL | {"decoder.context": 5, "decoder.depth": depth, "decoding.do_sample": False}
    changes |= {"training.steps": 150, "training.evaluate_every": 75, "training.learning_rate": 1e-2}
    run = train_recipe(tiny_recipe(book, "write-mlp", **changes), tmp_path / "window")
    assert load(run.path)("the cat sat").text == "the cat sat on the "
    perplexity = evaluate(run)["perplexity"]["per_token"]
    wider = run.recipe().with_(**{"target.max_tokens": 96})
    write_text(run.recipe_file, wider.toml())
    assert evaluate(run)["perplexity"]["per_token"] == pytest.approx(perplexity, rel=1e-5)
