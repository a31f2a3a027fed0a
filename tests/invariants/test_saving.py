"""What is stored comes back the same to the last bit, and what was tied stays tied.

Invariants I22 and I23, for every family of models.
"""

from __future__ import annotations

import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.decoding.settings import Decoding
from seq2see.runs.model_folder import ModelConfig, StoredModel, read_model, write_model
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import Characters
from seq2see.training.averaging import ExponentialMovingAverage
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.resume import resume, save_trainer
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
    """One letter for each place of the vocabularies that is not a special token's."""
    source = train_tokenizer(Characters(), ["abcdefg"])
    target = train_tokenizer(Characters(), ["abcdefghi"])
    assert (len(source), len(target)) == (SOURCE_SIZE, TARGET_SIZE)
    return Tokenizers(target, target) if shared else Tokenizers(source, target)


def stored(settings, module, shared: bool = False) -> StoredModel:
    config = ModelConfig(name="tiny", step=7, model=settings, decoding=Decoding(max_new_tokens=9))
    return StoredModel(config, module, tokenizers(shared))


@every_family
def test_a_stored_model_answers_the_same_to_the_last_bit(name, tmp_path):
    model, batch = tiny_model(name), pairs([3, 5, 2])
    write_model(tmp_path / "model", stored(FAMILIES[name], model))
    found = read_model(tmp_path / "model", CPU)
    assert torch.equal(found.module(batch), model(batch))
    assert not found.module.training
    assert found.config == stored(FAMILIES[name], model).config
    assert found.tokenizers.sizes == (SOURCE_SIZE, TARGET_SIZE)


def test_tied_weights_stay_tied_when_saved(tmp_path):
    model = perturbed_model(SHARED)
    write_model(tmp_path / "model", stored(SHARED, model, shared=True))
    found = read_model(tmp_path / "model", CPU).module
    assert found.source.table.weight is found.target.table.weight is found.head.table.weight
    assert torch.equal(found(pairs([3, 5])), model(pairs([3, 5])))


def test_weights_of_another_model_are_refused(tmp_path):
    model = tiny_model("transformer, pre-norm")
    write_model(tmp_path / "model", stored(FAMILIES["transformer, post-norm"], model))
    with pytest.raises(UserError, match="weight"):
        read_model(tmp_path / "model", CPU)


@pytest.mark.parametrize("settings", [SHARED, FAMILIES["transformer, batch norm"]], ids=["tied", "statistics"])
def test_a_resumed_training_goes_on_as_if_nothing_had_happened(settings, tmp_path):
    training = Training(steps=6, seed=3, accumulate=2, average=ExponentialMovingAverage(decay=0.9), max_grad_norm=0.5)

    def begin() -> Trainer:
        return Trainer(perturbed_model(settings), NextToken(label_smoothing=0.1), training, CPU)

    def go_on(trainer: Trainer, until: int) -> list[float]:
        return [trainer.train_step(pairs([3, 5, 2], seed=step))["loss"] for step in range(trainer.step, until)]

    whole = begin()
    losses = go_on(whole, 6)
    first = begin()
    assert go_on(first, 3) == losses[:3]
    save_trainer(first, tmp_path, {"data": "x"})
    second = begin()
    assert resume(second, tmp_path, {"data": "x"}, print)
    torch.randn(5)  # the global generator must not matter
    assert go_on(second, 6) == losses[3:]
    assert second.model.head.table.weight is second.model.target.table.weight
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(second.model.state_dict()[name], tensor), name
    for name, tensor in whole.average.items():
        assert torch.equal(second.average[name], tensor), name
    with pytest.raises(UserError, match="data changed"):
        resume(begin(), tmp_path, {"data": "y"}, print)
