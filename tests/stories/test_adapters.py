"""Adapters from the command to the file: train a base, adapt it, stop, resume, evaluate, predict, report, export."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_recipes import ANIMALS, COLORS, fingerprint, stop_and_resume, tiny_recipe, write_pairs

from bert_folders import bert_folder
from causal_folders import causal_folder
from seq2see.adapters.expert import read_expert
from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.explorer.workspace import Workspace
from seq2see.models.build import named_tensors
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from seq2see.tasks.translate import Translate

SVF = {"adapter.kind": "svf", "training.learning_rate": 0.05}
LORA = {"adapter.kind": "lora", "adapter.rank": 3, "adapter.alpha": 6.0}
TEXTS = ["红猫", "老鸡", "大马"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv")


@pytest.fixture(scope="module")
def base(data, tmp_path_factory) -> RunFolder:
    return train_recipe(tiny_recipe(data), tmp_path_factory.mktemp("runs") / "base")


def adapted(data: Path, base: RunFolder, **changes: Any) -> Any:
    return tiny_recipe(data, pretrained=str(base.path), **changes)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def run(data, base, tmp_path_factory) -> RunFolder:
    before = files_of(base.model)
    made = train_recipe(adapted(data, base, **SVF), tmp_path_factory.mktemp("runs") / "svf")
    assert files_of(base.model) == before
    return made


def test_the_model_of_the_run_is_an_expert_of_a_few_kilobytes(run, base):
    files = files_of(run.model)
    assert sorted(files) == ["MANIFEST.json", "adapter.safetensors", "config.json", "expert.json"]
    assert sum(map(len, files.values())) < 12_000 < sum(map(len, files_of(base.model).values()))
    config = json.loads(files["expert.json"])
    assert config["base"] == str(base.path)
    assert config["adapter"] == {"kind": "svf", "matrices": []}


def test_its_weights_are_those_of_the_base_except_for_the_adapted_matrices(run, base):
    before, after = (named_tensors(load(each.path).module) for each in (base, run))
    assert list(before) == list(after)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(name.startswith(("encoder.", "decoder.")) and name.endswith("proj.weight") for name in changed)


@pytest.mark.parametrize("kind", [SVF, LORA], ids=["svf", "lora"])
def test_a_stopped_training_ends_with_the_same_bytes(data, base, kind, tmp_path):
    stop_and_resume(adapted(data, base, **kind, **{"training.average.kind": "ema"}), tmp_path)


def test_after_a_kill_a_training_ends_with_the_same_bytes(data, base, run, tmp_path):
    """A killed run has the last checkpoint, more metrics than this, and no model."""
    killed = tmp_path / "killed"
    shutil.copytree(run.path, killed)
    shutil.rmtree(killed / "model")
    shutil.rmtree(killed / "checkpoints" / "step-000012")
    train_recipe(adapted(data, base, **SVF), killed)
    assert fingerprint(killed) == fingerprint(run.path)


def test_it_is_evaluated_and_predicts_and_its_report_shows_the_adapter(run, capsys):
    scores = evaluate(run)
    assert "bleu" in json.dumps(scores)
    assert command(["predict", str(run.path), *TEXTS]) == 0
    assert capsys.readouterr().out.split("\n")[:3] == [each.text for each in load(run.path).predict(TEXTS)]
    page = write_report(run).read_text(encoding="utf-8")
    assert 'id="adapter"' in page
    assert (run.path / "adapter" / "singular_values.png").stat().st_size > 5000
    for arguments in (["runs"], ["show", str(run.recipe_file)], ["explain", str(run.path)]):
        assert command(arguments) == 0, arguments


def test_the_explorer_and_an_ensemble_use_the_merged_model(run, base, tmp_path):
    expected = [each.text for each in load(run.path).predict(TEXTS)]
    (opened,) = Workspace.open([str(run.path)]).runs.values()
    assert [each.text for each in opened.model.predict(TEXTS)] == expected
    assert command(["ensemble", str(run.path), str(base.path), "--out", str(tmp_path / "both")]) == 0
    assert sorted(path.name for path in (tmp_path / "both" / "model").glob("*.safetensors")) == [
        "member-2.safetensors",
        "model.safetensors",
    ]
    weights = named_tensors(load(run.path).module)
    first = load_file(tmp_path / "both" / "model" / "model.safetensors")
    assert all(torch.equal(first[name], tensor) for name, tensor in weights.items())


@pytest.mark.parametrize("to", ["ct2", "hf"])
def test_it_is_exported_with_merged_weights(run, to, tmp_path):
    assert command(["export", str(run.path), "--to", to, "--out", str(tmp_path / to)]) == 0
    expected = [each.text for each in load(run.path).predict(TEXTS)]
    if to == "ct2":
        pytest.importorskip("ctranslate2")
        assert [each.text for each in load(run.path, engine="ct2").predict(TEXTS)] == expected
        return
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model, tokenizer = (each.from_pretrained(tmp_path / to) for each in (AutoModelForSeq2SeqLM, AutoTokenizer))
    for text, output in zip(TEXTS, expected, strict=True):
        tokens = model.generate(**tokenizer([text], return_tensors="pt"), max_new_tokens=8)
        assert tokenizer.batch_decode(tokens, skip_special_tokens=True)[0].strip() == output


def test_a_moved_base_is_named_in_the_recipe_and_another_one_is_refused(data, base, tmp_path):
    moving = tmp_path / "runs" / "moving"
    shutil.copytree(base.path, moving)
    run = train_recipe(adapted(data, RunFolder(moving), **SVF), tmp_path / "runs" / "svf")
    expected = [each.text for each in load(run.path).predict(TEXTS)]
    moving.rename(tmp_path / "moved")
    with pytest.raises(UserError, match=rf"model {moving}, which is not there.*write its new place into .*recipe.toml"):
        load(run.path)
    text = run.recipe_file.read_text(encoding="utf-8")
    run.recipe_file.write_text(text.replace(str(moving), str(tmp_path / "moved")), encoding="utf-8")
    assert [each.text for each in load(run.path).predict(TEXTS)] == expected
    other = train_recipe(tiny_recipe(data, **{"training.seed": 2, "training.steps": 4}), tmp_path / "other")
    run.recipe_file.write_text(text.replace(str(moving), str(other.path)), encoding="utf-8")
    with pytest.raises(UserError, match=r"belongs to another base model than .*moving"):
        load(run.path)


def test_a_changed_base_cannot_be_resumed_with(data, base, tmp_path):
    copy = tmp_path / "base"
    shutil.copytree(base.path, copy)
    recipe = adapted(data, RunFolder(copy), **SVF)
    run = train_recipe(recipe, tmp_path / "run")
    shutil.rmtree(run.model)
    shutil.rmtree(copy / "model")
    other = train_recipe(tiny_recipe(data, **{"training.seed": 2, "training.steps": 4}), tmp_path / "other")
    shutil.copytree(other.model, copy / "model")
    with pytest.raises(UserError, match="The pretrained model changed since this run was started"):
        train_recipe(recipe, run.path)


def test_a_damaged_expert_is_refused(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    path = tmp_path / "run" / "model" / "adapter.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"This model is damaged: adapter.safetensors"):
        load(tmp_path / "run")


def test_an_expert_can_be_the_base_of_another(data, run, tmp_path):
    second = train_recipe(adapted(data, run, **LORA), tmp_path / "second")
    assert [each.text for each in load(second.path).predict(TEXTS)]
    assert len(read_expert(second.model, step=12).weights) == 2 * 16


def test_bad_settings_are_refused_in_one_sentence(data, base):
    with pytest.raises(UserError, match="an adapter belongs to a trained model: set pretrained to a run"):
        tiny_recipe(data, **SVF)
    with pytest.raises(UserError, match="There is no kind 'lori'"):
        adapted(data, base, **{"adapter.kind": "lori"})
    with pytest.raises(UserError, match=r"no setting 'rank'"):
        adapted(data, base, **{"adapter.kind": "svf", "adapter.rank": 3})
    with pytest.raises(UserError, match=r"no run 'nowhere'"):
        tiny_recipe(data, pretrained="nowhere", **SVF)
    with pytest.raises(UserError, match=r"a model of the task translate; a training of the task caption"):
        resolve("caption", [], {"pretrained": str(base.path)})


def test_a_task_that_ignores_the_vocabulary_of_its_base_is_noticed(base, tmp_path, monkeypatch):
    other = tmp_path / "other.tsv"
    other.write_text("".join(f"{name} 一\tone {name}\n" for name in "abcdefghijklmnopqrstuvwxyz"), encoding="utf-8")
    fit = Translate.fit
    monkeypatch.setattr(Translate, "fit", lambda self, recipe, train, pretrained: fit(self, recipe, train))
    with pytest.raises(UserError, match="learned a vocabulary of its own"):
        train_recipe(adapted(other, base, **SVF), tmp_path / "run")


def test_bad_matrices_are_refused_before_a_folder_is_made(data, base, tmp_path):
    for changes, message in (
        ({"adapter.kind": "svf", "adapter.matrices": ("*.mlp.*",)}, r"No matrix of this model matches '\*.mlp.\*'"),
        ({"adapter.kind": "lora", "adapter.rank": 17}, "rank 17 is above 16"),
    ):
        with pytest.raises(UserError, match=message):
            train_recipe(adapted(data, base, **changes), tmp_path / "run")
        assert not (tmp_path / "run").exists()


SHORT = {"training.steps": 4, "training.evaluate_every": 2, "training.batch_tokens": 128, "training.patience": 0}


@pytest.fixture(scope="module")
def labeled(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "my.tsv"
    lines = [f"The {color} Cát, {animal}\t{color}\n" for color in COLORS.values() for animal in ANIMALS.values()]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_the_new_head_of_a_classifier_is_trained_and_stored(labeled, tmp_path):
    bert_folder(tmp_path / "bert", "fill")
    recipe = resolve("classify-text", [labeled], {"pretrained": str(tmp_path / "bert"), **SHORT, **SVF})
    run = train_recipe(recipe, tmp_path / "run")
    expert = read_expert(run.model, step=4)
    assert expert.new
    assert all(not name.startswith(("source.", "encoder.")) for name in expert.new)
    assert "labels.json" in files_of(run.model)
    assert load(run.path)("the red cat").text in COLORS.values()
    again = resolve("classify-text", [labeled], {"pretrained": str(run.path), **SHORT, **SVF})
    same_labels = train_recipe(again, tmp_path / "again")
    assert not read_expert(same_labels.model, step=4).new, "with the same labels, the head is that of the base"


@pytest.mark.parametrize("task", ["write", "chat", "fill", "classify-image", "forecast", "caption", "transcribe"])
def test_models_of_every_kind_can_be_adapted(task, tmp_path):
    small = {"training.steps": 2, "training.evaluate_every": 2, "training.batch_tokens": 512, "training.patience": 0}
    files: list[Path] = []
    changes: dict[str, Any] = {}
    if task in ("write", "chat"):
        causal_folder(tmp_path / "base", "llama, grouped, tied, other angles")
        changes = {"pretrained": str(tmp_path / "base"), "decoding.max_new_tokens": 5}
        text = "the cat sat on the mat and a dog ran after the cat\n" * 40
        lines = [
            json.dumps(
                {
                    "messages": [
                        {"role": "user", "content": f"the cat {n}"},
                        {"role": "assistant", "content": f"a dog {n}"},
                    ]
                }
            )
            for n in range(40)
        ]
        files = [tmp_path / ("book.txt" if task == "write" else "my.jsonl")]
        files[0].write_text(text if task == "write" else "\n".join(lines) + "\n", encoding="utf-8")
    elif task == "fill":
        bert_folder(tmp_path / "base", "fill")
        changes = {"pretrained": str(tmp_path / "base")}
        files = [tmp_path / "book.txt"]
        files[0].write_text("the cat sat on the mat and a dog ran after the cat\n" * 60, encoding="utf-8")
    else:
        shapes = {} if task == "forecast" else {"corpus.size": 40}
        if task == "transcribe":  # the encoder of the recipe has convolutions, and no linear layers
            shapes |= {"encoder.kind": "transformer", "encoder.heads": 2}
        tiny = tiny_recipe(None, task, **small, **shapes)
        shapes = {path: value for path, value in shapes.items() if path == "corpus.size"}
        changes = {"pretrained": str(train_recipe(tiny, tmp_path / "base").path), **shapes}
    if task in ("write", "chat"):
        small |= {"target.max_tokens": 24}
    run = train_recipe(resolve(task, files, changes | small | LORA), tmp_path / "run")
    expert = read_expert(run.model, step=2)
    assert expert.weights
    assert not expert.new
    model, base = load(run.path), load(changes["pretrained"])
    assert model.tokenizers.source.fingerprint == base.tokenizers.source.fingerprint
    assert evaluate(run)
