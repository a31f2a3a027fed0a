"""Fine-tuning a pretrained ViT, at its own image size or another, and exporting the result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import ViTForImageClassification

from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.layers.positions import interpolate_positions
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import train_recipe
from vit_folders import body_folder, vit_folder

SHORT = {
    "corpus.size": 120, "training.steps": 4, "training.evaluate_every": 2, "training.batch_size": 16,
    "training.optimizer.layer_decay": 0.7,
}  # fmt: skip
NO_UPDATE = {"training.learning_rate": 1e-12, "training.steps": 1}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("real") / "vit"
    body_folder(path)
    return path


def recipe(folder: Path, **changes):
    return resolve("classify-image", [], {"pretrained": str(folder), **SHORT, **changes})


@pytest.fixture(scope="module")
def run(pretrained, tmp_path_factory) -> RunFolder:
    return train_recipe(recipe(pretrained, **{"source.image_size": 28}), tmp_path_factory.mktemp("runs") / "tuned")


def test_at_another_size_only_the_positions_are_interpolated(pretrained, tmp_path):
    actual = load(
        train_recipe(recipe(pretrained, **NO_UPDATE, **{"source.image_size": 28}), tmp_path / "still").path
    ).module
    weights = load_file(pretrained / "model.safetensors")
    positions = weights["embeddings.position_embeddings"][0]
    expected = interpolate_positions(positions[1:], (5, 5), (7, 7))
    assert_close(actual.source.positions.embedding.weight.detach(), expected, rtol=0, atol=1e-6)
    token = weights["embeddings.cls_token"][0] + positions[:1]
    assert_close(actual.source.prefix_tokens.embeddings.detach(), token, rtol=0, atol=1e-6)
    key_weight = actual.encoder.blocks[1].self_attention.qkv_proj.weight[24:48].detach()
    assert_close(key_weight, weights["encoder.layer.1.attention.attention.key.weight"], rtol=0, atol=1e-6)


def test_at_its_own_size_nothing_is_changed(pretrained, tmp_path):
    actual = load(train_recipe(recipe(pretrained, **NO_UPDATE), tmp_path / "still").path).module
    positions = load_file(pretrained / "model.safetensors")["embeddings.position_embeddings"][0]
    assert_close(actual.source.positions.embedding.weight.detach(), positions[1:], rtol=0, atol=1e-6)


def test_a_fine_tuned_run_predicts_and_is_scored(run, tmp_path):
    Image.fromarray(np.full((30, 20, 3), 200, np.uint8)).save(tmp_path / "it.png")
    assert load(run.path)(str(tmp_path / "it.png")).text in load(run.path).tokenizers.labels
    assert evaluate(run)["test"]["accuracy"] > 0


def test_a_fine_tuned_model_is_exported_to_transformers(run, tmp_path):
    assert command(["export", str(run.path), "--to", "hf", "--out", str(tmp_path / "out")]) == 0
    exported, actual = ViTForImageClassification.from_pretrained(tmp_path / "out").eval(), load(run.path)
    pixels = torch.randint(0, 256, (28, 28, 3), dtype=torch.uint8)
    with torch.no_grad():
        scores = exported((pixels.permute(2, 0, 1)[None] / 127.5) - 1).logits[0]
    prediction = actual.predict([pixels.numpy()])[0]
    assert prediction.text == exported.config.id2label[int(scores.argmax())]
    assert prediction.score == pytest.approx(float(scores.log_softmax(-1).max()), abs=1e-4)


def test_layer_decay_changes_lower_layers_less(pretrained, tmp_path):
    """Adam's first step changes a weight by about the learning rate, which differs in every layer here."""
    changes = {"training.optimizer.layer_decay": 0.1, "training.steps": 1, "training.learning_rate": 1e-2}
    changes |= {"training.schedule.kind": "constant", "training.max_grad_norm": 0}
    actual = load(train_recipe(recipe(pretrained, **changes), tmp_path / "run").path).module
    weights = load_file(pretrained / "model.safetensors")
    moved = [
        (
            actual.encoder.blocks[number].feed_forward.up_proj.bias.detach()
            - weights[f"encoder.layer.{number}.intermediate.dense.bias"]
        )
        .abs()
        .median()
        .item()
        for number in (0, 1)
    ]
    assert moved == [pytest.approx(1e-4, rel=0.05), pytest.approx(1e-3, rel=0.05)]


def test_other_shapes_are_refused_by_name(pretrained, tmp_path):
    with pytest.raises(UserError, match=r"encoder\.heads differs"):
        train_recipe(recipe(pretrained, **{"encoder.heads": 2}), tmp_path / "heads")
    with pytest.raises(UserError, match=r"source\.embedding\.size differs"):
        train_recipe(recipe(pretrained, **{"source.embedding.size": 5}), tmp_path / "size")
    vit_folder(tmp_path / "deit", "deit, with teacher")
    with pytest.raises(UserError, match=r"source\.prefix_tokens\.embeddings"):
        train_recipe(recipe(tmp_path / "deit", **{"target.pooling": "cls"}), tmp_path / "tokens")


@pytest.mark.parametrize(
    "pooling, names", [("distilled", ["class", "distill", "1,1"]), ("pre-logits", ["class", "1,1"])]
)
def test_other_poolings_are_trained_scored_and_traced(pooling, names, tmp_path):
    vit_folder(tmp_path / "real", "deit, with teacher" if pooling == "distilled" else "vit")
    run = train_recipe(recipe(tmp_path / "real", **{"target.pooling": pooling}), tmp_path / "run")
    assert "accuracy" in evaluate(run)["test"]
    assert (run.path / "attention" / "patches.png").exists()
    attention = load(run.path).predict([np.zeros((20, 20, 3), np.uint8)])[0].attention
    assert attention.source[: len(names)] == names
    assert attention.matrix.shape == (25 + len(names) - 1,) * 2
