"""Every recipe in miniature: train, predict, evaluate, report; and user data in every format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from PIL import Image
from tiny_recipes import tiny_recipe, write_pairs

import seq2see
from bert_folders import bert_folder
from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.settings import Text
from seq2see.models.sound_settings import Sound
from seq2see.recipes.registry import RECIPES, recipe, resolve
from seq2see.runs.compare import compare
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.run_folder import RunFolder, find_run, folder_for, read_scores, read_table
from seq2see.runs.train import train_recipe
from seq2see.tasks.text_scores import bleu_tokenize
from tiny_runs import recordings_tsv


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv")


@pytest.fixture(scope="module")
def run(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that has memorized its 56 pairs."""
    changes = {"training.steps": 150, "training.evaluate_every": 75, "encoder.dropout": 0.0, "decoder.dropout": 0.0}
    changes |= {
        "encoder.width": 32,
        "decoder.width": 32,
        "training.learning_rate": 1e-2,
        "training.schedule.warmup": 20,
    }
    return train_recipe(tiny_recipe(pairs, **changes), tmp_path_factory.mktemp("runs") / "learned")


NGRAM = [name for name in RECIPES if recipe(name).task == "ngram"]


@pytest.mark.parametrize("name", NGRAM)
def test_every_ngram_recipe_trains_predicts_and_loads(name: str, pairs: Path, tmp_path: Path):
    ngram = resolve(name, [pairs], {"decoding.max_new_tokens": 5})
    finished = train_recipe(ngram, tmp_path / name)
    assert load(finished.path)("红猫").text.startswith("红猫")
    assert len(finished.metrics.read_text().splitlines()) == ngram.steps == ngram.decoder.order


def running_text(pairs: Path, folder: Path) -> tuple[Path, str]:
    (folder / "book.txt").write_text(pairs.read_text(encoding="utf-8") * 4, encoding="utf-8")
    return folder / "book.txt", "红[MASK]"


def labeled(pairs: Path, folder: Path) -> tuple[Path, str]:
    rows = [line.split("\t") for line in pairs.read_text(encoding="utf-8").splitlines()]
    (folder / "my.tsv").write_text("".join(f"{a}\t{b.split()[1]}\n" for a, b in rows), encoding="utf-8")
    return folder / "my.tsv", "红猫"


def tagged(pairs: Path, folder: Path) -> tuple[Path, str]:
    sources = [line.split("\t")[0] for line in pairs.read_text(encoding="utf-8").splitlines()]
    lines = [f"{color} ADJ\n{animal} NOUN\n\n" for color, animal in sources]
    (folder / "my.conll").write_text("".join(lines), encoding="utf-8")
    return folder / "my.conll", "红 猫"


def numbered(pairs: Path, folder: Path) -> tuple[Path, str]:
    (folder / "my.csv").write_text("".join(f"{number % 7}\n" for number in range(99)), encoding="utf-8")
    return folder / "my.csv", "1 2 3 4"


def photos(pairs: Path, folder: Path) -> tuple[Path, str]:
    """A folder for each label with 20 small images, and one of the files."""
    for label, level in (("dark", 40), ("light", 200)):
        (folder / "photos" / label).mkdir(parents=True)
        for number in range(20):
            Image.new("RGB", (24, 24), (level + number, level, level)).save(folder / "photos" / label / f"{number}.png")
    return folder / "photos", str(folder / "photos" / "dark" / "3.png")


