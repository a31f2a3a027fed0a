"""What the decoder is fed: the truth, its own words, or a mixture that depends on seed and step alone."""

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


def by_hand(model, batch: Batch, truth: torch.Tensor | None = None) -> list[list[int]]:
    """Each row stepped alone: the next input is the truth where `truth` says so, else the best guess."""
    fed = []
    for row in range(batch.indices.numel()):
        source = Sequences(batch.source.values[row : row + 1], batch.source.lengths[row : row + 1])
        state, said = model.start(source, 1, 20), [int(batch.target.values[row, 0])]
        for time in range(1, batch.target.values.size(1)):
            logits, state = model.step(torch.tensor([said[-1:]]), state)
            own = int(logits[0, -1].argmax())
            given = truth is not None and bool(truth[row, time])
            said.append(int(batch.target.values[row, time]) if given else own)
        fed.append(said)
    return fed


def test_the_chances_of_the_truth_by_hand():
    assert [TeacherForcing().teacher_forcing_ratio(progress) for progress in (0.0, 0.5, 1.0)] == [1.0, 1.0, 1.0]
    assert [FreeRunning().teacher_forcing_ratio(progress) for progress in (0.0, 0.5, 1.0)] == [0.0, 0.0, 0.0]
    line = [
        ScheduledSampling(final_ratio=0.2).teacher_forcing_ratio(progress) for progress in (0.0, 0.25, 0.5, 1.0, 3.0)
    ]
    assert line == pytest.approx([1.0, 0.8, 0.6, 0.2, 0.2])


def test_teacher_forcing_leaves_the_batch_alone():
    batch = pairs([3, 5, 2])
    assert sample_decoder_inputs(tiny_model("recurrent, dot"), batch, 1.0, seed=1, step=1) is batch


@some_families
def test_free_running_feeds_the_models_own_best_words(name):
    model, batch = tiny_model(name), pairs([3, 5, 2], [6, 4, 5])
    fed = sample_decoder_inputs(model, batch, 0.0, seed=1, step=1)
    assert fed.target.values.tolist() == by_hand(model, batch)
    assert (fed.target.values[:, 0] == batch.target.values[:, 0]).all()
    assert not torch.equal(fed.target.values, batch.target.values)
    for name_of_part in ("source", "labels", "indices"):
        assert getattr(fed, name_of_part) is getattr(batch, name_of_part)
    assert fed.target.lengths is batch.target.lengths


def test_own_words_are_those_that_are_said_in_use_without_dropout():
    model, batch = perturbed_model(FAMILIES["recurrent, additive"]), pairs([3, 5, 2, 4], [9, 8, 9, 7])
    expected = sample_decoder_inputs(model, batch, 0.0, seed=1, step=1).target.values
    model.train()
    for _ in range(3):
        assert torch.equal(sample_decoder_inputs(model, batch, 0.0, seed=1, step=1).target.values, expected)


@some_families
def test_a_mixture_takes_the_truth_where_its_coin_says_so(name):
    model, batch = tiny_model(name), pairs([3, 5, 2], [6, 4, 5])
    fed = sample_decoder_inputs(model, batch, 0.4, seed=7, step=9)
    coins = torch.from_numpy(generator(7, "feeding", 9).random((3, 7)))
    assert fed.target.values.tolist() == by_hand(model, batch, coins < 0.4)


def test_coins_depend_on_seed_and_step_alone():
    model, batch = tiny_model("recurrent, dot"), pairs([5, 5, 4, 3], [9, 8, 9, 7])
    fed = [
        sample_decoder_inputs(model, batch, 0.5, seed, step).target.values
        for seed, step in ((1, 2), (1, 2), (1, 3), (2, 2))
    ]
    assert torch.equal(fed[0], fed[1])
    assert not torch.equal(fed[0], fed[2])
    assert not torch.equal(fed[0], fed[3])


@pytest.mark.parametrize("chance", [0.2, 0.7])
def test_the_truth_comes_with_the_chance_stated(chance):
    class Stubborn(torch.nn.Module):
        """Always says 9."""

        def start(self, source, rows, max_length):
            return None

        def step(self, tokens, state):
            logits = torch.zeros(*tokens.shape, 13)
            logits[..., 9] = 1.0
            return logits, None

    target = Sequences(torch.full((40, 51), 5), torch.full((40,), 51))
    batch = Batch(target, target, target.values, torch.arange(40))
    fed = sample_decoder_inputs(Stubborn(), batch, chance, seed=1, step=1).target.values
    share = (fed[:, 1:] == 5).float().mean()
    assert abs(float(share) - chance) < 0.04  # 2000 coins: about four deviations
    assert set(fed[:, 1:].unique().tolist()) == {5, 9}


@some_families
def test_one_pass_over_the_words_fed_is_the_loss_of_the_loop_step_by_step(name):
    model, batch = tiny_model(name), pairs([3, 5, 2], [6, 4, 5])
    fed = sample_decoder_inputs(model, batch, 0.5, seed=3, step=4)
    objective = NextToken()
    at_once = objective.loss(model.hidden(fed), model.head, fed.labels)
    state, losses = model.start(batch.source, 3, 7), []
    for time in range(7):
        logits, state = model.step(fed.target.values[:, time : time + 1], state)
        chances = logits[:, 0].log_softmax(-1)
        for row in range(3):
            if time <= batch.target.lengths[row] - 1:
                losses.append(-chances[row, batch.labels[row, time]])
    assert len(losses) == int(batch.label_mask.sum())
    assert_close(at_once, torch.stack(losses).sum(), rtol=1e-5, atol=1e-5)


def test_own_words_are_drawn_without_dropout_and_without_gradients():
    model, batch = perturbed_model(FAMILIES["transformer, pre-norm"]), pairs([3, 5, 2], [6, 4, 5])
    expected = sample_decoder_inputs(model, batch, 0.0, seed=1, step=1).target.values
    model.train()
    fed = sample_decoder_inputs(model, batch, 0.0, seed=1, step=1)
    assert torch.equal(fed.target.values, expected)
    assert all(part.training for part in model.modules())
    assert not any(weight.grad is not None for weight in model.parameters())
    model.eval()
    sample_decoder_inputs(model, batch, 0.0, seed=1, step=1)
    assert not any(part.training for part in model.modules())


def test_a_model_that_fails_is_left_in_its_mode():
    model, batch = perturbed_model(FAMILIES["recurrent, dot"]).train(), pairs([3])
    model.start = None
    with pytest.raises(TypeError):
        sample_decoder_inputs(model, batch, 0.0, seed=1, step=1)
    assert model.training
