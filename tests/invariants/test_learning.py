"""Training is correct for any number of micro-batches, and every architecture can learn.

Invariants I19, I20, I29 and I33, for every family of models.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2see.models.build import fresh_model
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import SGD, Adam, Constant
from seq2see.training.settings import Training
from tiny_models import FAMILIES, SOURCE_SIZE, TARGET_SIZE, few_examples, pairs, perturbed_model

every_family = pytest.mark.parametrize("name", FAMILIES)
# Norms over a batch depend on all of its rows, so micro-batches change their results.
INDEPENDENT_OF_BATCH = [name for name in FAMILIES if "batch norm" not in name and "power norm" not in name]
CPU = torch.device("cpu")


def without_dropout(name: str) -> ModelSettings:
    return FAMILIES[name].with_(**{"encoder.dropout": 0.0, "decoder.dropout": 0.0})


@cache
def initial_weights(name: str) -> dict[str, torch.Tensor]:
    return perturbed_model(without_dropout(name), dtype=torch.float64).state_dict()


def step_in_micro_batches(
    name: str, model: Seq2Seq, batch, accumulate: int
) -> tuple[dict[str, float], list[torch.Tensor]]:
    """The metrics of one step, and its gradient: the weight change of plain SGD with learning rate 1."""
    model.load_state_dict(initial_weights(name))
    before = [weight.detach().clone() for weight in model.parameters()]
    plain = {
        "optimizer": SGD(momentum=0.0),
        "schedule": Constant(),
        "learning_rate": 1.0,
        "max_grad_norm": 0.0,
        "steps": 5,
    }
    settings = Training(accumulate=accumulate, **plain)
    metrics = Trainer(model, NextToken(label_smoothing=0.1), settings, CPU).train_step(batch)
    after = [weight.detach() for weight in model.parameters()]
    return metrics, [old - new for old, new in zip(before, after, strict=True)]


@pytest.mark.parametrize("name", INDEPENDENT_OF_BATCH)
@few_examples()
@given(rows=st.lists(st.integers(1, 6), min_size=2, max_size=5), seed=st.integers(0, 99), accumulate=st.integers(2, 7))
def test_micro_batches_give_the_gradient_of_the_batch(name, rows, seed, accumulate):
    model, batch = perturbed_model(without_dropout(name), dtype=torch.float64), pairs(rows, seed=seed)
    metrics, full_grads = step_in_micro_batches(name, model, batch, 1)
    accumulated_metrics, accumulated_grads = step_in_micro_batches(name, model, batch, accumulate)
    for expected, actual in zip(full_grads, accumulated_grads, strict=True):
        assert_close(actual, expected, rtol=1e-5, atol=1e-6)
    assert accumulated_metrics == pytest.approx(metrics, rel=1e-5)
    assert metrics["tokens"] == sum(rows) + len(rows)


@every_family
def test_dropout_is_disabled_in_eval_and_enabled_in_training(name):
    model, batch = perturbed_model(FAMILIES[name]), pairs([3, 5, 2])
    assert torch.equal(model(batch), model(batch))
    model.train()
    assert not torch.allclose(model(batch), model(batch))


@pytest.mark.parametrize("name", INDEPENDENT_OF_BATCH)
def test_without_dropout_training_mode_computes_what_eval_mode_does(name):
    model, batch = perturbed_model(without_dropout(name)), pairs([3, 5, 2])
    expected = model(batch)
    model.train()
    assert torch.equal(model(batch), expected)


def test_dropout_does_not_change_the_mean():
    model, batch = perturbed_model(FAMILIES["transformer, pre-norm"]), pairs([3])
    for embedding, tokens in ((model.source, batch.source), (model.target, batch.target)):
        expected = embedding(tokens).values
        embedding.train()
        samples = torch.stack([embedding(tokens).values for _ in range(2000)])
        error = samples.std(0) / 2000**0.5
        assert ((samples.mean(0) - expected).abs() <= 4.5 * error + 1e-6).all()


# Shape checks and torch.compile are incompatible, so this runs in a process without them.
COMPILE_SCRIPT = """
import sys, torch
from tiny_models import FAMILIES, pairs, perturbed_model
from seq2see.acceleration.cuda_graphs import compile_blocks
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import SGD
from seq2see.training.optimizers import Constant
from seq2see.training.settings import Training

plain = {"optimizer": SGD(momentum=0.0), "schedule": Constant(), "learning_rate": 1.0, "max_grad_norm": 0.0}
batch, results = pairs([3, 5, 2]), []
for compile in (False, True):
    model = perturbed_model(FAMILIES[sys.argv[1]].with_(**{"encoder.dropout": 0.0, "decoder.dropout": 0.0}))
    trainer = Trainer(model, NextToken(), Training(**plain), torch.device("cpu"))
    if compile:  # the trainer itself compiles on a GPU only
        compile_blocks(model)
    metrics = trainer.train_step(batch)
    results.append([torch.tensor(metrics["loss"]), *model.state_dict().values()])
for eager, compiled in zip(*results, strict=True):
    torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=1e-5)
print("equal")
"""


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["transformer, pre-norm", "convolutional to transformer"])
def test_a_compiled_model_gives_the_same_loss_and_gradients(name):
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", COMPILE_SCRIPT, name],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "equal\n", run.stderr


@every_family
def test_every_architecture_can_overfit_one_batch(name):
    batch = pairs([4, 3, 5], [3, 4, 2], seed=3)
    model = fresh_model(without_dropout(name), (SOURCE_SIZE, TARGET_SIZE), "xavier", seed=1)
    settings = Training(optimizer=Adam(), schedule=Constant(), learning_rate=0.02, steps=300)
    trainer = Trainer(model, NextToken(), settings, CPU)
    while trainer.step < settings.steps:
        if trainer.train_step(batch)["loss"] < 0.05:
            break
    assert trainer.step < settings.steps
    with trainer.evaluation_model() as trained, torch.no_grad():
        predictions = trained(batch).argmax(-1)
    assert torch.equal(predictions[batch.label_mask], batch.labels[batch.label_mask])


def test_an_untrained_model_has_a_high_loss():
    """The counterpart of the test above: at the beginning the loss is high."""
    batch = pairs([4, 3, 5], [3, 4, 2], seed=3)
    model = fresh_model(FAMILIES["transformer, pre-norm"], (SOURCE_SIZE, TARGET_SIZE), "xavier", seed=1).eval()
    loss = NextToken().loss(model.hidden(batch), model.head, batch.labels).item() / int(batch.label_mask.sum())
    assert 1.5 < loss < 5.0