def described(pairs: Path, folder: Path) -> tuple[Path, str]:
    """A list of these images with captions."""
    _, one = photos(pairs, folder)
    captions = [
        {"file": f"photos/{label}/{number}.png", "caption": f"a {label} image"}
        for label in ("dark", "light")
        for number in range(20)
    ]
    (folder / "captions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in captions))
    return folder / "captions.jsonl", one


def drawn(pairs: Path, folder: Path) -> tuple[None, str]:
    """The built-in corpus, and a video of two frames."""
    frames = [Image.new("L", (24, 24), level) for level in (40, 200)]
    frames[0].save(folder / "video.gif", save_all=True, append_images=frames[1:])
    return None, str(folder / "video.gif")


def spoken(pairs: Path, folder: Path) -> tuple[Path, str]:
    """A list of recordings with their letters, and one of the files."""
    return recordings_tsv(folder), str(folder / "3.wav")


def talked(pairs: Path, folder: Path) -> tuple[Path, str]:
    """Dialogues of two messages: each pair is a question and its answer."""
    rows = [line.split("\t") for line in pairs.read_text(encoding="utf-8").splitlines()]
    path = folder / "talk.txt"
    path.write_text("\n\n".join(f"{question}\n{answer}" for question, answer in rows), encoding="utf-8")
    return path, "红猫"


DATA = {
    "series": numbered, "masked-tokens": running_text, "masked-tokens-nsp": running_text, "label": labeled,
    "dialogue": talked, "tags": tagged, "image-label": photos, "image": described, "video": drawn,
    "sound": spoken,
}  # fmt: skip
"""The training data and an input for each kind of target, or of source; all others have pairs."""


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in NGRAM])
def test_every_recipe_trains_predicts_and_loads(name: str, pairs: Path, run: RunFolder, tmp_path: Path):
    changes = {"training.steps": 2, "training.evaluate_every": 1, "training.compile": False}
    if name == "transformer-base":
        changes |= {"encoder.width": 16, "decoder.width": 16}
    if name in ("shakespeare-large", "ptb-gpt"):  # their windows are longer than half of this text
        changes |= {"target.max_tokens": 64}
    chosen = RECIPES[name]()
    target, source = chosen.target.kind, chosen.slot("source")
    if chosen.slot("decoding"):
        changes |= {"decoding.max_new_tokens": 5}
    if chosen.objective.kind == "reinforce":  # its answers are drawn without dropout
        changes |= {"decoder.dropout": 0.0}
    if target.startswith("masked-tokens"):
        changes |= {"source.max_tokens": 16}
    if isinstance(source, Text) and source.tokenizer.kind == "pretrained":
        bert_folder(tmp_path / "real", "body")
        changes |= {"pretrained": str(tmp_path / "real")}
    if chosen.adapter is not None:
        changes |= {"pretrained": str(run.path)}
    if isinstance(source, VideoSource):
        changes |= {"corpus.size": 50}
    if isinstance(source, Sound) or (isinstance(source, ImageSource) and target == "text"):
        target = source.kind
    if name.startswith("chat"):
        target = "dialogue"
    data, text = DATA.get(target, lambda pairs, folder: (pairs, "红猫"))(pairs, tmp_path)
    if chosen.corpus.kind == "puzzles":  # rewards need questions that can be checked
        data, changes = None, changes | {"corpus.size": 60}
    finished = train_recipe(tiny_recipe(data, base=name, **changes), tmp_path / name)
    assert finished.finished
    assert isinstance(load(finished.path)(text).text, str)
    assert len(finished.metrics.read_text().splitlines()) == 4  # two steps, two evaluations


def test_a_trained_model_reproduces_its_training_data(run: RunFolder):
    model = load(run.path)
    assert model("红猫").text == "the red cat"
    assert [each.text for each in model.predict(["黑狗", "白马"])] == ["the black dog", "the white horse"]
    assert model.score("红猫", "the red cat") > model.score("红猫", "the black cat")


def test_a_prediction_does_not_depend_on_its_neighbors(run: RunFolder):
    model = load(run.path)
    texts = ["红猫", "小鱼", "大牛大牛大牛", "老鸡"]
    together = model.predict(texts, num_beams=3)
    for text, prediction in zip(texts, together, strict=True):
        alone = model(text, num_beams=3)
        assert alone.text == prediction.text
        assert alone.score == pytest.approx(prediction.score, abs=1e-5)


def test_a_prefix_is_kept_and_continued(run: RunFolder):
    model = load(run.path)
    plain, prefixed = model("红猫"), model("红猫", prefix="the black")
    assert plain.text == "the red cat"
    assert prefixed.text.startswith("the black")
    assert model.score("红猫", prefixed.text) == pytest.approx(prefixed.outputs[0].log_probability, abs=1e-4)
    assert prefixed.score < plain.score


