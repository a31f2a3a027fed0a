"""Training with adapters: what is trained, and that the accelerated trainer gives the same as the definition."""

from __future__ import annotations

import pytest
import torch

from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.adapters.adapt import adapt, adapter_weights
from seq2see.adapters.settings import SVF, AdapterSettings, LoRA, NormalizedSVF
from seq2see.models.build import named_tensors, trained_tensors
from seq2see.training.checkpoints import newest_checkpoint, resume, save_trainer
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import Adam, Constant, ExponentialMovingAverage, Muon
from seq2see.training.settings import Training
from tiny_models import FAMILIES, pairs, perturbed_model

CPU = torch.device("cpu")
BATCH = pairs([3, 5, 2])
KINDS: list[AdapterSettings] = [SVF(), NormalizedSVF(), LoRA(rank=2, alpha=6.0)]


def trainer(
    kind: AdapterSettings, cls: type[Trainer] = Trainer, name: str = "transformer, pre-norm", **changes
) -> Trainer:
    settings = FAMILIES[name].with_(**{"encoder.dropout": 0.0, "decoder.dropout": 0.0})
    model = perturbed_model(settings)
    adapt(model, kind)
    options = {"optimizer": Adam(), "schedule": Constant(), "steps": 10, "learning_rate": 0.05, "seed": 3, **changes}
    return cls(model, NextToken(label_smoothing=0.1), Training(**options), CPU)


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.kind)
@pytest.mark.parametrize("name", ["transformer, pre-norm", "transformer, batch norm", "recurrent, bilinear"])
def test_losses_and_gradients_of_the_accelerated_trainer_are_those_of_the_definition(name, kind):
    accelerated, plain = (trainer(kind, each, name) for each in (AcceleratedTrainer, Trainer))
    for _ in range(3):
        metrics, expected = accelerated.train_step(BATCH), plain.train_step(BATCH)
        assert metrics["loss"] == pytest.approx(expected["loss"], rel=1e-4)
        assert metrics["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-3)
    for key, weight in plain.weights.items():
        torch.testing.assert_close(accelerated.weights[key], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.kind)
def test_only_the_adapter_is_trained(kind):
    one = trainer(kind, average=ExponentialMovingAverage())
    before = {name: tensor.clone() for name, tensor in named_tensors(one.model).items()}
    for _ in range(2):
        one.train_step(BATCH)
    after = named_tensors(one.model)
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert changed == set(one.weights) == set(one.average) == set(one.optimizer.weights)
    assert len(changed) == len(adapter_weights(one.model))
    assert all(name.rpartition(".")[2] in ("scales", "logits", "a", "b") for name in changed)


def test_muon_trains_the_matrices_of_lora():
    one = trainer(LoRA(rank=2), optimizer=Muon(), learning_rate=0.01)
    losses = [one.train_step(BATCH)["loss"] for _ in range(8)]
    assert losses[-1] < losses[0]


def test_a_checkpoint_has_the_adapter_alone(tmp_path):
    first, other = (trainer(SVF(), average=ExponentialMovingAverage(), patience=3) for _ in range(2))
    first.train_step(BATCH)
    first.record_validation(1.0)
    save_trainer(first, tmp_path, {})
    for group in ("model", "average", "best"):
        assert set(newest_checkpoint(tmp_path, print).tensors(group)) == set(first.weights)
    assert resume(other, tmp_path, {}, print)
    assert other.train_step(BATCH) == first.train_step(BATCH)
    for name, weight in first.weights.items():
        assert torch.equal(other.weights[name], weight)


def test_running_statistics_are_trained_tensors():
    """They follow the new data, as in any fine-tuning."""
    one = trainer(SVF(), name="transformer, batch norm")
    statistics = {name for name in trained_tensors(one.model) if "running" in name}
    assert statistics
    assert set(trained_tensors(one.model)) == statistics | set(one.weights)
