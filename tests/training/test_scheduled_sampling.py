"""The inputs of the decoder: target tokens, predictions, or a mixture that depends on seed and step alone."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seq2see.core.batch import Batch, Sequences
from seq2see.core.seeds import generator
from seq2see.training.objectives import NextToken
from seq2see.training.scheduled_sampling import FreeRunning, ScheduledSampling, TeacherForcing, sample_decoder_inputs
from tiny_models import FAMILIES, pairs, perturbed_model, tiny_model

some_families = pytest.mark.parametrize(
    "name", ["transformer, pre-norm", "recurrent, additive", "transformer to recurrent"]
)


def by_hand(model, batch: Batch, use_target: torch.Tensor | None = None) -> list[list[int]]:
    """Each row stepped alone: the next input is the target token where `use_target`, else the best prediction."""
    rows = []
    for row in range(batch.indices.numel()):
        source = Sequences(batch.source.values[row : row + 1], batch.source.lengths[row : row + 1])
        state, inputs = model.start(source, 1, 20), [int(batch.target.values[row, 0])]
        for time in range(1, batch.target.values.size(1)):
            logits, state = model.step(torch.tensor([inputs[-1:]]), state)
            prediction = int(logits[0, -1].argmax())
            from_target = use_target is not None and bool(use_target[row, time])
            inputs.append(int(batch.target.values[row, time]) if from_target else prediction)
        rows.append(inputs)
    return rows


def test_teacher_forcing_ratios_by_hand():
    assert [TeacherForcing().teacher_forcing_ratio(progress) for progress in (0.0, 0.5, 1.0)] == [1.0, 1.0, 1.0]
    assert [FreeRunning().teacher_forcing_ratio(progress) for progress in (0.0, 0.5, 1.0)] == [0.0, 0.0, 0.0]
    ratios = [
        ScheduledSampling(final_ratio=0.2).teacher_forcing_ratio(progress) for progress in (0.0, 0.25, 0.5, 1.0, 3.0)
    ]
    assert ratios == pytest.approx([1.0, 0.8, 0.6, 0.2, 0.2])


def test_teacher_forcing_does_not_change_the_batch():
    batch = pairs([3, 5, 2])
    assert sample_decoder_inputs(tiny_model("recurrent, dot"), batch, 1.0, seed=1, step=1) is batch


@some_families
def test_free_running_uses_the_models_own_predictions(name):
    model, batch = tiny_model(name), pairs([3, 5, 2], [6, 4, 5])
    sampled = sample_decoder_inputs(model, batch, 0.0, seed=1, step=1)
    assert sampled.target.values.tolist() == by_hand(model, batch)
    assert (sampled.target.values[:, 0] == batch.target.values[:, 0]).all()
    assert not torch.equal(sampled.target.values, batch.target.values)
    for name_of_part in ("source", "labels", "indices"):
        assert getattr(sampled, name_of_part) is getattr(batch, name_of_part)
    assert sampled.target.lengths is batch.target.lengths


def test_predictions_are_those_of_inference_without_dropout():
    model, batch = perturbed_model(FAMILIES["recurrent, additive"]), pairs([3, 5, 2, 4], [9, 8, 9, 7])
    expected = sample_decoder_inputs(model, batch, 0.0, seed=1, step=1).target.values
    model.train()
    for _ in range(3):
        assert torch.equal(sample_decoder_inputs(model, batch, 0.0, seed=1, step=1).target.values, expected)


@some_families
def test_a_mixture_has_the_target_where_its_uniform_number_is_small(name):
    model, batch = tiny_model(name), pairs([3, 5, 2], [6, 4, 5])
    sampled = sample_decoder_inputs(model, batch, 0.4, seed=7, step=9)
    uniforms = torch.from_numpy(generator(7, "feeding", 9).random((3, 7)))
    assert sampled.target.values.tolist() == by_hand(model, batch, uniforms < 0.4)


def test_the_sampling_depends_on_seed_and_step_alone():
    model, batch = tiny_model("recurrent, dot"), pairs([5, 5, 4, 3], [9, 8, 9, 7])
    sampled = [
        sample_decoder_inputs(model, batch, 0.5, seed, step).target.values
        for seed, step in ((1, 2), (1, 2), (1, 3), (2, 2))
    ]
    assert torch.equal(sampled[0], sampled[1])
    assert not torch.equal(sampled[0], sampled[2])
    assert not torch.equal(sampled[0], sampled[3])


@pytest.mark.parametrize("ratio", [0.2, 0.7])
def test_target_tokens_have_the_probability_of_the_ratio(ratio):
    class Stubborn(torch.nn.Module):
        """Always predicts 9."""

        def start(self, source, rows, max_length):
            return None

        def step(self, tokens, state):
            logits = torch.zeros(*tokens.shape, 13)
            logits[..., 9] = 1.0
            return logits, None

    target = Sequences(torch.full((40, 51), 5), torch.full((40,), 51))
    batch = Batch(target, target, target.values, torch.arange(40))
    inputs = sample_decoder_inputs(Stubborn(), batch, ratio, seed=1, step=1).target.values
    share = (inputs[:, 1:] == 5).float().mean()
    assert abs(float(share) - ratio) < 0.04  # 2000 samples: about four standard deviations
    assert set(inputs[:, 1:].unique().tolist()) == {5, 9}


@some_families
def test_one_pass_over_the_sampled_inputs_has_the_loss_of_the_loop_step_by_step(name):
    model, batch = tiny_model(name), pairs([3, 5, 2], [6, 4, 5])
    sampled = sample_decoder_inputs(model, batch, 0.5, seed=3, step=4)
    objective = NextToken()
    parallel_loss = objective.loss(model.hidden(sampled), model.head, sampled.labels)
    state, losses = model.start(batch.source, 3, 7), []
    for time in range(7):
        logits, state = model.step(sampled.target.values[:, time : time + 1], state)
        log_probabilities = logits[:, 0].log_softmax(-1)
        for row in range(3):
            if time <= batch.target.lengths[row] - 1:
                losses.append(-log_probabilities[row, batch.labels[row, time]])
    assert len(losses) == int(batch.label_mask.sum())
    assert_close(parallel_loss, torch.stack(losses).sum(), rtol=1e-5, atol=1e-5)


def test_predictions_are_made_without_dropout_and_without_gradients():
    model, batch = perturbed_model(FAMILIES["transformer, pre-norm"]), pairs([3, 5, 2], [6, 4, 5])
    expected = sample_decoder_inputs(model, batch, 0.0, seed=1, step=1).target.values
    model.train()
    sampled = sample_decoder_inputs(model, batch, 0.0, seed=1, step=1)
    assert torch.equal(sampled.target.values, expected)
    assert all(part.training for part in model.modules())
    assert not any(weight.grad is not None for weight in model.parameters())
    model.eval()
    sample_decoder_inputs(model, batch, 0.0, seed=1, step=1)
    assert not any(part.training for part in model.modules())


def test_a_model_that_fails_keeps_its_mode():
    model, batch = perturbed_model(FAMILIES["recurrent, dot"]).train(), pairs([3])
    model.start = None
    with pytest.raises(TypeError):
        sample_decoder_inputs(model, batch, 0.0, seed=1, step=1)
    assert model.training