def test_the_score_of_a_prediction_is_its_log_probability(run: RunFolder):
    model = load(run.path)
    best = model("绿鸟").outputs[0]
    assert model.score("绿鸟", best.text) == pytest.approx(best.log_probability, abs=1e-4)


def test_attention_of_every_token_sums_to_1(run: RunFolder):
    attention = load(run.path)("红猫").attention
    assert attention.source == ["红", "猫", "<eos>"]
    assert attention.target[-1] == "<eos>"
    assert attention.matrix.shape == (len(attention.target), 3)
    assert attention.matrix.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert "红" in attention.html()


def test_evaluation_stores_every_prediction_and_compares_runs(run: RunFolder, pairs: Path, tmp_path: Path):
    scores = evaluate(run)
    assert scores["test"]["bleu"]["signature"].startswith("nrefs:1")
    rows = (run.evaluation / "test.tsv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == scores["test"]["pairs"] + 1
    assert json.loads((run.evaluation / "scores.json").read_text()) == scores
    assert not {"train", "valid"} & scores.keys()  # no scores of development splits
    assert [path.name for path in run.evaluation.glob("*.tsv")] == ["test.tsv"]
    other = train_recipe(tiny_recipe(pairs), tmp_path / "untrained")
    with pytest.raises(UserError, match="not evaluated"):
        compare(run, other)
    evaluate(other)
    comparison = compare(run, other)
    assert comparison.first.score == pytest.approx(scores["test"]["bleu"]["value"])
    assert compare(run, run).difference.score == 0


def test_runs_are_compared_with_their_own_or_the_given_settings(run: RunFolder):
    evaluate(run, num_beams=2)
    assert read_scores(run)["decoding"] == {"num_beams": 2}
    assert command(["eval", str(run), str(run)]) == 0
    assert "decoding" not in read_scores(run)
    assert command(["eval", str(run), str(run), "--set", "decoding.num_beams=3"]) == 0
    assert read_scores(run)["decoding"] == {"num_beams": 3}
    evaluate(run)


def test_a_carriage_return_in_a_text_is_no_line_break_of_a_table(pairs: Path, tmp_path: Path):
    rows = pairs.read_text(encoding="utf-8").replace("the ", "the \r")
    (tmp_path / "returns.tsv").write_bytes(rows.encode())
    runs = [
        train_recipe(tiny_recipe(tmp_path / "returns.tsv", **{"training.seed": seed}), tmp_path / str(seed))
        for seed in (1, 2)
    ]
    scores_by_run = {each: evaluate(each) for each in runs}
    for each, scores in scores_by_run.items():
        tables = [each.evaluation / "test.tsv", *each.samples.iterdir()]
        assert not any("\r" in path.read_bytes().decode() for path in tables)
        assert len(read_table(each.evaluation / "test.tsv", 5)) == scores["test"]["pairs"]
    assert compare(*runs).second.score == pytest.approx(scores_by_run[runs[1]]["test"]["bleu"]["value"])


def test_user_data_in_every_format_give_the_same_run(pairs: Path, tmp_path: Path):
    rows = [line.split("\t") for line in pairs.read_text(encoding="utf-8").splitlines()]
    (tmp_path / "s.txt.gz").write_bytes(gzip.compress("".join(f"{s}\n" for s, _ in rows).encode()))
    (tmp_path / "t.txt").write_text("".join(f"{t}\n" for _, t in rows), encoding="utf-8")
    objects = [json.dumps({"source": s, "target": t}, ensure_ascii=False) for s, t in rows]
    (tmp_path / "p.jsonl").write_text("\n".join(objects) + "\n", encoding="utf-8")
    settings = {"training.steps": 2, "encoder.width": 16, "decoder.width": 16, "decoder.depth": 1}
    forms = {"tsv": pairs, "jsonl": tmp_path / "p.jsonl", "aligned": [tmp_path / "s.txt.gz", tmp_path / "t.txt"]}
    weights = set()
    for name, data in forms.items():
        made = seq2see.train("translate", data=data, out=tmp_path / name, set=settings)
        weights.add((made.folder / "model" / "model.safetensors").read_bytes())
        assert (made.folder / "report.html").exists()
    assert len(weights) == 1


def test_a_text_that_is_too_long_is_truncated_with_a_warning(run: RunFolder, pairs: Path, tmp_path: Path):
    short = train_recipe(tiny_recipe(pairs, **{"source.max_tokens": 2, "target.max_tokens": 2}), tmp_path / "short")
    model = load(short.path)
    assert not model("红猫").truncated
    assert model("红猫马").truncated
    assert model("红猫马").score == pytest.approx(model("红猫牛").score)


def test_issues_of_validation_files_are_reported_too(pairs: Path, tmp_path: Path):
    (tmp_path / "valid.tsv").write_bytes("红猫\tthe red cat\r\n红狗\tthe red dog\r\n".encode())
    recipe = tiny_recipe(pairs, **{"corpus.valid": [str(tmp_path / "valid.tsv")], "training.steps": 1})
    made = train_recipe(recipe, tmp_path / "run")
    reports = json.loads((made.path / "data_report.json").read_text(encoding="utf-8"))["reports"]
    assert len(reports) == 2
    assert "CRLF line endings" in json.dumps(reports[1])
    assert "CRLF line endings" not in json.dumps(reports[0])


def test_a_test_source_in_the_training_data_is_an_error_unless_allowed(pairs: Path, tmp_path: Path):
    (tmp_path / "test.tsv").write_text("红猫\tthe red cat\n", encoding="utf-8")
    changes = {"corpus.test": [str(tmp_path / "test.tsv")], "training.steps": 1}
    with pytest.raises(UserError, match=r"corpus\.overlap=allow"):
        train_recipe(tiny_recipe(pairs, **changes), tmp_path / "run")
    assert train_recipe(tiny_recipe(pairs, **changes, **{"corpus.overlap": "allow"}), tmp_path / "run").finished


def test_a_finished_run_is_never_overwritten(run: RunFolder, pairs: Path):
    recipe = run.recipe()
    assert folder_for(recipe, run.path).path == run.path.with_name("learned-2")
    assert folder_for(recipe.with_(**{"training.seed": 9}), run.path).path == run.path.with_name("learned-2")


def test_an_unfinished_run_is_resumed_only_by_its_own_recipe(run: RunFolder, tmp_path: Path):
    recipe = run.recipe()
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "recipe.toml").write_text(recipe.toml(), encoding="utf-8")
    assert folder_for(recipe, tmp_path / "unfinished").path == tmp_path / "unfinished"
    other = recipe.with_(**{"training.seed": 9})
    assert folder_for(other, tmp_path / "unfinished").path == tmp_path / "unfinished-2"


