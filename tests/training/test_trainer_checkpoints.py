"""Checkpoints of a trainer: which of them stay, which of them count in a mean, and which are refused."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seq2see.core.errors import UserError
from seq2see.training.checkpoints import final_weights, list_checkpoints, load, resume, save, save_trainer
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import CheckpointAverage, Constant, NoAverage
from seq2see.training.settings import Training
from tiny_models import FAMILIES, pairs, perturbed_model


def trainer(average) -> Trainer:
    settings = Training(steps=10, evaluate_every=2, average=average, schedule=Constant(), learning_rate=0.1)
    return Trainer(perturbed_model(FAMILIES["transformer, batch norm"]), NextToken(), settings, torch.device("cpu"))


@pytest.mark.parametrize("stopped", [7, 10], ids=["after a stop", "in one go"])
def test_the_last_evaluation_steps_count_though_a_stop_has_saved_one_more(tmp_path, stopped):
    one, expected = trainer(CheckpointAverage(count=3)), []
    for step in range(1, min(stopped, 8) + 1):
        one.train_step(pairs([3, 2], seed=step))
        if step in (2, 4, 6, 8, stopped):
            save_trainer(one, tmp_path, {})
        if step in (2, 4, 6, 8):
            expected.append({name: weight.detach().clone() for name, weight in one.weights.items()})
    final = final_weights(one, tmp_path)
    assert final.keys() == one.weights.keys()  # the statistics of batch norms are not averaged
    for name, weight in final.items():
        assert_close(weight, sum(each[name] for each in expected[-3:]) / 3)


def test_of_two_saves_of_one_step_the_one_that_was_not_replaced_counts(tmp_path):
    """The other was being replaced when the process was killed."""
    one = trainer(CheckpointAverage(count=2))
    for folder in (tmp_path / "old", tmp_path / "new"):
        one.step, before = 2, {name: weight.detach().clone() for name, weight in one.weights.items()}
        save_trainer(one, folder, {})
        one.train_step(pairs([3, 2]))
    (tmp_path / "old" / "step-000002").rename(tmp_path / "new" / "step-000002.replaced")
    assert all(torch.equal(weight, before[name]) for name, weight in final_weights(one, tmp_path / "new").items())


@pytest.mark.parametrize(("average", "stay"), [(NoAverage(), 3), (CheckpointAverage(count=4), 5)], ids=["none", "four"])
def test_three_stay_or_one_more_than_are_averaged(tmp_path, average, stay):
    one = trainer(average)
    for one.step in range(2, 14, 2):
        save_trainer(one, tmp_path, {})
    assert [step for step, _ in list_checkpoints(tmp_path)] == [12, 10, 8, 6, 4][:stay]


def test_a_checkpoint_that_lacks_what_a_step_depends_on_is_refused(tmp_path):
    one = trainer(NoAverage())
    save_trainer(one, tmp_path / "own", {})
    ((_, path),) = list_checkpoints(tmp_path / "own")
    state = {
        name: value
        for name, value in load(path).state.items()
        if name not in ("validation_losses", "evaluations_since_best")
    }
    save(tmp_path / "older", 0, {"model": load(path).tensors("model")}, state, keep=1)
    with pytest.raises(UserError, match="its state lacks evaluations_since_best, validation_losses"):
        resume(one, tmp_path / "older", {}, print)
