"""Fine-tuning a pretrained BERT for text classification, and the folder of such a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_recipes import ANIMALS, COLORS, fingerprint

from bert_folders import bert_folder
from causal_folders import causal_folder
from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe

SHORT = {"training.steps": 6, "training.evaluate_every": 3, "training.batch_tokens": 128, "training.patience": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("real") / "bert"
    bert_folder(path, "fill")
    return path


@pytest.fixture(scope="module")
def labeled(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "my.tsv"
    lines = [f"The {color} Cát, {animal}\t{color}\n" for color in COLORS.values() for animal in ANIMALS.values()]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def recipe(folder, labeled, **changes):
    return resolve("classify-text", [labeled], {"pretrained": str(folder), **SHORT, **changes})


@pytest.fixture(scope="module")
def run(folder, labeled, tmp_path_factory) -> RunFolder:
    return train_recipe(recipe(folder, labeled), tmp_path_factory.mktemp("runs") / "tuned")


def test_source_and_encoder_are_those_of_the_folder(folder, labeled, tmp_path):
    still = recipe(folder, labeled, **{"training.learning_rate": 1e-12, "training.steps": 1, "encoder.dropout": 0.0})
    assert still.encoder.norm_eps == 1e-12
    assert still.encoder.norm_order == "post"
    made = train_recipe(still, tmp_path / "still")
    weights, actual = load_file(folder / "model.safetensors"), load(made.path)
    id_map = actual.tokenizers.source.id_map
    table = id_map.restore_rows(actual.module.source.table.weight.detach())
    torch.testing.assert_close(table, weights["bert.embeddings.word_embeddings.weight"], atol=1e-6, rtol=0)
    key_weight = actual.module.encoder.blocks[1].self_attention.qkv_proj.weight[24:48]
    key = weights["bert.encoder.layer.1.attention.self.key.weight"]
    torch.testing.assert_close(key_weight.detach(), key, atol=1e-6, rtol=0)


def test_the_run_does_not_need_the_folder(run, folder, tmp_path, monkeypatch, capsys):
    expected = load(run.path)("the RED cat")
    shutil.copytree(run.path, tmp_path / "copy")
    model = load(tmp_path / "copy")
    assert model("the RED cat").text == expected.text
    assert model("the RED cat").candidates == expected.candidates
    pretrained = load(folder).tokenizers.source
    stored = model.tokenizers.source
    assert stored.id_map == pretrained.id_map
    assert stored.fingerprint == pretrained.fingerprint
    assert stored.encode("The Cát 我有 [MASK]") == pretrained.encode("the cat 我有 [MASK]")
    assert command(["predict", str(tmp_path / "copy"), "the red cat"]) == 0
    assert expected.text in capsys.readouterr().out


def test_it_is_evaluated_and_resumed(run, folder, labeled, tmp_path):
    assert "accuracy" in evaluate(run)["test"]
    unfinished = tmp_path / "unfinished"
    shutil.copytree(run.path, unfinished)
    shutil.rmtree(unfinished / "model")
    shutil.rmtree(unfinished / "eval")
    last = sorted((unfinished / "checkpoints").iterdir())[-1]
    shutil.rmtree(last)
    resumed = train_recipe(recipe(folder, labeled), unfinished)
    assert resumed.path == unfinished
    assert fingerprint(resumed.path)["model/model.safetensors"] == fingerprint(run.path)["model/model.safetensors"]


def test_a_generative_model_cannot_be_fine_tuned(labeled, tmp_path):
    causal_folder(tmp_path / "gpt2", "gpt2")
    with pytest.raises(UserError, match="only encoder-only models"):
        recipe(tmp_path / "gpt2", labeled)


def test_a_pretrained_tokenizer_without_its_weights_is_refused(labeled, tmp_path):
    with pytest.raises(UserError, match="pretrained=FOLDER"):
        train_recipe(resolve("sst2-minilm", [labeled], SHORT), tmp_path / "run")


def test_an_embedding_model_cannot_be_trained(labeled):
    with pytest.raises(UserError, match=r"'target\.kind' cannot be 'embedding'"):
        resolve("classify-text", [labeled], {"target.kind": "embedding"})