def test_bleu_splits_chinese_by_character_and_the_rest_by_word():
    assert bleu_tokenize(["我有一支笔", "Tom 喜欢猫"]) == "zh"
    assert bleu_tokenize(["I have a pen", "her name is 小红"]) == "13a"


def test_a_folder_that_is_no_run_is_not_written_to(run: RunFolder, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("...")
    with pytest.raises(UserError, match="not a run folder"):
        folder_for(run.recipe(), tmp_path / "mine")


def test_a_run_is_found_by_folder_name_and_latest(run: RunFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "learned").symlink_to(run.path)
    assert find_run("learned").path == Path("runs/learned")
    assert find_run("latest").path == Path("runs/learned")
    assert find_run(str(run.path / "model")).path == run.path
    with pytest.raises(UserError, match="Did you mean 'runs/learned'"):
        find_run("runs/lerned")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "target_tokenizer.json", "MANIFEST.json"])
def test_a_damaged_model_is_refused(name: str, run: RunFolder, tmp_path: Path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    file = copy / "model" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError):
        load(copy)
    file.unlink()
    with pytest.raises(UserError) as error:
        load(copy)
    again = f"seq2see train {copy}/recipe.toml --out {copy}"
    assert again in error.value.hint
    shutil.rmtree(copy / "model")
    assert command(again.split()[1:]) == 0  # the hint works
    assert load(copy).score("红猫", "the red cat") == load(run.path).score("红猫", "the red cat")
