"""The accelerated trainer: its losses are those of the definition, and which parts it uses."""

from __future__ import annotations

import pytest
import torch

from seq2see.acceleration import trainer as acceleration_trainer
from seq2see.acceleration.trainer import AcceleratedTrainer, can_be_captured
from seq2see.core.devices import plain_class
from seq2see.training.loop import Trainer
from seq2see.training.objectives import Classification, NextToken, NextValue
from seq2see.training.optimizers import SGD, Adam, Constant, ExponentialMovingAverage
from seq2see.training.scheduled_sampling import ScheduledSampling
from seq2see.training.settings import Training
from tiny_models import FAMILIES, pairs, perturbed_model

CPU = torch.device("cpu")
BATCH = pairs([3, 5, 2])


def trainer(
    name: str = "recurrent, bilinear", trainer_class: type[Trainer] = AcceleratedTrainer, **changes
) -> AcceleratedTrainer:
    settings = FAMILIES[name].with_(**{"encoder.dropout": 0.0, "decoder.dropout": 0.0})
    plain = {"optimizer": SGD(momentum=0.0), "schedule": Constant(), "max_grad_norm": 0.0}
    training = Training(**{"steps": 10, "learning_rate": 0.5, "seed": 3} | plain | changes)
    return trainer_class(perturbed_model(settings), NextToken(label_smoothing=0.1), training, CPU)


@pytest.mark.parametrize("name", FAMILIES)
def test_losses_and_weights_of_every_family_are_those_of_the_definition(name):
    accelerated, plain = (trainer(name, each, learning_rate=0.05) for each in (AcceleratedTrainer, Trainer))
    for _ in range(3):
        metrics, expected = accelerated.train_step(BATCH), plain.train_step(BATCH)
        assert metrics["loss"] == pytest.approx(expected["loss"], rel=1e-4)
        assert metrics["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-3)
    for key, weight in plain.weights.items():
        torch.testing.assert_close(accelerated.weights[key], weight, rtol=1e-3, atol=1e-4)
    assert all(plain_class(module) is type(module) for module in plain.model.modules())


def test_a_warmup_run_leaves_no_trace():
    """A GPU runs a step before it captures it; what follows must be as if it had not."""
    plain, warmed_up = (
        trainer("transformer, batch norm", average=ExponentialMovingAverage(), optimizer=Adam()) for _ in range(2)
    )
    for one in (plain, warmed_up):
        one.train_step(BATCH)  # now the average differs from the weights
    lerp_weight = warmed_up.lerp_weight.clone()
    with warmed_up._warmup():
        warmed_up.uncaptured_step(BATCH)
    assert warmed_up.lerp_weight == lerp_weight > 0
    assert all(weight.grad is None for weight in warmed_up.weights.values())
    for part in ("weights", "average"):
        for name, tensor in getattr(plain, part).items():
            assert torch.equal(getattr(warmed_up, part)[name], tensor)
    for one, other in zip(plain.model.buffers(), warmed_up.model.buffers(), strict=True):
        assert torch.equal(one, other)
    assert warmed_up.train_step(BATCH) == plain.train_step(BATCH)
    assert all(torch.equal(warmed_up.weights[name], weight) for name, weight in plain.weights.items())


@pytest.mark.parametrize(
    ("kernels", "precision", "expected"), [(True, "float32", True), (True, "bf16", False), (False, "float32", False)]
)
def test_a_cpu_has_onednn_layers_in_float32_if_they_are_enabled(monkeypatch, kernels, precision, expected):
    monkeypatch.setattr(acceleration_trainer, "linear_layers", lambda model: [model])
    one = trainer(custom_kernels=kernels, precision=precision)
    assert one.cpu_linears == [one.model] * expected


# Compiled for training, eager for everything else


def test_compiled_code_is_not_compiled_again_for_an_evaluation():
    compilations: list[int] = []
    compiled = torch.compile(
        lambda tensor: tensor + 1, backend=lambda graph, _: compilations.append(1) or graph.forward
    )
    one = trainer()
    one.compiled = True  # as with `training.compile` on a GPU
    with one.evaluation_model():
        compiled(torch.ones(2))
    assert not compilations
    compiled(torch.ones(2))
    assert compilations


def test_gradients_of_both_dtypes_count_in_the_norm(monkeypatch):
    """3 and 4 make 5; in bf16 a sum of 70,000 ones would have stopped at 256."""
    three, four = torch.tensor([3.0]), torch.tensor([4.0], dtype=torch.bfloat16)
    assert float(norm_of(monkeypatch, [three, four])) == 5
    assert float(norm_of(monkeypatch, [four])) == 4
    assert float(norm_of(monkeypatch, [three])) == 3
    many = torch.ones(70_000, dtype=torch.bfloat16)
    assert float(norm_of(monkeypatch, [many])) == pytest.approx(70_000**0.5, rel=1e-5)


def norm_of(monkeypatch: pytest.MonkeyPatch, gradients: list[torch.Tensor]) -> torch.Tensor:
    """The norm that a trainer computes for these gradients."""
    monkeypatch.setattr(acceleration_trainer, "gradients_of", lambda weights: gradients)
    return trainer().total_grad_norm()


def test_a_step_is_captured_if_its_objective_is_known_to_read_no_number():
    class OwnObjective(NextToken):
        """An objective from outside, which may read numbers."""

    assert all(map(can_be_captured, [NextToken(), Classification(), NextValue()]))
    assert not can_be_captured(NextToken(feeding=ScheduledSampling()))
    assert not can_be_captured(OwnObjective())
