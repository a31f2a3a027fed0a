"""One optimizer step in its parts, decoder inputs, averages and early stopping."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.core.batch import pick_rows
from seq2see.training import loop
from seq2see.training.loop import NonFinite, Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import NTASGD, SGD, Constant, Cosine, ExponentialMovingAverage, NoAverage
from seq2see.training.scheduled_sampling import FreeRunning, ScheduledSampling, sample_decoder_inputs
from seq2see.training.settings import Training
from tiny_models import FAMILIES, pairs, perturbed_model

CPU = torch.device("cpu")
PLAIN = {"optimizer": SGD(momentum=0.0), "schedule": Constant(), "max_grad_norm": 0.0}
BATCH = pairs([3, 5, 2])


trainer_class: list[type[Trainer]] = []


@pytest.fixture(autouse=True, params=[Trainer, AcceleratedTrainer])
def both_trainers(request: pytest.FixtureRequest):
    """Every test runs with the definition and with the accelerated trainer."""
    trainer_class[:] = [request.param]


def trainer(name: str = "recurrent, bilinear", objective: NextToken | None = None, dropout=0.0, **changes) -> Trainer:
    settings = FAMILIES[name].with_(**{"encoder.dropout": dropout, "decoder.dropout": dropout})
    training = Training(**{"steps": 10, "learning_rate": 0.5, "seed": 3} | PLAIN | changes)
    return trainer_class[0](perturbed_model(settings), objective or NextToken(), training, CPU)


def copies(one: Trainer) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in one.weights.items()}


def mean_gradient(one: Trainer, batch=BATCH) -> dict[str, torch.Tensor]:
    """The gradient of the mean loss per label, computed apart from the trainer."""
    logits = one.model(batch)
    log_probabilities = logits.log_softmax(-1)[batch.label_mask]
    loss = -log_probabilities.gather(1, batch.labels[batch.label_mask][:, None]).mean()
    gradients = torch.autograd.grad(loss, list(one.weights.values()), materialize_grads=True)
    return dict(zip(one.weights, gradients, strict=True)) | {"loss": loss.detach()}


# One step


def test_one_step_by_hand():
    one = trainer()
    before, expected = copies(one), mean_gradient(one)
    metrics = one.train_step(BATCH)
    assert metrics["loss"] == pytest.approx(expected.pop("loss").item(), rel=1e-5)
    assert metrics["tokens"] == 13
    assert metrics["learning_rate"] == 0.5
    norm = sum(float(gradient.square().sum()) for gradient in expected.values()) ** 0.5
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)
    for name, gradient in expected.items():
        assert_close(one.weights[name].detach(), before[name] - 0.5 * gradient, rtol=1e-4, atol=1e-5)
    assert one.step == 1
    assert all(weight.grad is None for weight in one.weights.values())


def test_a_long_gradient_is_clipped_after_it_was_divided():
    one = trainer(max_grad_norm=0.01)
    before, expected = copies(one), mean_gradient(one)
    del expected["loss"]
    norm = one.train_step(BATCH)["grad_norm"]
    assert norm > 0.01
    for name, gradient in expected.items():
        clipped = before[name] - 0.5 * gradient * 0.01 / norm
        assert_close(one.weights[name].detach(), clipped, rtol=1e-4, atol=1e-6)


def test_the_learning_rate_follows_the_schedule_from_the_first_step_on():
    one = trainer(schedule=Cosine(warmup=2), steps=4, learning_rate=0.1)
    before, expected = copies(one), mean_gradient(one)
    del expected["loss"]
    assert one.train_step(BATCH)["learning_rate"] == pytest.approx(0.05)
    for name, gradient in expected.items():
        assert_close(one.weights[name].detach(), before[name] - 0.05 * gradient, rtol=1e-4, atol=1e-6)
    assert [one.train_step(BATCH)["learning_rate"] for _ in range(3)] == pytest.approx([0.1, 0.05, 0.0])


def test_a_tied_weight_moves_once():
    one = trainer("transformer, pre-norm")
    assert one.model.head.table.weight is one.weights["target.table.weight"]
    assert "head.table.weight" not in one.weights
    before, expected = copies(one), mean_gradient(one)
    one.train_step(BATCH)
    moved = one.weights["target.table.weight"].detach()
    assert_close(moved, before["target.table.weight"] - 0.5 * expected["target.table.weight"], rtol=1e-4, atol=1e-5)


def test_dropout_depends_on_seed_and_step_and_not_on_earlier_random_numbers():
    def losses(seed: int, random_before: int) -> list[float]:
        one = trainer("transformer, pre-norm", dropout=0.3, seed=seed, learning_rate=1e-9)
        torch.randn(random_before)
        return [one.train_step(BATCH)["loss"] for _ in range(2)]

    assert losses(4, 0) == losses(4, 7)
    assert losses(4, 0) != losses(5, 0)
    assert losses(4, 0)[0] != losses(4, 0)[1]


def test_micro_batches_of_one_step_have_different_dropout():
    batch = pick_rows(pairs([4], seed=2), torch.tensor([0, 0]))
    seen = []
    one = trainer("transformer, pre-norm", dropout=0.3, accumulate=2)
    hidden = one.model.hidden
    one.model.hidden = lambda micro_batch: seen.append(hidden(micro_batch)) or seen[-1]
    one.train_step(batch)
    assert len(seen) == 2
    assert not torch.allclose(seen[0].values, seen[1].values)


def test_training_happens_in_training_mode():
    one = trainer(dropout=0.3)
    one.model.eval()
    one.train_step(BATCH)
    assert one.model.training


def test_a_loss_that_is_nan_stops_before_the_weights_change():
    one = trainer()
    with torch.no_grad():
        one.weights["decoder.cross_attention.combine.weight"][0, 0] = math.nan
    before = copies(one)
    with pytest.raises(NonFinite, match="Step 1") as caught:
        one.train_step(BATCH)
    assert caught.value.indices == [0, 1, 2]
    for name, weight in one.weights.items():
        assert torch.equal(before[name].nan_to_num(), weight.detach().nan_to_num())


def test_a_gradient_that_is_not_finite_stops_too():
    one = trainer(max_grad_norm=1.0)
    one.weights["decoder.cross_attention.combine.weight"].register_hook(lambda gradient: gradient * math.inf)
    before = copies(one)
    with pytest.raises(NonFinite, match="gradient norm"):
        one.train_step(BATCH)
    assert all(torch.equal(before[name], weight) for name, weight in one.weights.items())


def test_a_loss_that_is_not_finite_stops_too_and_so_do_all_steps_enqueued_after_it(monkeypatch):
    one = trainer()
    before = copies(one)
    with monkeypatch.context() as patch:  # only the loss is infinite: its gradient is finite
        patch.setattr(loop, "batch_loss", lambda objective, hidden, *_: hidden.values.sum() + math.inf)
        one.enqueue(BATCH)
    one.enqueue(BATCH)
    assert all(torch.equal(before[name], weight) for name, weight in one.weights.items())
    with pytest.raises(NonFinite, match="Step 1: loss inf"):
        one.fetch_metrics()


def test_examples_are_named_and_padding_rows_are_not():
    assert NonFinite(1, math.inf, 1.0, torch.tensor([[3, -1], [5, 0]])).indices == [3, 5, 0]


# Decoder inputs


def test_every_micro_batch_of_every_step_has_random_numbers_of_its_own(monkeypatch):
    one, seen = trainer(objective=NextToken(feeding=ScheduledSampling()), accumulate=3), []
    monkeypatch.setattr(
        loop, "sample_decoder_inputs", lambda model, micro_batch, ratio, seed, step: seen.append(step) or micro_batch
    )
    for _ in range(3):
        one.train_step(BATCH)
    assert len(set(seen)) == len(seen) == 9


def test_free_running_is_trained_on_its_own_predictions():
    one = trainer("recurrent, dot", NextToken(feeding=FreeRunning()))
    sampled = sample_decoder_inputs(one.model, BATCH, 0.0, seed=3, step=1)
    expected = mean_gradient(one, sampled)["loss"].item()
    assert expected != pytest.approx(mean_gradient(one)["loss"].item(), rel=1e-3)
    assert one.train_step(BATCH)["loss"] == pytest.approx(expected, rel=1e-5)


def test_the_teacher_forcing_ratio_follows_the_progress():
    objective = NextToken(feeding=ScheduledSampling(final_ratio=0.0))
    one = trainer("recurrent, dot", objective, steps=4, learning_rate=1e-9, accumulate=1)
    for step in (1, 2, 3, 4):
        sampled = sample_decoder_inputs(one.model, BATCH, 1 - step / 4, seed=3, step=step)
        assert one.train_step(BATCH)["loss"] == pytest.approx(mean_gradient(one, sampled)["loss"].item(), rel=1e-5)


# Averages


def test_a_moving_average_follows_every_step():
    one = trainer(average=ExponentialMovingAverage(decay=0.3))
    name = "decoder.cross_attention.combine.weight"
    expected = one.weights[name].detach().clone()
    for step in (1, 2, 3):
        one.train_step(BATCH)
        decay = min(0.3, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * one.weights[name].detach()
        assert_close(one.average[name], expected)
    assert not torch.allclose(expected, one.weights[name])


def test_averaged_weights_are_used_in_eval_mode_and_the_trained_ones_restored():
    one = trainer(average=ExponentialMovingAverage(decay=0.3), dropout=0.3)
    one.train_step(BATCH)
    own, name = copies(one), "decoder.cross_attention.combine.weight"
    with one.evaluation_model() as model:
        assert not model.training
        assert torch.equal(model.get_parameter(name), one.average[name])
        assert not torch.equal(own[name], one.average[name])
    assert one.model.training
    assert all(torch.equal(own[name], weight) for name, weight in one.weights.items())


def test_trained_weights_are_restored_after_an_error_too():
    one = trainer(average=ExponentialMovingAverage(decay=0.3))
    one.train_step(BATCH)
    own = copies(one)
    with pytest.raises(KeyError), one.evaluation_model():
        raise KeyError
    assert all(torch.equal(own[name], weight) for name, weight in one.weights.items())


def test_without_an_average_the_model_is_evaluated_as_it_is():
    one = trainer()
    own = copies(one)
    with one.evaluation_model() as model:
        assert not model.training
        assert all(torch.equal(own[name], weight) for name, weight in one.weights.items())
    assert one.average == {}


# Early stopping and evaluation steps


def test_patience_counts_evaluations_without_a_better_loss_and_keeps_the_best():
    one = trainer(patience=2)
    one.record_validation(3.0)
    best = copies(one)
    one.train_step(BATCH)
    one.record_validation(3.0)  # an equal loss is not better
    assert (one.best.loss, one.best.evaluations_since, one.done) == (3.0, 1, False)
    one.train_step(BATCH)
    one.record_validation(4.0)
    assert one.done
    assert all(torch.equal(best[name], weight) for name, weight in one.best.weights.items())
    one.train_step(BATCH)
    one.record_validation(2.0)
    assert (one.best.loss, one.best.evaluations_since, one.done) == (2.0, 0, False)


@pytest.mark.parametrize("average", [NoAverage(), ExponentialMovingAverage(decay=0.3)], ids=lambda each: each.kind)
def test_the_best_model_has_the_running_means_of_its_evaluation(average):
    """The statistics of a batch norm belong to its weights: with those of later steps the loss would differ."""
    one = trainer("transformer, batch norm", patience=2, average=average)
    one.train_step(BATCH)
    with one.evaluation_model() as used:
        expected = used(BATCH).detach()
    one.record_validation(1.0)
    assert not any(weight.requires_grad for weight in one.best.weights.values())
    one.train_step(BATCH)
    one.load_weights(one.best.weights)
    assert torch.equal(one.model.eval()(BATCH), expected)


def test_unknown_weights_cannot_be_loaded_into_a_model():
    with pytest.raises(AssertionError, match="nowhere"):
        trainer().load_weights({"nowhere.weight": torch.zeros(1)})


def test_the_best_weights_are_those_of_the_evaluation():
    one = trainer(patience=2, average=ExponentialMovingAverage(decay=0.3))
    one.train_step(BATCH)
    one.record_validation(3.0)
    assert all(torch.equal(one.average[name], weight) for name, weight in one.best.weights.items())


def test_without_patience_no_weights_are_stored():
    one = trainer()
    for _ in range(9):
        one.record_validation(1.0)
    assert not one.done
    assert one.best.weights == {}


def test_evaluation_steps_by_hand():
    one = trainer(steps=7, evaluate_every=3)
    assert [step for step in range(9) if one.is_evaluation_step(step)] == [3, 6, 7]


# R-Drop


def test_without_dropout_two_passes_agree_and_the_loss_is_that_of_one():
    one, two = trainer(), trainer(objective=NextToken(r_drop=3.0))
    assert two.train_step(BATCH)["loss"] == pytest.approx(one.train_step(BATCH)["loss"], rel=1e-5)
    assert trainer(dropout=0.4).train_step(BATCH)["tokens"] == two.train_step(BATCH)["tokens"]


def test_with_dropout_two_passes_differ_and_that_is_counted():
    weights = [trainer(objective=NextToken(r_drop=weight), dropout=0.4) for weight in (1e-9, 5.0)]
    little, much = (one.train_step(BATCH)["loss"] for one in weights)
    assert much > little + 0.01


def test_an_evaluation_that_is_repeated_after_a_stop_costs_no_patience():
    one = trainer(patience=2)
    one.record_validation(3.0)
    one.train_step(BATCH)
    one.record_validation(4.0)
    one.record_validation(4.0)
    assert (one.best.evaluations_since, one.done) == (1, False)


def test_averaging_begins_after_the_evaluation_that_triggers_it():
    one = trainer(average=NTASGD())
    weights = []
    for loss in [5.0, 6, 6, 6, 6, 6, 6, 4, 9]:
        one.train_step(BATCH)
        weights.append(copies(one))
        one.record_validation(loss)
        one.record_validation(loss)  # measured again after a stop: it counts once
    assert one.average_start == 8  # the seventh loss triggers
    assert len(one.validation_losses) == 9
    for name, average in one.average.items():
        assert_close(average, (weights[7][name] + weights[8][name]) / 2)
