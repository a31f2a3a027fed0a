"""A stored model is read back bit-identical, and tied weights stay tied.

Invariants I22 and I23, for every family of models.
"""

from __future__ import annotations

import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import Characters, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.runs.load import read_model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers, write_model
from seq2see.tasks.task import pretrained_task
from seq2see.training.checkpoints import resume, save_trainer
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import ExponentialMovingAverage
from seq2see.training.settings import Training
from tiny_models import (
    FAMILIES,
    SOURCE_SIZE,
    TARGET_SIZE,
    pairs,
    perturbed_model,
    seq2seq_settings,
    tiny_model,
    transformer,
)

CPU = torch.device("cpu")
every_family = pytest.mark.parametrize("name", FAMILIES)
SHARED = seq2seq_settings(transformer(), transformer()).with_(**{"target.vocabulary": "shared"})


def tokenizers(shared: bool = False) -> Tokenizers:
    """One letter for each entry of the vocabularies that is not a special token."""
    source = train_tokenizer(Characters(), ["abcdefg"])
    target = train_tokenizer(Characters(), ["abcdefghi"])
    assert (len(source), len(target)) == (SOURCE_SIZE, TARGET_SIZE)
    return Tokenizers(target, target) if shared else Tokenizers(source, target)


def stored_model(settings, module, shared: bool = False) -> StoredModel:
    config = ModelConfig(
        task=pretrained_task(settings), name="tiny", step=7, model=settings, decoding=Decoding(max_new_tokens=9)
    )
    return StoredModel(config, module, tokenizers(shared))


@every_family
def test_a_stored_model_is_bit_identical(name, tmp_path):
    model, batch = tiny_model(name), pairs([3, 5, 2])
    write_model(tmp_path / "model", stored_model(FAMILIES[name], model))
    loaded = read_model(tmp_path / "model", CPU)
    assert torch.equal(loaded.module(batch), model(batch))
    assert not loaded.module.training
    assert loaded.config == stored_model(FAMILIES[name], model).config
    assert loaded.tokenizers.sizes == (SOURCE_SIZE, TARGET_SIZE)


def test_tied_weights_stay_tied_when_saved(tmp_path):
    model = perturbed_model(SHARED)
    write_model(tmp_path / "model", stored_model(SHARED, model, shared=True))
    loaded = read_model(tmp_path / "model", CPU).module
    assert loaded.source.table.weight is loaded.target.table.weight is loaded.head.table.weight
    assert torch.equal(loaded(pairs([3, 5])), model(pairs([3, 5])))


def test_weights_of_another_model_are_refused(tmp_path):
    model = tiny_model("transformer, pre-norm")
    write_model(tmp_path / "model", stored_model(FAMILIES["transformer, post-norm"], model))
    with pytest.raises(UserError, match="weight"):
        read_model(tmp_path / "model", CPU)


@pytest.mark.parametrize("settings", [SHARED, FAMILIES["transformer, batch norm"]], ids=["tied", "statistics"])
def test_a_resumed_training_equals_an_uninterrupted_one(settings, tmp_path):
    training = Training(steps=6, seed=3, accumulate=2, average=ExponentialMovingAverage(decay=0.9), max_grad_norm=0.5)

    def new_trainer() -> Trainer:
        return Trainer(perturbed_model(settings), NextToken(label_smoothing=0.1), training, CPU)

    def train(trainer: Trainer, until: int) -> list[float]:
        return [trainer.train_step(pairs([3, 5, 2], seed=step))["loss"] for step in range(trainer.step, until)]

    uninterrupted = new_trainer()
    losses = train(uninterrupted, 6)
    first = new_trainer()
    assert train(first, 3) == losses[:3]
    save_trainer(first, tmp_path, {"data": "x"})
    second = new_trainer()
    assert resume(second, tmp_path, {"data": "x"}, print)
    torch.randn(5)  # the global generator must not matter
    assert train(second, 6) == losses[3:]
    assert second.model.head.table.weight is second.model.target.table.weight
    for name, tensor in uninterrupted.model.state_dict().items():
        assert torch.equal(second.model.state_dict()[name], tensor), name
    for name, tensor in uninterrupted.average.items():
        assert torch.equal(second.average[name], tensor), name
    with pytest.raises(UserError, match="data changed"):
        resume(new_trainer(), tmp_path, {"data": "y"}, print)
